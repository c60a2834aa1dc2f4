"""Patterns: small operator trees with wildcards that a rewrite rule matches, root first.

A pattern node names an operator (or several), its operand patterns and attribute requirements. Matching starts at the
root operator, follows producers, tries both orders of commutative operators, and backtracks; it never scans the graph,
so that all matching is linear in the number of nodes. A failed match keeps the deepest point it reached, with the
reason, so that near-misses can be explained.

    erf = op("Erf", op("Div", var("x"), const("sqrt2")))
    gelu = op("Mul", op("Mul", var("x"), op("Add", erf, const("one"))), const("half"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autofusion.errors import PluginError
from autofusion.ir.graph import Node, Value


@dataclass(frozen=True, slots=True)
class Var:
    """Any value, bound to ``name``; a second use of the name must be the same value. Absent only if ``optional``."""

    name: str
    where: Callable[[Value], bool] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """A constant that nobody may override, bound to ``name``.

    ``equals`` asks for a scalar (or uniform tensor) of that value: ``rtol`` is tight, since a constant that is nearly
    right is another function.
    """

    name: str
    equals: float | None = None
    rtol: float = 2e-6
    where: Callable[[np.ndarray], bool] | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """A node of one of ``ops``; its result ``result`` is what the surrounding pattern uses.

    ``inputs``: operand patterns; missing trailing operands must be absent in the graph unless ``open_inputs``.
    ``attrs``: required values (compared with the schema's default filled in) or predicates.
    ``shared``: the node may have consumers outside the match (it must then survive the rewrite).
    ``where``: a condition on the whole node, asked before its operands are looked at. At the root, a node that does not
    meet it is no site at all, and nothing is recorded: what a rule finds but must refuse belongs into its ``rewrite``.
    """

    ops: tuple[str, ...]
    inputs: tuple[Operand, ...]
    name: str = ""
    attrs: tuple[tuple[str, Any], ...] = ()
    shared: bool = False
    open_inputs: bool = False
    result: int = 0
    where: Callable[[Node], bool] | None = None


@dataclass(frozen=True, slots=True)
class Either:
    """The first of ``alternatives`` that matches."""

    alternatives: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Optional:
    """``inner`` if it matches at the value, otherwise the value itself, in the place of what ``inner`` would consume.

    ``inner``'s operand ``through`` is the pattern that continues either way.
    """

    inner: Op
    through: int = 0


@dataclass(frozen=True, slots=True)
class Repeat:
    """A chain of ``low`` to ``high`` nodes of ``step`` ending in ``base``; ``match.chains[name]`` has the nodes.

    The node nearest to the root comes first. Names inside ``step`` are local to each step: see ``matcher``.
    """

    step: Op
    base: Operand
    name: str
    low: int = 0
    high: int = 4
    through: int = 0


Operand = Var | Const | Op | Either | Optional | Repeat
Pattern = Op | Either
"""What a rule matches: one tree, or several (an Either of Ops, also nested) that the same rewrite serves."""


def op(
    ops: str | Sequence[str],
    *inputs: Operand,
    name: str = "",
    shared: bool = False,
    open_inputs: bool = False,
    result: int = 0,
    where: Callable[[Node], bool] | None = None,
    **attrs: Any,
) -> Op:
    """A pattern node; ``ops`` is one operator name or several."""
    names = (ops,) if isinstance(ops, str) else tuple(ops)
    return Op(names, inputs, name, tuple(attrs.items()), shared, open_inputs, result, where)


def var(name: str, where: Callable[[Value], bool] | None = None, *, optional: bool = False) -> Var:
    """Any value."""
    return Var(name, where, optional)


def const(name: str, equals: float | None = None, *, where: Callable[[np.ndarray], bool] | None = None) -> Const:
    """A constant."""
    return Const(name, equals, where=where)


def either(*alternatives: Operand) -> Either:
    """One of several patterns."""
    return Either(alternatives)


@dataclass(slots=True)
class Match:
    """A successful match: ``root`` and ``nodes`` (root first), values and nodes by pattern name.

    ``match["x"]`` is the value bound to ``x``; ``match.node("conv")`` the node of the pattern node named ``conv``;
    ``match.array("scale")`` the data of a constant.
    """

    root: Node
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    named: dict[str, Node] = field(default_factory=dict)
    chains: dict[str, list[Node]] = field(default_factory=dict)
    shared: set[Node] = field(default_factory=set)

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def get(self, name: str) -> Value | None:
        """The value bound to ``name``, or None if the operand is absent or the branch was not taken."""
        return self.values.get(name)

    def node(self, name: str) -> Node:
        """The node bound to ``name``."""
        return self.named[name]

    def array(self, name: str) -> np.ndarray:
        """The data of the constant bound to ``name``."""
        data = self.values[name].const
        assert data is not None, f"'{name}' is bound to a value that is not constant"
        return data


@dataclass(frozen=True, slots=True)
class Miss:
    """The deepest failure of a match: how many nodes had matched (``nodes``, root first), why it stopped, where.

    ``hint`` is what would change it, if that can be said.
    """

    depth: int
    reason: str
    culprit: Node | Value | None
    nodes: tuple[Node, ...] = ()
    hint: str = ""


def roots_of(pattern: Operand) -> list[Op]:
    """The trees of a rule's pattern; raise PluginError if one of them does not begin with an operator."""
    if isinstance(pattern, Op):
        return [pattern]
    if isinstance(pattern, Either):
        return [root for alternative in pattern.alternatives for root in roots_of(alternative)]
    raise PluginError(f"a rule's pattern must begin with an operator, found {type(pattern).__name__}")


def walk(pattern: Operand) -> Iterator[Operand]:
    """The pattern and everything inside it; a part that is used several times comes once."""
    waiting, seen = [pattern], {id(pattern)}
    while waiting:
        part = waiting.pop()
        yield part
        for child in reversed(children(part)):
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def children(pattern: Operand) -> tuple[Operand, ...]:
    """The patterns directly inside a pattern."""
    if isinstance(pattern, Op):
        return pattern.inputs
    if isinstance(pattern, Either):
        return pattern.alternatives
    if isinstance(pattern, Optional):
        return (pattern.inner,)
    if isinstance(pattern, Repeat):
        return (pattern.step, pattern.base)
    return ()
