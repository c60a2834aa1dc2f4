"""Resident memory of one and of four sessions of the same file, beside onnxruntime, each in a fresh process.

    python -m tests.benches.bench_memory [MODEL ...]

What a session takes is the resident set after compiling and running, less that of an interpreter in which the engine
has compiled and run a model of one node: its code is loaded, whichever model comes next. Prints megabytes, and the
ratio of ours to onnxruntime's.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.zoo import encoder, zoo

MODELS = ("resnet50", "ppocrv4_det", "bert")
ENGINES = ("autofusion", "onnxruntime")
COUNTS = (1, 4)
THREADS = 2
RUNS = 3
Run = Callable[[dict[str, np.ndarray]], Any]


def main(arguments: Sequence[str]) -> None:
    """Print one line for each model and number of sessions."""
    if arguments[:1] == ["--child"]:
        print(json.dumps(measure(*arguments[1:3], int(arguments[3]))))
        return
    print(f"{'model':14} sessions  autofusion  onnxruntime  ratio   peak: ours  onnxruntime")
    for name in arguments or MODELS:
        for count in COUNTS:
            found = [_in_child(engine, name, count) for engine in ENGINES]
            (ours, peak), (theirs, other) = ((each["resident"], each["peak"]) for each in found)
            print(
                f"{name:14} {count:8} {ours:8.0f} MB {theirs:9.0f} MB {ours / theirs:6.2f} "
                f"{peak:10.0f} MB {other:8.0f} MB",
                flush=True,
            )


def _in_child(engine: str, name: str, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benches.bench_memory", "--child", engine, name, str(count)]
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def measure(engine: str, name: str, count: int) -> dict[str, float]:
    """Megabytes that ``count`` sessions of a model take, and their peak, over the loaded interpreter."""
    path, inputs = model(name)
    start = {"autofusion": start_autofusion, "onnxruntime": start_onnxruntime}[engine]
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.onnx"
        _write_small(small)
        start(small)({"x": np.ones(4, np.float32)})
    gc.collect()
    before, sessions = memory("VmRSS"), []
    for _ in range(count):
        sessions.append(start(path))
        for _ in range(RUNS):
            sessions[-1](inputs)
    gc.collect()
    return {"resident": memory("VmRSS") - before, "peak": memory("VmHWM") - before}


def memory(key: str) -> float:
    """Megabytes of this process, as the kernel counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1000
    raise RuntimeError(f"/proc/self/status has no line '{key}'")


def model(name: str) -> tuple[Path, dict[str, np.ndarray]]:
    """The file, made if need be, and inputs: a network of the zoo, or ``bert``, an encoder of the size of BERT-base."""
    if name != "bert":
        return zoo.model_path(name), zoo.inputs(name)
    path = zoo.cache_dir() / "encoder-12x768.onnx"
    if not path.exists():
        part = path.with_suffix(".part")
        encoder.save_encoder(part, layers=12, size=768, heads=12, inner=3072, length=128)
        part.replace(path)
    return path, {"x": np.random.default_rng(0).standard_normal((1, 128, 768)).astype(np.float32)}


def start_autofusion(path: Path) -> Run:
    """A compiled session."""
    import autofusion as af

    return af.compile(path, threads=THREADS).run


def start_onnxruntime(path: Path) -> Run:
    """An inference session of onnxruntime with its default optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


def _write_small(path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


if __name__ == "__main__":
    main(sys.argv[1:])
