"""Parts of a value that are put together again as they were."""

from __future__ import annotations

from typing import NamedTuple

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, RewriteRule, ints, normal_axis, op


class _Part(NamedTuple):
    """Elements ``low`` up to ``high`` of ``source`` along ``axis``."""

    source: Value
    axis: int
    low: int
    high: int


def _part(value: Value | None) -> _Part | None:
    """What a Split or a Slice with step 1 took, where the sizes are known."""
    node = None if value is None else value.producer
    source = None if node is None else node.inputs[0]
    if value is None or node is None or source is None or source.shape is None or value.shape is None:
        return None
    if node.op == "Split":
        axis, low = normal_axis(attribute(node, "axis"), len(source.shape)), 0
        for part in node.outputs:
            size = None if part.shape is None else part.shape[axis]
            if not isinstance(size, int):
                return None
            if part is value:
                return _Part(source, axis, low, low + size)
            low += size
        return None
    if node.op != "Slice":
        return None
    starts, axes, steps = ints(node.operand(1)), ints(node.operand(3)), ints(node.operand(4))
    if starts is None or len(starts) != 1 or (node.operand(4) is not None and steps != [1]):
        return None
    if node.operand(3) is not None and axes is None:
        return None
    axis = normal_axis(axes[0] if axes else 0, len(source.shape))
    whole, size = source.shape[axis], value.shape[axis]
    if not isinstance(whole, int) or not isinstance(size, int):
        return None
    low = min(max(starts[0] + whole if starts[0] < 0 else starts[0], 0), whole)
    return _Part(source, axis, low, low + size)


def _whole(node: Node) -> Value | None:
    """The value whose parts a Concat puts together again, all of them and in their order."""
    source: Value | None = None
    end = 0
    for value in node.inputs:
        part = _part(value)
        if part is None or (source is not None and part.source is not source) or part.low != end:
            return None
        source, end = part.source, part.high
        assert source.shape is not None
        if part.axis != normal_axis(attribute(node, "axis"), len(source.shape)):
            return None
    if source is None or source.shape is None:
        return None
    return source if end == source.shape[normal_axis(attribute(node, "axis"), len(source.shape))] else None


def _identity(match: Match, builder: Builder) -> list[Value]:
    source = _whole(match.root)
    assert source is not None
    return [source]


CONCAT_OF_PARTS = RewriteRule(
    "layout.concat_of_parts",
    op("Concat", open_inputs=True, where=lambda node: _whole(node) is not None),
    _identity,
    doc="""Leave a value whole that is cut into parts and put together again.

    Before: %a, %b = Split(%x) {axis = 1}; %y = Concat(%a, %b) {axis = 1}
    After:  %x
    Also for Slices. All parts, in their order, along the axis that was cut.
    Refuses when: the sizes along that axis are not known.
    """,
)

RULES = (CONCAT_OF_PARTS,)
