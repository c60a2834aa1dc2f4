"""What other runtimes gain from an exported file: onnxruntime and OpenVINO on the original and on the inlined export.

python -m tests.benches.bench_export [MODEL ...]
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import autofusion as af
from autofusion.tools.bench import interleave
from autofusion.tools.export import export
from autofusion.tools.peers import peer
from tests.zoo import zoo

MODELS = ("resnet18", "resnet50", "ppocr_cls", "ppocrv4_det", "ppocrv4_rec", "picodet", "yolov8n", "ppocrv6_rec")
THREADS = 2
SECONDS = 6.0


def main(arguments: Sequence[str]) -> None:
    """Print, for each model and runtime, the latency on the export relative to the original."""
    for name in arguments or MODELS:
        feeds = zoo.inputs(name)
        shapes = {n: a.shape for n, a in feeds.items()}
        session = af.compile(zoo.model_path(name), shapes=shapes, threads=THREADS)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.onnx"
            count = export(session, path, inline=True)
            files = {"original": zoo.model_path(name), "export": path}
            runs = {
                (runtime, which): functools.partial(lambda run: run(), peer(runtime, file, feeds, THREADS))
                for runtime in ("onnxruntime", "openvino")
                for which, file in files.items()
            }
            timings = interleave({f"{r} {w}": run for (r, w), run in runs.items()}, seconds=SECONDS)
        by_name = {t.name: t for t in timings}
        print(f"{name}: {len(session.source)} nodes, {count} exported")
        for runtime in ("onnxruntime", "openvino"):
            old, new = by_name[f"{runtime} original"], by_name[f"{runtime} export"]
            median = f"median {_change(old.median, new.median)}"
            print(f"  {runtime:12} {median}   minimum {_change(old.minimum, new.minimum)}", flush=True)


def _change(before: float, after: float) -> str:
    return f"{1e3 * before:8.2f} -> {1e3 * after:8.2f} ms ({after / before:.2f}x)"


if __name__ == "__main__":
    main(sys.argv[1:])
