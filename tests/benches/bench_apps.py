"""Times of whole applications by onnxruntime and by its stand-in, in turns.

    python -m tests.benches.bench_apps [--rounds N] [NAME ...]

Each program of `tests/apps` runs unchanged in a process of its own, once by each before the rounds, so that files and
the object cache are warm. Columns, medians of the rounds: `load` makes the application, `whole` answers all inputs as
they first come, `first` is the first of those, `steady` an input that has been seen. A ratio is onnxruntime's time over
the stand-in's: more than one is a gain.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from tests.apps import apps

COLUMNS = ("load", "whole", "first", "steady")


def times(record: apps.Record) -> dict[str, float]:
    """Milliseconds by column."""
    seconds = {"load": record.load, "whole": record.whole, "first": record.calls[0], "steady": record.steady}
    return {column: 1e3 * value for column, value in seconds.items()}


def measure(name: str, rounds: int) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """(onnxruntime's medians, the stand-in's, differences of the answers)."""
    expected, found = apps.run(name, drop_in=False), apps.run(name, drop_in=True)
    taken: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for index in range(rounds):
        for drop_in in (False, True) if index % 2 else (True, False):
            taken[drop_in].append(times(apps.run(name, drop_in)))
    medians = [{c: statistics.median(t[c] for t in taken[way]) for c in COLUMNS} for way in (False, True)]
    return medians[0], medians[1], apps.differences(name, expected, found)


def main(arguments: list[str]) -> None:
    """Print a row an application, and the geometric means of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(apps.PROGRAMS)}")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in apps.PROGRAMS]
    if unknown or options.rounds < 1:
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "--rounds must be at least 1")
    print(f"{'ms, onnxruntime / here = ratio':46}" + "".join(f"{column:>30}" for column in COLUMNS), flush=True)
    ratios: dict[str, list[float]] = {column: [] for column in COLUMNS}
    for name in options.names or apps.PROGRAMS:
        theirs, ours, wrong = measure(name, options.rounds)
        cells = ""
        for column in COLUMNS:
            ratios[column].append(theirs[column] / ours[column])
            cells += f"{theirs[column]:11.2f} /{ours[column]:9.2f} = {ratios[column][-1]:5.2f}"
        print(f"{apps.PROGRAMS[name]:46}{cells}", flush=True)
        for line in wrong:
            print(f"    differs: {line}")
    means = "".join(f"{statistics.geometric_mean(ratios[column]):30.2f}" for column in COLUMNS)
    print(f"{'geometric mean of the ratios':46}{means}")


if __name__ == "__main__":
    main(sys.argv[1:])
