"""What a rule is: a statement of what may be rewritten or fused without changing the meaning. Nothing about speed.

Two kinds. A ``RewriteRule`` replaces matched nodes by ordinary operators with the same meaning (folds, recompositions,
cancellations). A ``FuseRule`` proposes regions: sets of nodes that may run as one ``Fused`` node. Rules see the graph
and nothing else: no cost, no layout, no kernel. They are immutable and keep no state between matches.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.types import Type
from autofusion.kinds import FusedKind
from autofusion.refusal import Refusal
from autofusion.rules.level import Level
from autofusion.rules.pattern import Match, Pattern


class Stage(enum.Enum):
    """When a rule runs; each stage runs to a fixed point before the next begins."""

    CANONICALISE = "canonicalise"
    """Recompose, normalise, cancel: the graph says the same in fewer, more telling operators."""
    FOLD = "fold"
    """Move arithmetic into constants."""
    FUSE = "fuse"
    """Wrap regions into fused nodes."""


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """Matched nodes become others with the same meaning.

    ``rewrite`` builds the replacement with the builder and returns one value for each result of ``match.root`` (None
    for one that nobody uses), or a ``Refusal`` if the rewrite is not legal; the engine redirects the uses, copies
    origins, removes what became dead, and verifies, or takes back what was built. Interior values that someone else
    needs (another consumer, a graph output) are refused by the engine before, unless the pattern node says
    ``shared=True`` (then the rewrite must leave that node alive).

    ``portable=False`` says that the result is not simpler, only what kernels here run better: files that are exported
    for other runtimes keep the source's form.
    """

    name: str
    pattern: Pattern
    rewrite: Callable[[Match, Builder], Sequence[Value | None] | Refusal]
    stage: Stage = Stage.CANONICALISE
    level: Level = Level.BASIC
    priority: int = 0
    doc: str = ""
    portable: bool = True


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that may run as one: ``nodes`` in topological order, ``anchor`` the one that gives the region its kind.

    The engine makes the body (a copy of the nodes), finds its operands and results, and checks that the region is
    convex. A value used outside becomes a result of the region; ``multiple_results`` says that more than one is fine.
    """

    nodes: tuple[Node, ...]
    anchor: Node
    multiple_results: bool = False


@dataclass(frozen=True, slots=True)
class FuseRule:
    """Regions become ``Fused`` nodes of ``kind``.

    ``grow(node)`` is called for every node whose operator is in ``roots`` (or whose class is in ``root_classes``). It
    yields ``Region`` candidates for that anchor, the largest first, then smaller ones that are legal too, so that the
    planner can fall back when no kernel takes the largest or when nodes are already taken. It yields a ``Refusal``
    where growth stopped for a reason worth telling (near-miss).
    """

    name: str
    kind: FusedKind
    grow: Callable[[Node], Iterator[Region | Refusal]]
    roots: frozenset[str] = frozenset()
    root_classes: frozenset[Any] = frozenset()
    stage: Stage = Stage.FUSE
    level: Level = Level.FULL
    priority: int = 0
    doc: str = ""


Rule = RewriteRule | FuseRule


@dataclass(frozen=True, slots=True)
class RulePack:
    """A named, versioned set of rules. Rule names begin with the pack's name: ``conv.epilogue``.

    ``unfolded`` names operators on constants that the engine leaves to the pack where only contractions read them: its
    rules look at them first, and fold what is left.
    """

    name: str
    version: str
    rules: tuple[Rule, ...]
    unfolded: frozenset[str] = frozenset()

    @property
    def kinds(self) -> tuple[FusedKind, ...]:
        """The fused kinds that the rules emit, by name."""
        found = {rule.kind.name: rule.kind for rule in self.rules if isinstance(rule, FuseRule)}
        return tuple(found[name] for name in sorted(found))


class Builder:
    """Makes the replacement's nodes and constants in the graph of a match, with the match's origins."""

    __slots__ = ("_origin", "graph", "made")

    def __init__(self, graph: Graph, origin: tuple[str, ...]) -> None:
        self.graph = graph
        self._origin = origin
        self.made: list[Node] = []

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Any] | None = None,
        *,
        outputs: int | Sequence[Type | None] = 1,
        name: str = "",
    ) -> Node:
        """A new node; its result types are inferred by the engine if they are not given."""
        node = self.graph.node(op, inputs, attrs, outputs=outputs, name=name, origin=self._origin)
        self.made.append(node)
        return node

    def op(self, op: str, *inputs: Value | None, name: str = "", **attrs: Any) -> Value:
        """A new one-result node; returns its result."""
        return self.node(op, inputs, attrs, name=name).output

    def constant(self, data: np.ndarray | float | int | Sequence[int], dtype: Any = None, name: str = "const") -> Value:
        """A new constant (never edit an existing one: someone else may share it)."""
        return self.graph.constant(np.asarray(data, dtype=dtype), name)
