"""Integer products and convolutions with what scales their sums and whatever follows, quantisers among it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from autofusion.ir.graph import Node, Value
from autofusion.ir.types import TensorType
from autofusion.rules import (
    INTEGER_CONV,
    INTEGER_MATMUL,
    FuseRule,
    Joins,
    Refusal,
    Region,
    any_broadcast,
    arrow,
    backward,
    by_channel,
    follow,
    forward,
    joining,
    private_hint,
    why_alone,
)
from autofusion_rules_quantised.scales import has_one_scale, is_index, is_table

Indexable = Callable[[tuple[int, ...], tuple[int, ...]], bool]


def quantised_joining(type_: TensorType, indexable: Indexable) -> Joins:
    """Which nodes may be in a region over the shape of ``type_``, float32: pointwise ones, quantisers, and tables."""
    pointwise = joining(type_, indexable)

    def joins(node: Node) -> bool:
        if pointwise(node):
            return True
        return node.output.shape == type_.shape and (has_one_scale(node) or is_table(node) or is_index(node))

    return joins


def dequantised(nodes: Sequence[Node], shape: tuple[int, ...]) -> list[Node]:
    """DequantizeLinear nodes that make further operands of ``nodes``, for nobody else."""
    inside = set(nodes)
    values = [v for node in nodes for v in node.inputs if v is not None and v.producer not in inside]
    joins = lambda node: node.op == "DequantizeLinear" and has_one_scale(node) and node.output.shape == shape  # noqa: E731
    return backward(values, nodes, joins)


def _grow(anchor: Node, indexable: Indexable) -> Iterator[Region | Refusal]:
    type_ = anchor.output.type
    if not isinstance(type_, TensorType) or not type_.is_static:
        return
    # A bias in integers comes before the Cast.
    whole = forward(anchor, joining(type_, indexable))
    sums, before = whole.result, whole.chains[-1] if whole.chains else ()
    cast = _only_consumer(sums)
    if cast is None or cast.op != "Cast":
        if any(node.op == "Cast" for node in sums.consumers):
            yield Refusal(f"{anchor.label}: '{sums.name}' is used elsewhere too", sums, private_hint(sums))
        return
    epilogue = follow(cast, indexable)
    if epilogue is None:
        return
    behind = forward(cast, quantised_joining(cast.output.tensor, indexable))
    last = _only_consumer(behind.result)
    if last is not None and last.op == "QuantizeLinear":
        yield _misfit(last, behind.chains[-1][-1] if behind.chains else cast)
    for chain in (*reversed(behind.chains), ()):
        nodes = (*before, cast, *chain)
        operands = dequantised(nodes, type_.static_shape)
        yield Region((*operands, anchor, *nodes), anchor)
    yield from why_alone(epilogue)


def _only_consumer(value: Value) -> Node | None:
    return value.consumers[0] if len(value.consumers) == 1 and not value.is_output else None


def _misfit(quantiser: Node, before: Node) -> Refusal:
    """Why a QuantizeLinear does not join the region."""
    site, scale, zero = arrow(before, quantiser), quantiser.inputs[1], quantiser.operand(2)
    assert scale is not None
    if quantiser.inputs[0] is not before.output:
        return Refusal(f"{site}: the result is a scale or a zero point, not what is quantised", quantiser)
    if scale.shape not in ((), (1,)):
        return Refusal(f"{site}: '{scale.name}' is {scale.type}, not one scale", scale, "would fuse with one scale")
    for value in (scale, zero):
        if value is not None and value.const is None:
            return Refusal(f"{site}: '{value.name}' is not a constant", value)
    return Refusal(f"{site}: it quantises to {quantiser.output.type}, not to 8 or 16-bit integers", quantiser)


MATMUL_RULE = FuseRule(
    "quantised.integer_matmul",
    INTEGER_MATMUL,
    partial(_grow, indexable=any_broadcast),
    frozenset(INTEGER_MATMUL.anchors),
    doc="""Run an integer product with its scaling, bias and activation.

    Before: %y = Relu(Add(Mul(Cast(MatMulInteger(%x, %w, %xz, %wz)), %scale), %bias))
    After:  %y = Fused(%x, %w, %xz, %wz, %scale, %bias) {kind = "integer_matmul"}
    Also a bias in integers before the Cast; any pointwise operators behind it, and QuantizeLinear and DequantizeLinear
    with one scale among them; further operands may be dequantised inside.
    Refuses when: an intermediate is used elsewhere or is a graph output; an operand enlarges the result.
    """,
)
CONV_RULE = FuseRule(
    "quantised.integer_conv",
    INTEGER_CONV,
    partial(_grow, indexable=by_channel),
    frozenset(INTEGER_CONV.anchors),
    doc="""Run a convolution of integers with its scaling, bias, activation and requantisation.

    Before: %y = QuantizeLinear(Relu(Add(Mul(Cast(ConvInteger(%x, %w, %xz)), %scale), %bias)), 0.5, %yz)
    After:  %y = Fused(%x, %w, %xz, %scale, %bias, 0.5, %yz) {kind = "integer_conv"}
    Otherwise as quantised.integer_matmul; also a residual Add behind the requantisation, of an operand dequantised
    inside.
    Refuses when: an intermediate is used elsewhere or is a graph output; an operand is broadcast along other axes than
    batch and channel.
    """,
)

RULES = (MATMUL_RULE, CONV_RULE)
"""The rules of the pack, in one list."""
