"""Integer products with what scales their sums and whatever follows, up to the next quantisation."""

from __future__ import annotations

from collections.abc import Iterator

from autofusion.ir.graph import Node, Value
from autofusion.ir.types import TensorType
from autofusion.rules import (
    INTEGER_MATMUL,
    FuseRule,
    Refusal,
    Region,
    any_broadcast,
    arrow,
    follow,
    forward,
    joining,
    private_hint,
    why_alone,
)


def _grow(anchor: Node) -> Iterator[Region | Refusal]:
    type_ = anchor.output.type
    if not isinstance(type_, TensorType) or not type_.is_static:
        return
    # A bias in integers comes before the Cast.
    whole = forward(anchor, joining(type_, any_broadcast))
    sums, before = whole.result, whole.chains[-1] if whole.chains else ()
    cast = _only_consumer(sums)
    if cast is None or cast.op != "Cast":
        if any(node.op == "Cast" for node in sums.consumers):
            yield Refusal(f"{anchor.label}: '{sums.name}' is used elsewhere too", sums, private_hint(sums))
        return
    epilogue = follow(cast, any_broadcast)
    if epilogue is None:
        return
    for chain in (*reversed(epilogue.growth.chains), ()):
        nodes = (anchor, *before, cast, *chain)
        quantiser = _only_consumer(nodes[-1].output)
        if quantiser is not None and quantiser.op == "QuantizeLinear":
            misfit = _misfit(quantiser, nodes[-1])
            if misfit is None:
                yield Region((*nodes, quantiser), anchor)
            else:
                yield misfit
        yield Region(nodes, anchor)
    yield from why_alone(epilogue)


def _only_consumer(value: Value) -> Node | None:
    return value.consumers[0] if len(value.consumers) == 1 and not value.is_output else None


def _misfit(quantiser: Node, before: Node) -> Refusal | None:
    """Why a QuantizeLinear does not end the region, or None."""
    site, scale = arrow(before, quantiser), quantiser.inputs[1]
    assert scale is not None
    if quantiser.inputs[0] is not before.output:
        return Refusal(f"{site}: the result is a scale or a zero point, not what is quantised", quantiser)
    if scale.shape not in ((), (1,)):
        return Refusal(f"{site}: '{scale.name}' is {scale.type}, not one scale", scale, "would fuse with one scale")
    if quantiser.output.dtype is None or quantiser.output.dtype.kind not in "iu":
        return Refusal(f"{site}: it quantises to {quantiser.output.type}, not to integers", quantiser)
    return None


RULE = FuseRule(
    "quantised.integer_matmul",
    INTEGER_MATMUL,
    _grow,
    frozenset(INTEGER_MATMUL.anchors),
    doc="""Run an integer product with its scaling, bias and activation.

    Before: %y = Relu(Add(Mul(Cast(MatMulInteger(%x, %w, %xz, %wz)), %scale), %bias))
    After:  %y = Fused(%x, %w, %xz, %wz, %scale, %bias) {kind = "integer_matmul"}
    Also a bias in integers before the Cast; any pointwise operators behind it, and a QuantizeLinear with one scale at
    the end.
    Refuses when: an intermediate is used elsewhere or is a graph output; an operand enlarges the result.
    """,
)

RULES = (RULE,)
