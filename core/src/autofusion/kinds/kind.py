"""What a fused kind is: the contract between the rules that emit it and the kernels that run it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from autofusion.ir import operators
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.operators import OpClass
from autofusion.refusal import Refusal


@dataclass(frozen=True, slots=True)
class FusedKind:
    """A kind of fused node, under ``name``: a kernel pack is asked by it, whatever rule made the node.

    ``version`` is ``major.minor``, that of the contract. A body has exactly one node of an operator in ``anchors`` (or
    none in particular, if that is empty: the last node is the anchor), ``inner`` operators besides, and otherwise nodes
    of the classes in ``classes`` only. ``body`` and ``operands`` say in words what a kernel has to expect. A kind of
    one's own has a name that begins with its pack's: ``acme.gate``.
    """

    name: str
    version: str = "1"
    anchors: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    classes: frozenset[OpClass] = frozenset({OpClass.POINTWISE})
    body: str = ""
    operands: str = ""

    def is_of(self, node: Node) -> bool:
        """True for a fused node of this kind."""
        return node.op == FUSED and node.attrs.get("kind") == self.name

    def anchor(self, node: Node) -> Node | Refusal:
        """The anchor in the body of a fused node, or an ordinary node that is one itself."""
        if node.op != FUSED:
            return node if node.op in self.anchors else Refusal(f"{node.label} is not {_one_of(self.anchors)}", node)
        if not self.is_of(node):
            return Refusal(f"{node.label} is of kind '{node.attrs.get('kind')}', not '{self.name}'", node)
        return self.anchor_of(node.body)

    def anchor_of(self, body: Graph) -> Node | Refusal:
        """The anchor in a body."""
        if not self.anchors:
            last = body.outputs[0].producer if body.outputs else None
            return last if last is not None else Refusal("the body computes nothing")
        found = [inner for inner in body.nodes if inner.op in self.anchors]
        if len(found) != 1:
            return Refusal(f"expected one {_one_of(self.anchors)} in the body, found {len(found)}")
        return found[0]

    def misfit(self, body: Graph) -> Refusal | None:
        """Why a body does not keep to the contract, or None."""
        anchor = self.anchor_of(body)
        if isinstance(anchor, Refusal):
            return anchor
        for node in body.nodes:
            if node is anchor or node.op in self.inner or operators.op_class(node) in self.classes:
                continue
            return Refusal(f"a body of kind '{self.name}' has no place for {node.label} ({node.op})", node)
        return None

    @property
    def is_numbered(self) -> bool:
        """True if the version is a number as 1 or 1.2."""
        return re.fullmatch(r"\d+(\.\d+)?", self.version) is not None

    def runs(self, emitted: FusedKind) -> bool:
        """True if a kernel for this version of the kind runs what a rule emits: same major, no later minor."""
        have, want = _numbers(self.version), _numbers(emitted.version)
        return self.name == emitted.name and have[0] == want[0] and have >= want


ANY_KIND = FusedKind("*", "*", body="any: run node by node")
"""Among the kinds of a kernel pack: every kind, since the pack runs bodies node by node."""


def find(kinds: Iterable[FusedKind], name: str) -> FusedKind | None:
    """The kind called ``name``."""
    return next((kind for kind in kinds if kind.name == name), None)


def operand_of(node: Node, value: Value) -> Value | None:
    """The operand of a fused node that ``value``, an input of its body, stands for; None if it is computed inside."""
    inputs = node.body.inputs
    return node.inputs[inputs.index(value)] if value in inputs else None


def table(kinds: Iterable[FusedKind]) -> str:
    """The kinds as a table in Markdown, for documentation."""
    rows = ["| kind | version | body | operands | anchors |", "|---|---|---|---|---|"]
    for kind in sorted(kinds, key=lambda each: each.name):
        anchors = _one_of(kind.anchors) if kind.anchors else "the last node"
        rows.append(f"| `{kind.name}` | {kind.version} | {kind.body} | {kind.operands} | {anchors} |")
    return "\n".join(rows) + "\n"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in version.split("."))


def _one_of(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
