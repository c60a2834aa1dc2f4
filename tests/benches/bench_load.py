"""Starting from a prepared file, each in a fresh process: ours, onnxruntime's optimised model, OpenVINO's cached blob.

    python -m tests.benches.bench_load MODEL [NAME:DIMS ...]

Prints milliseconds (the median of several processes) of imports, of loading, of the first run and of a steady one; then
what two processes with the same file take together, as the proportional set size of each.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ENGINES = ("autofusion", "onnxruntime", "openvino")
PROCESSES, STEADY, THREADS = 5, 15, 2
Run = Callable[[dict[str, Any]], Any]


def main(arguments: Sequence[str]) -> None:
    """Print one line for each engine that is installed."""
    if arguments[:1] == ["--child"]:
        _child(*arguments[1:4])
        return
    model, *stated = arguments
    with tempfile.TemporaryDirectory() as folder:
        prepared = _prepare(Path(model), stated, Path(folder))
        print(f"{'engine':12}   import     load    first   steady   import+load+first")
        for engine, file in prepared.items():
            runs = [json.loads(_start(engine, file, folder).communicate()[0]) for _ in range(PROCESSES)]
            row = {name: 1e3 * statistics.median(run[name] for run in runs) for name in runs[0] if name != "pss"}
            whole = row["import"] + row["load"] + row["first"]
            print(f"{engine:12} " + " ".join(f"{value:8.1f}" for value in row.values()) + f"  {whole:8.1f}")
        for engine, file in prepared.items():
            alone = json.loads(_start(engine, file, folder).communicate()[0])["pss"]
            both = [_start(engine, file, folder, hold="hold") for _ in range(2)]
            for child in both:
                assert child.stdout is not None
                child.stdout.readline()
            shared = [_pss(child.pid) for child in both]
            for child in both:
                child.communicate(b"\n")
            print(f"{engine:12} PSS alone {alone / 1e6:.0f} MB, of two each {sum(shared) / 2e6:.0f} MB")


def _prepare(model: Path, stated: Sequence[str], folder: Path) -> dict[str, str]:
    import numpy as np
    import onnxruntime

    import autofusion
    from autofusion.tools import inputs as made

    shapes = made.parse_shapes(tuple(stated))
    session = autofusion.compile(model, shapes=shapes or None, threads=THREADS)
    np.savez(folder / "feeds.npz", **made.random_inputs(session.graph, shapes, 0))
    session.save(folder / "model.af")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    prepared = {"autofusion": str(folder / "model.af"), "onnxruntime": str(folder / "optimised.onnx")}
    try:
        import openvino
    except ImportError:
        return prepared
    core = openvino.Core()
    read = core.read_model(model)
    if shapes:
        read.reshape({name: list(shape) for name, shape in shapes.items()})
    compiled = core.compile_model(read, "CPU", {"INFERENCE_NUM_THREADS": THREADS})
    (folder / "model.blob").write_bytes(compiled.export_model().getvalue())
    return prepared | {"openvino": str(folder / "model.blob")}


def _start(engine: str, file: str, folder: str, hold: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.benches.bench_load", "--child", engine, file, f"{hold}:{folder}/feeds.npz"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _child(engine: str, file: str, rest: str) -> None:
    hold, _, feeds_file = rest.partition(":")
    times = [time.perf_counter()]
    import numpy as np

    load = _imported(engine)
    times.append(time.perf_counter())
    feeds = dict(np.load(feeds_file))
    times.append(time.perf_counter())
    run = load(file)
    times.append(time.perf_counter())
    run(feeds)
    times.append(time.perf_counter())
    steady = []
    for _ in range(STEADY):
        start = time.perf_counter()
        run(feeds)
        steady.append(time.perf_counter() - start)
    told: dict[str, float] = {"import": times[1] - times[0], "load": times[3] - times[2], "first": times[4] - times[3]}
    print(json.dumps(told | {"steady": statistics.median(steady), "pss": _pss("self")}), flush=True)
    if hold:
        sys.stdin.readline()


def _imported(engine: str) -> Callable[[str], Run]:
    if engine == "autofusion":
        import autofusion

        load_artefact = autofusion.load_artefact
        return lambda file: load_artefact(file).run
    if engine == "onnxruntime":
        import onnxruntime

        def load(file: str) -> Run:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = THREADS
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            return lambda feeds: session.run(None, feeds)

        return load
    import openvino

    def load_blob(file: str) -> Run:
        core = openvino.Core()
        return core.import_model(Path(file).read_bytes(), "CPU", {"INFERENCE_NUM_THREADS": THREADS})

    return load_blob


def _pss(process: int | str) -> int:
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
