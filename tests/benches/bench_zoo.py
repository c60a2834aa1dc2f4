"""Latency of the zoo's networks at levels off and full beside onnxruntime and OpenVINO, interleaved in one process.

    python -m tests.benches.bench_zoo [MODEL[#CASE] ...]

Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE first. Without arguments: the networks of the main job.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from autofusion.tools import versus
from tests.zoo import zoo

MODELS = ("resnet18", "resnet50", "ppocr_cls", "ppocrv4_det", "ppocrv4_rec", "picodet")
THREADS = 2
SECONDS = 10.0


def main(arguments: Sequence[str]) -> None:
    """Print one block a model and the geometric means."""
    rows = []
    for spec in arguments or MODELS:
        name, _, case = spec.partition("#")
        shapes = {n: array.shape for n, array in zoo.inputs(name, int(case or 0)).items()}
        peers = ("onnxruntime", "openvino")
        row = versus.measure(zoo.model_path(name), shapes, ("off", "full"), peers, SECONDS, {"threads": THREADS})
        rows.append(row)
        print("\n".join(versus.row_lines(row)), flush=True)
    print("\n".join(versus.mean_lines(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
