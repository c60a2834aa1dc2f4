"""Measure one model at several levels, and in other runtimes, on the same inputs in one process."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import autofusion
from autofusion.options import state
from autofusion.tools import status
from autofusion.tools.bench import Run, geometric_mean, interleave, throughput
from autofusion.tools.compare import compare
from autofusion.tools.inputs import Wanted, random_inputs
from autofusion.tools.peers import peer


def measure(
    path: Path,
    shapes: Mapping[str, Sequence[int]],
    levels: Sequence[str],
    against: Sequence[str],
    seconds: float,
    settings: Mapping[str, Any],
    *,
    wanted: Wanted | None = None,
    streams: int = 0,
) -> dict[str, Any]:
    """Median, minimum and percentiles of the seconds of every contender, ratios to the last level, and how far its
    outputs are from the first's. With ``streams``, also the runs a second of so many threads that each have a session
    of their own, with its share of the cores unless ``settings`` says how many threads.
    """
    for level in levels:
        state({"level": level})
    status.say(f"{path.name}: compiling for levels {', '.join(levels)}")
    sessions = {level: autofusion.compile(path, shapes=shapes or None, level=level, **settings) for level in levels}
    first, last = sessions[levels[0]], sessions[levels[-1]]
    feeds = random_inputs(first.graph, shapes, wanted=wanted)
    contenders = {level: functools.partial(session.run, feeds) for level, session in sessions.items()}
    threads = last.context.target.threads
    runs: dict[str, Run] = {**contenders, **{name: peer(name, path, feeds, threads) for name in against}}
    status.say(f"{path.name}: measuring {', '.join(runs)}")
    apart = compare(last.run(feeds), first.run(feeds))
    timings = interleave(runs, seconds=seconds)
    rates = {}
    if streams:
        share = settings.get("threads") or max(1, threads // streams)
        for name in runs:
            if name in sessions:
                own = {**settings, "level": name, "threads": share}
                several = [autofusion.compile(path, shapes=shapes or None, **own) for _ in range(streams)]
                made: list[Run] = [functools.partial(session.run, feeds) for session in several]
            else:
                made = [peer(name, path, feeds, share) for _ in range(streams)]
            status.say(f"{path.name}: throughput of {name}")
            rates[name] = throughput(made, seconds / (2 * len(runs)))
    base = next(t for t in timings if t.name == levels[-1])
    return {
        "model": path.name,
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "threads": threads,
        "contenders": {
            t.name: {
                "median": t.median,
                "minimum": t.minimum,
                "runs": t.runs,
                "ratio_median": t.median / base.median,
                "ratio_minimum": t.minimum / base.minimum,
                "percentiles": dict(t.percentiles),
                **({"runs_per_second": rates[t.name]} if streams else {}),
            }
            for t in timings
        },
        "streams": streams,
        "reference": levels[-1],
        "max_abs": apart.max_abs,
        "max_over_range": apart.max_over_range,
        "mean_relative": apart.mean_relative,
    }


def row_lines(row: Mapping[str, Any]) -> list[str]:
    """A measured model as text."""
    shapes = " ".join(f"{n}:{','.join(map(str, s))}" for n, s in row["shapes"].items())
    lines = [f"{row['model']} {shapes} ({row['threads']} threads)".replace("  ", " ")]
    for name, t in row["contenders"].items():
        ratio = (
            ""
            if name == row["reference"]
            else f"   {t['ratio_median']:.2f}x of {row['reference']} (minimum {t['ratio_minimum']:.2f}x)"
        )
        lines.append(f"  {name:12} median {1e3 * t['median']:8.3f} ms  minimum {1e3 * t['minimum']:8.3f} ms{ratio}")
        shown = "  ".join(f"{p} {1e3 * s:.3f}" for p, s in t["percentiles"].items() if p != "p50")
        rate = f"   {t['runs_per_second']:.1f} runs/s by {row['streams']} streams" if row["streams"] else ""
        lines.append(f"  {'':12} {shown} ms{rate}")
    lines.append(
        f"  outputs: max-abs {row['max_abs']:.2e}, over range "
        f"{row['max_over_range']:.2e}, mean-relative {row['mean_relative']:.2e}"
    )
    return lines


def means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Geometric mean of the median ratios of each contender that every model has."""
    names = [n for n in rows[0]["contenders"] if n != rows[0]["reference"] and all(n in r["contenders"] for r in rows)]
    return {n: geometric_mean([r["contenders"][n]["ratio_median"] for r in rows]) for n in names}


def mean_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The geometric means as text."""
    return [
        f"geometric mean over {len(rows)} models: {name} takes {ratio:.2f}x of {rows[0]['reference']}"
        for name, ratio in means(rows).items()
    ]
