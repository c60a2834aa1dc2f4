"""What can be said of a pattern before it meets a graph: that it is well formed, how large it is, its local names."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from autofusion.errors import PluginError, nearest
from autofusion.ir import operators
from autofusion.rules.pattern import Either, Op, Operand, Optional, Repeat, children, walk


def _once(count: Callable[[Operand], int]) -> Callable[[Operand], int]:
    """``count`` with its answers kept: patterns share their parts, and rules share patterns."""
    known: dict[int, tuple[Operand, int]] = {}

    def counted(pattern: Operand) -> int:
        entry = known.get(id(pattern))
        if entry is None or entry[0] is not pattern:
            entry = known[id(pattern)] = (pattern, count(pattern))
        return entry[1]

    return functools.wraps(count)(counted)


def validate(pattern: Operand) -> None:
    """Refuse patterns that could never match: unknown attributes, a ``through`` past the operands."""
    for part in walk(pattern):
        _validate(part)


def _validate(pattern: Operand) -> None:
    if isinstance(pattern, Op):
        if not pattern.ops:
            raise PluginError("a pattern node names no operator; use var() for any value")
        for op in pattern.ops:
            schema = operators.find(op)
            for attribute, _ in pattern.attrs:
                if schema is not None and attribute not in schema.attributes:
                    hint = nearest(attribute, schema.attributes)
                    raise PluginError(f"a pattern asks for attribute '{attribute}', which '{op}' does not have{hint}")
    elif isinstance(pattern, (Optional, Repeat)):
        inner = pattern.inner if isinstance(pattern, Optional) else pattern.step
        if not 0 <= pattern.through < len(inner.inputs):
            raise PluginError(
                f"a pattern goes through operand {pattern.through} of {one_of(inner.ops)}, "
                f"which has {len(inner.inputs)} operands there"
            )


@_once
def least_nodes(pattern: Operand) -> int:
    """The least number of nodes that a match has."""
    if isinstance(pattern, Op):
        return 1 + sum(least_nodes(o) for o in pattern.inputs)
    if isinstance(pattern, Either):
        return min(least_nodes(o) for o in pattern.alternatives)
    if isinstance(pattern, Optional):
        return least_nodes(pattern.inner.inputs[pattern.through])
    if isinstance(pattern, Repeat):
        return pattern.low * (
            least_nodes(pattern.step) - least_nodes(pattern.step.inputs[pattern.through])
        ) + least_nodes(pattern.base)
    return 0


@_once
def most_nodes(pattern: Operand) -> int:
    """A number of nodes that no match exceeds."""
    if isinstance(pattern, Repeat):
        return pattern.high * most_nodes(pattern.step) + most_nodes(pattern.base)
    if isinstance(pattern, Either):
        return max(most_nodes(o) for o in pattern.alternatives)
    return isinstance(pattern, Op) + sum(most_nodes(o) for o in children(pattern))


@_once
def longest_path(pattern: Operand) -> int:
    """The longest path of nodes."""
    if isinstance(pattern, Repeat):
        return pattern.high + longest_path(pattern.step) + longest_path(pattern.base)
    return isinstance(pattern, Op) + max((longest_path(o) for o in children(pattern)), default=0)


def localised(step: Op, prefix: str, through: int) -> Op:
    """``step`` called ``prefix``, with every name inside it prefixed; its operand ``through`` is left alone."""
    inputs = tuple(
        operand if index == through else _prefixed(operand, prefix + ".") for index, operand in enumerate(step.inputs)
    )
    return dataclasses.replace(step, inputs=inputs, name=prefix)


def _prefixed(operand: Operand, prefix: str) -> Operand:
    if isinstance(operand, Either):
        return Either(tuple(_prefixed(o, prefix) for o in operand.alternatives))
    if isinstance(operand, Optional):
        inner = _prefixed(operand.inner, prefix)
        assert isinstance(inner, Op)
        return dataclasses.replace(operand, inner=inner)
    if isinstance(operand, Repeat):
        return dataclasses.replace(operand, name=prefix + operand.name, base=_prefixed(operand.base, prefix))
    name = operand.name and prefix + operand.name
    if isinstance(operand, Op):
        return dataclasses.replace(operand, name=name, inputs=tuple(_prefixed(o, prefix) for o in operand.inputs))
    return dataclasses.replace(operand, name=name)


def one_of(ops: Sequence[str]) -> str:
    return " or ".join(ops)
