"""Latency against TensorFlow in its best setting, side by side: oneDNN on, 2 intra-op and 1 inter-op threads.

    python -m tests.benches.bench_tensorflow [--rounds N] [--off] [MODEL ...]

Models are those of `keras.applications` with random weights at batch 1. The two take turns, a few runs each, so that a
busy machine slows both; minimum and median are over single runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from math import exp, log
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

HERE = Path(__file__).resolve()
import numpy as np

import autofusion as af
from plugins.frontends.tensorflow.tests import keras_models

MODELS = ("MobileNetV2", "ResNet50", "EfficientNetB0", "InceptionV3", "DenseNet121")
THREADS = 2
WARM, TURN = 5, 8

Run = Callable[[], Any]


def tensorflow_run(path: Path, image: np.ndarray) -> Run:
    """A callable of TensorFlow's session on the frozen graph: measured as its fastest way to run one."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=1)
    graph = tf.Graph()
    with graph.as_default():
        definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
        tf.graph_util.import_graph_def(definition, name="")
    session = tf.compat.v1.Session(graph=graph, config=config)
    function = session.make_callable("Identity:0", feed_list=["input:0"])
    return lambda: function(image)


def autofusion_run(path: Path, image: np.ndarray, level: str) -> Run:
    """A session of ours."""
    session = af.compile(path, level=level, threads=THREADS)
    return lambda: session.run({"input": image})


def measure(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of every run, in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(WARM):
            run()
    for _ in range(rounds):
        for name, run in runs.items():
            run()  # the caches are the other's
            for _ in range(TURN):
                start = time.perf_counter()
                run()
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


def main(arguments: list[str] | None = None) -> None:
    """Print a line a model, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--off", action="store_true", help="also without fusion")
    options = parser.parse_args(arguments)
    levels = ["full", "off"] if options.off else ["full"]
    print(f"{'model':18} {'TensorFlow':>16} " + " ".join(f"{level:>16}" for level in levels) + "   TensorFlow / full")
    print(f"{'':18} " + " ".join(f"{'median (min) ms':>16}" for _ in range(1 + len(levels))) + "   median  min")
    ratios = []
    for name in options.models or MODELS:
        path, image = keras_models.path_of(name), keras_models.MODELS[name].image()
        runs = {"tensorflow": tensorflow_run(path, image)}
        runs |= {level: autofusion_run(path, image, level) for level in levels}
        times = measure(runs, options.rounds)
        cells = [f"{statistics.median(t):8.2f} ({min(t):5.2f})" for t in times.values()]
        ratio = statistics.median(times["tensorflow"]) / statistics.median(times["full"])
        least = min(times["tensorflow"]) / min(times["full"])
        ratios.append(ratio)
        print(f"{name:18} " + " ".join(f"{c:>16}" for c in cells) + f"   {ratio:6.2f} {least:5.2f}", flush=True)
    print(f"geometric mean {exp(sum(map(log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
