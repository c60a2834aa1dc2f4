"""One line for each operator of the default domain at a usual size, beside onnxruntime, interleaved in one process.

    python -m tests.benches.bench_operators [--threads N] [--seconds S] [OPERATOR ...]

Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE first. The last lines have the median of the ratios and the worst ones.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import defs

import autofusion
from autofusion.tools.bench import interleave
from autofusion.tools.peers import peer
from tests.benches.operator_cases import Case, cases, names

SECONDS = 0.4


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("operators", nargs="*")
    given = parser.parse_args(arguments)
    ratios: dict[str, float] = {}
    print(f"{'operator':28} {'ours us':>10} {'onnxruntime us':>15} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if given.operators and case.op not in given.operators:
                continue
            ratio = _line(case, Path(folder) / "model.onnx", given.threads, given.seconds)
            if ratio is not None:
                ratios[case.op] = ratio
    if not given.operators:
        _print_uncovered()
    if ratios:
        ranked = sorted(ratios.items(), key=lambda item: -item[1])
        above = [f"{op} {ratio:.1f}" for op, ratio in ranked if ratio > 3]
        slower = sum(ratio > 1 for ratio in ratios.values())
        median = statistics.median(ratios.values())
        print(f"{len(ratios)} operators, {given.threads} thread(s): median ratio {median:.2f}")
        print(f"slower than onnxruntime: {slower}; above 3: {', '.join(above) or 'none'}; worst {ranked[0][0]}")


def _line(case: Case, path: Path, threads: int, seconds: float) -> float | None:
    """Print the line of one operator; its ratio, or None where either cannot run it."""
    model, feeds = case.model()
    onnx.save(model, path)
    try:
        session = autofusion.compile(path, threads=threads)
        session.run(feeds)
    except autofusion.AutofusionError as error:
        print(f"{case.op:28} refused: {str(error)[:90]}", flush=True)
        return None
    try:
        other = peer("onnxruntime", path, feeds, threads)
        other()
    except Exception as error:
        print(f"{case.op:28} {'':10} onnxruntime refuses: {str(error)[:60]!r}", flush=True)
        return None
    contenders = {"ours": lambda: session.run(feeds), "other": other}
    ours, theirs = interleave(contenders, seconds=seconds, block=seconds / 8, pause=0.002)
    ratio = ours.median / theirs.median
    print(f"{case.op:28} {ours.median * 1e6:10.1f} {theirs.median * 1e6:15.1f} {ratio:8.2f}", flush=True)
    return ratio


def _print_uncovered() -> None:
    """Say which operators of the installed onnx have no line."""
    known = {s.name for s in defs.get_all_schemas() if not s.domain and not s.deprecated}
    print(f"without a line: {' '.join(sorted(known - names())) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1:])
