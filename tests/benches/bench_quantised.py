"""Latency of quantised models beside onnxruntime and OpenVINO, and our own float32, interleaved in one process.

    python -m tests.benches.bench_quantised [MODEL:RECIPE ...]

Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE first. A recipe is one of `tests.zoo.quantised`, `dynamic`, or `asis` for
a model that is quantised already. Quantised models are kept beside the zoo's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autofusion.tools import versus
from tests.zoo import zoo
from tests.zoo.quantised import save_quantised

RUNS = (
    "resnet18:qdq",
    "resnet18:qoperator",
    "resnet50:qdq",
    "ppocr_cls:qdq",
    "ppocrv4_det:qdq",
    "ddddocr_common_old:asis",
)
THREADS = 2
LEVELS = ("off", "full")
SECONDS = 5.0


def quantised(name: str, recipe: str) -> Path:
    """The file of a quantised model, made on first use."""
    if recipe == "asis":
        return zoo.model_path(name)
    path = zoo.cache_dir() / "quantised" / f"{name}.{recipe}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_quantised(zoo.model_path(name), path, recipe, zoo.inputs(name))
    return path


def _measured(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Beside all peers, or those that read the model: OpenVINO lacks operators of onnxruntime's own."""
    try:
        return versus.measure(path, shapes, LEVELS, ("onnxruntime", "openvino"), SECONDS, {"threads": THREADS})
    except RuntimeError as error:
        print(f"openvino does not read it: {str(error).splitlines()[-1] or error}")
        return versus.measure(path, shapes, LEVELS, ("onnxruntime",), SECONDS, {"threads": THREADS})


def main(arguments: Sequence[str]) -> None:
    """Print one block a model and the geometric means; the float32 model of ours comes first."""
    rows = []
    for spec in arguments or RUNS:
        name, _, recipe = spec.partition(":")
        shapes = {n: array.shape for n, array in zoo.inputs(name).items()}
        if recipe != "asis":
            real = versus.measure(zoo.model_path(name), shapes, ("full",), (), SECONDS / 2, {"threads": THREADS})
            print("float32:", *versus.row_lines(real), sep="\n")
        row = _measured(quantised(name, recipe), shapes)
        rows.append(row)
        print("\n".join(versus.row_lines(row)), flush=True)
    print("\n".join(versus.mean_lines(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
