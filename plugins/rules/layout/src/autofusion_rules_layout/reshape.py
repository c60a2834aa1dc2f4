"""Chains of Reshape, Flatten, Squeeze and Unsqueeze: only the last shape matters."""

from __future__ import annotations

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, names
from autofusion.ir.types import Shape
from autofusion.rules import Builder, Match, RewriteRule, Stage, op, same_dim, var

RESHAPES = names(lambda schema: schema.view and schema.op_class is OpClass.MOVEMENT)
"""Operators that only give the same elements another shape."""


def target_of(source: Shape, result: Shape) -> tuple[list[int], bool] | None:
    """``(target, allowzero)`` of the Reshape from ``source`` to ``result`` that is right for all sizes, or None.

    A symbol can be stated if it has the same place in ``source`` (0 copies it), or if it is the only dim that is not a
    number (-1). Both together could be ambiguous where a size is zero, so they are not used together.
    """
    if all(isinstance(d, int) for d in result):
        numbers = [int(d) for d in result]  # type: ignore[arg-type]
        return numbers, 0 in numbers
    if 0 in result:
        return None
    target: list[int] = []
    for i, dim in enumerate(result):
        if isinstance(dim, int):
            target.append(dim)
        else:
            target.append(0 if i < len(source) and same_dim(source[i], dim) else -1)
    if -1 in target and (0 in target or target.count(-1) > 1):
        return None
    return target, False


def reshape_to(x: Value, result: Shape, builder: Builder, name: str) -> Value:
    """The Reshape of ``x`` to ``result``; ask ``target_of`` first."""
    assert x.shape is not None
    found = target_of(x.shape, result)
    assert found is not None
    target, allowzero = found
    attrs = {"allowzero": 1} if allowzero else {}
    return builder.node("Reshape", [x, builder.constant(target, "int64", "shape")], attrs, name=name).output


def _mergeable(node: Node) -> bool:
    x = node.inputs[0]
    inner = None if x is None else x.producer
    if inner is None or inner.op not in RESHAPES or inner.inputs[0] is None:
        return False
    source, result = inner.inputs[0].shape, node.output.shape
    return source is not None and result is not None and target_of(source, result) is not None


def _merge(match: Match, builder: Builder) -> list[Value]:
    x, shape = match["x"], match.root.output.shape
    assert x.shape is not None and shape is not None
    if x.shape == shape and None not in shape:
        return [x]
    return [reshape_to(x, shape, builder, match.root.name)]


MERGE_RESHAPES = RewriteRule(
    "layout.merge_reshapes",
    op(RESHAPES, op(RESHAPES, var("x"), open_inputs=True, shared=True), open_inputs=True, where=_mergeable),
    _merge,
    stage=Stage.FOLD,
    doc="""Reshape once instead of twice.

    Before: %y = Unsqueeze(Reshape(%x, [0, -1]), [2])
    After:  %y = Reshape(%x, [0, 32, 1])
    Also where they undo each other: then nothing is left.
    Refuses when: the last shape has dims that cannot be stated for all sizes.
    """,
)

RULES = (MERGE_RESHAPES,)
