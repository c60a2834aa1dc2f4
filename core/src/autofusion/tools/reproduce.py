"""Run a failing case that ``bisect`` wrote: what its script calls."""

from __future__ import annotations

import faulthandler
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import autofusion
from autofusion.ir.graph import Graph
from autofusion.runtime.session import Session
from autofusion.tools.cases import read_case
from autofusion.tools.samples import disturbed
from autofusion.tools.verify.exact import book_session, exact_session, widened
from autofusion.tools.verify.outputs import compare_outputs, same_bits
from autofusion.tools.verify.sites import SiteChecker
from autofusion.tools.verify.speed import lastingly_slow
from autofusion.tools.verify.tolerance import Tolerances


def run(
    folder: Path | str,
    *,
    level: str = "full",
    threads: int | None = None,
    only_sites: Sequence[str] | None = None,
    disable_kernels: Sequence[str] = (),
    repeats: int = 10,
    slower: float = 2.0,
    limit: float = 60.0,
) -> int:
    """Run the case in ``folder`` and print what is wrong; return 1 if anything is, otherwise 0.

    The outputs are compared with level off (a model that holds fused nodes: with their bodies) on the reference
    kernels, each step with its parts, repeated runs with each other, and times with those of the parts. Whatever takes
    longer than ``limit`` seconds ends the process with a traceback and exit code 1.
    """
    faulthandler.enable()
    faulthandler.dump_traceback_later(limit, exit=True)
    graph, inputs = read_case(Path(folder))
    session = autofusion.compile(
        graph, level=level, threads=threads, only_sites=only_sites, disable_kernels=disable_kernels
    )
    problems = _problems(graph, session, inputs, repeats, slower)
    faulthandler.cancel_dump_traceback_later()
    for problem in problems:
        print(f"wrong: {problem}")
    if not problems:
        print("nothing is wrong")
    return 1 if problems else 0


def _problems(graph: Graph, session: Session, inputs: dict[str, Any], repeats: int, slower: float) -> list[str]:
    checker = SiteChecker(session, all_steps=True, progress=lambda doing: print(doing, flush=True))
    first = checker.run(inputs, "case")
    different = 0
    for number in range(repeats):
        if number == repeats - 1:
            session.run(disturbed(inputs))
        checker.run(inputs, "case")
        different += not same_bits(session.run(inputs), first)
    problems = [f"{r.site} by {r.kernel}: {r.reason}" for r in checker.results.values() if r.reason]
    if different:
        problems.append(f"{different} of {repeats} runs gave other outputs")
    expected = book_session(graph).run(inputs)
    try:
        exact = exact_session(graph).run({name: widened(array) for name, array in inputs.items()})
    except Exception:  # an operator that exists in single precision only
        exact = None
    rows = compare_outputs(first, expected, exact, Tolerances())
    problems += [f"output {row['output']}: {row['reason']}" for row in rows if row["reason"]]
    return problems or _slow(graph, session, inputs, slower)


def _slow(graph: Graph, session: Session, inputs: dict[str, Any], slower: float) -> list[str]:
    off = autofusion.compile(unfused(graph), level="off", threads=session.context.target.threads)
    rows = lastingly_slow(session, off, inputs, slower, lambda doing: None)
    return [f"{row['site']}: {row['reason']}" for row in rows]


def unfused(graph: Graph) -> Graph:
    """A copy of ``graph`` with each fused node replaced by its body."""
    from autofusion.ir.graph import FUSED
    from autofusion.ir.specialise import inline

    new = graph.copy()
    for node in new.nodes:
        if node.op == FUSED:
            results, _ = inline(new, node.body, [v for v in node.inputs if v is not None])
            for old, value in zip(node.outputs, results, strict=True):
                new.replace_uses(old, value)
            new.remove(node)
    new.sort()
    return new
