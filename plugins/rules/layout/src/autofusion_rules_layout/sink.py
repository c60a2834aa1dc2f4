"""Move Transposes to where they meet their like: down from where they come, up at the graph's inputs.

Frontends of channels-last frameworks wrap each convolution and pooling in Transposes. Behind a convolution, a Transpose
sinks through everything that does not care about the order of axes, until it meets the one before the next convolution
and both vanish. Between a graph input and the first convolution there is none to meet, so there Transposes rise to the
input, and whatever stood between (normalisation, Pad) ends up next to the convolution, where it can be folded.

The two directions never fight: a value that hangs on a graph input alone (``from_input``) has its Transposes lifted,
any other has them sunk.

This belongs to the fold stage, since the canonical forms must be found first: the pieces of a LayerNormalization along
the last axis would still be one along another axis, but nobody would know it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, op_class
from autofusion.rules import Builder, Match, RewriteRule, Stage, op
from autofusion_rules_layout.axes import (
    Moved,
    Operand,
    Perm,
    Source,
    Turned,
    inverse,
    movable_ops,
    moved,
    moves_to_last,
    perm_of,
    transposes,
)

_DEPTH = 24
"""How many operators behind a graph input still count as hanging on it."""


def from_input(value: Value) -> bool:
    """True if the value comes from one graph input, through operators with constants that nobody else looks into."""
    for _ in range(_DEPTH):
        node = value.producer
        if node is None:
            return value.const is None
        if value.use_count != 1 or len(node.outputs) != 1:
            return False
        computed = list(dict.fromkeys(v for v in node.inputs if v is not None and v.const is None))
        if len(computed) != 1 or node.op not in _MOVABLE_OR_TRANSPOSE:
            return False
        value = computed[0]
    return False


def _moves_channels(perm: Perm) -> bool:
    """True for the permutations between channels first and channels last."""
    last = (0, *range(2, len(perm)), 1)
    return len(perm) >= 3 and (perm == last or perm == inverse(last))


# ---- down ---------------------------------------------------------------------------------------------------------


def _sunk(node: Node) -> tuple[Moved, Perm] | None:
    perm = _driving(node)
    if perm is None or (len(node.outputs) > 1 and not _moves_channels(perm)):
        return None
    answer = moved(node, perm, lambda value: _untransposed(value, perm) is not None)
    if answer is None:
        return None
    for value in node.inputs:
        if value is None or transposes(value) is None:
            continue
        source = _untransposed(value, perm)
        if source is None or from_input(source):
            return None
        alone = not value.is_output and all(c is node for c in value.consumers)
        if not alone and not _moves_channels(perm):
            return None  # the Transpose would stay, and another one come
    return answer, perm


def _driving(node: Node) -> Perm | None:
    """The permutation of a transposed operand that is not broadcast."""
    for value in node.inputs:
        if value is None or value.producer is None or value.producer.op != "Transpose":
            continue
        if op_class(node) is not OpClass.POINTWISE or value.shape == node.output.shape:
            return transposes(value)
    return None


def _untransposed(value: Value, perm: Perm) -> Value | None:
    """A value that exists and that ``perm`` transposes to ``value``."""
    if transposes(value) == perm:
        assert value.producer is not None
        return value.producer.inputs[0]
    if moves_to_last(perm):
        for consumer, _ in value.uses[:8]:
            if consumer.op == "Transpose" and perm_of(consumer) == inverse(perm):
                return consumer.output
    return None


def _sink(match: Match, builder: Builder) -> list[Value]:
    node = match.root
    found = _sunk(node)
    assert found is not None
    answer, perm = found
    operands = [_built(node, o, builder, lambda value: _untransposed(value, perm), perm) for o in answer.operands]
    new = builder.node(node.op, operands, answer.attrs, outputs=len(node.outputs), name=node.name)
    if answer.perm == tuple(range(len(answer.perm))):
        return list(new.outputs)
    return [builder.op("Transpose", v, perm=list(answer.perm)) for v in new.outputs]


def _built(
    node: Node, operand: Operand, builder: Builder, source: Callable[[Value], Value | None], perm: Perm
) -> Value | None:
    if isinstance(operand, Source | Turned):
        value = node.inputs[operand.index]
        assert value is not None
        if isinstance(operand, Source):
            return source(value)
        return builder.op("Transpose", value, perm=list(inverse(perm)))
    return builder.constant(operand) if isinstance(operand, np.ndarray) else operand


# ---- up -----------------------------------------------------------------------------------------------------------


def _lifted(node: Node) -> Moved | None:
    """For a Transpose behind an operator that hangs on a graph input: that operator on a transposed operand."""
    perm = transposes(node.output)
    before = None if node.inputs[0] is None else node.inputs[0].producer
    if perm is None or before is None or before.op == "Transpose" or len(before.outputs) != 1:
        return None
    assert node.inputs[0] is not None
    if node.inputs[0].use_count != 1 or not from_input(node.inputs[0]):
        return None
    x = _computed(before)
    if x.shape is None or len(x.shape) != len(perm):
        return None
    answer = moved(before, inverse(perm), lambda value: value is x)
    return answer if answer is not None and answer.perm == inverse(perm) else None


def _computed(node: Node) -> Value:
    return next(v for v in node.inputs if v is not None and v.const is None)


def _lift(match: Match, builder: Builder) -> list[Value]:
    node, before = match.root, match.node("before")
    answer = _lifted(node)
    perm = transposes(node.output)
    assert answer is not None and perm is not None
    lifted = builder.op("Transpose", _computed(before), perm=list(perm))
    operands = [_built(before, o, builder, lambda value: lifted, inverse(perm)) for o in answer.operands]
    return [builder.node(before.op, operands, answer.attrs, name=before.name).output]


_MOVABLE = movable_ops()
_MOVABLE_OR_TRANSPOSE = frozenset({*_MOVABLE, "Transpose"})

SINK_TRANSPOSE = RewriteRule(
    "layout.sink_transpose",
    op(_MOVABLE, open_inputs=True, where=lambda node: _sunk(node) is not None),
    _sink,
    stage=Stage.FOLD,
    priority=-10,
    doc="""Move a Transpose below an operator that can do its work in another order of axes.

    Before: %y = Add(Transpose(%a) {perm = [0, 2, 3, 1]}, %bias)       %bias: [C]
    After:  %y = Transpose(Add(%a, %bias')) {perm = [0, 2, 3, 1]}      %bias': [C, 1, 1]
    Pointwise operators, reductions, Softmax, Concat, Split, Slice, Gather, Pad, Resize, Tile, Squeeze, Unsqueeze, whose
    axes are renamed. Every computed operand must be transposed alike, or have a single element.
    Refuses when: the Transpose is needed elsewhere too, unless it moves channels, whose like is likely to follow; it
    hangs on a graph input alone (see layout.lift_transpose).
    """,
)

LIFT_TRANSPOSE = RewriteRule(
    "layout.lift_transpose",
    op("Transpose", op(_MOVABLE, open_inputs=True, name="before"), where=lambda node: _lifted(node) is not None),
    _lift,
    stage=Stage.FOLD,
    priority=-10,
    doc="""Move a Transpose above what stands between it and a graph input.

    Before: %y = Transpose(Pad(Sub(%input, %mean), %amounts)) {perm = [0, 3, 1, 2]}
    After:  %y = Pad(Sub(Transpose(%input), %mean'), %amounts')
    Refuses when: an operator between has another computed operand, or a result that someone else uses.
    """,
)

RULES = (SINK_TRANSPOSE, LIFT_TRANSPOSE)
