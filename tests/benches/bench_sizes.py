"""Latency of an encoder over batch sizes and sequence lengths beside onnxruntime's, interleaved in one process.

    python -m tests.benches.bench_sizes [ROUNDS [THREADS]]

Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE first. Prints how many times Autofusion's latency onnxruntime takes, for
each batch (rows) and length (columns): the best of ROUNDS (7) blocks of both, in turns. One session serves all sizes.
With one thread (2 otherwise) processor time is measured, which is fair on a busy machine too.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import autofusion
from tests.zoo.encoder import save_encoder

Run = Callable[[dict[str, Any]], Any]
BATCHES = (1, 2, 4, 8, 16, 32)
LENGTHS = (1, 2, 3, 5, 8, 16, 32, 64, 128, 256, 512)
SIZE, LAYERS = 128, 2
BLOCK_SECONDS = 0.01
MOST = 1 << 13
"""Elements of batch times length: larger points only take longer."""


def main(arguments: Sequence[str]) -> None:
    """Print the table, and its lowest point."""
    rounds, threads = (int(text) for text in (*arguments, *("7", "2")[len(arguments) :]))
    clock = time.thread_time if threads == 1 else time.perf_counter
    ours, theirs = _contenders(threads)
    print("batch" + "".join(f"{length:>7}" for length in LENGTHS))
    lowest = (float("inf"), 0, 0)
    for batch in BATCHES:
        cells = []
        for length in LENGTHS:
            if batch * length > MOST:
                cells.append(f"{'-':>7}")
                continue
            ratio = _ratio(ours, theirs, (batch, length), rounds, clock)
            lowest = min(lowest, (ratio, batch, length))
            cells.append(f"{ratio:7.2f}")
        print(f"{batch:5}" + "".join(cells), flush=True)
    print("lowest: {:.2f} at batch {} and length {}".format(*lowest))


def _contenders(threads: int) -> tuple[Run, Run]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.onnx"
        save_encoder(path, layers=LAYERS, size=SIZE, heads=4, inner=4 * SIZE, length=None)
        session = autofusion.compile(path, threads=threads)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        other = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run, lambda feeds: other.run(None, feeds)


def _ratio(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    shape: tuple[int, int],
    rounds: int,
    clock: Callable[[], float],
) -> float:
    x = {"x": np.random.default_rng(0).standard_normal((*shape, SIZE)).astype(np.float32)}
    for run in (ours, theirs):
        run(x)
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for index, run in enumerate((ours, theirs)):
            start, count = clock(), 0
            while clock() - start < BLOCK_SECONDS or not count:
                run(x)
                count += 1
            best[index] = min(best[index], (clock() - start) / count)
    return best[1] / best[0]


if __name__ == "__main__":
    main(sys.argv[1:])
