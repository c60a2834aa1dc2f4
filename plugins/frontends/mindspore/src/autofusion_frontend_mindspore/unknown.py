"""What of a model this frontend does not know, all at once: naming the first would cost its user a round for each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from autofusion_frontend_mindspore.plumbing import PLUMBING
from autofusion_frontend_mindspore.program import REFERENCE, Program
from autofusion_frontend_mindspore.registry import is_known


def rest(program: Program) -> str:
    """A sentence to follow the error for the first primitive without a converter; empty if there is no other."""
    found = _missing(program)
    if len(found) < 2:
        return ""
    listed = ", ".join(
        f"{primitive} ('{nodes[0]}'{f' and {len(nodes) - 1} more' if len(nodes) > 1 else ''})"
        for primitive, nodes in sorted(found.items())
    )
    return f". These operators of the model have no converter: {listed}"


def _missing(program: Program) -> dict[str, list[str]]:
    """Primitive without a converter -> its nodes, in the graphs that the model can call."""
    found: dict[str, list[str]] = {}
    for graph in (program.main, *(f for n, f in program.functions.items() if _is_called(program, n))):
        for node in graph.node:
            target = node.op_type.removeprefix(REFERENCE)
            if target not in program.primitives:
                continue
            primitive = program.primitives[target].op_type
            if primitive not in PLUMBING and not is_known(primitive):
                found.setdefault(primitive, []).append(program.label(node))
    return found


def _is_called(program: Program, name: str) -> bool:
    return any(name == start or program.reaches(start, name) for start in _named(program.main, program.functions))


def _named(graph: Any, functions: Collection[str]) -> set[str]:
    names = {name for node in graph.node for name in (*node.input, node.op_type.removeprefix(REFERENCE))}
    return {name for name in names if name in functions}
