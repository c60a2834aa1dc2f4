"""Attention and what belongs to it: rotary embedding, and the linear and convolutional mixers that came later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.reduction import per_element
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, Work, attribute, register, traffic
from autofusion.ir.types import Dim, Shape, Type


@dataclass(frozen=True, slots=True)
class AttentionDims:
    """The sizes of an Attention node; ``packed`` if heads and head size share the last axis (operands of rank 3)."""

    batch: Dim = None
    query_heads: Dim = None
    kv_heads: Dim = None
    queries: Dim = None
    past: Dim = 0
    total: Dim = None
    head_size: Dim = None
    value_size: Dim = None
    packed: bool = False


def attention_dims(node: Node) -> AttentionDims | None:
    """Sizes of an Attention node, or None while a rank is unknown; ShapeError if they clash."""
    q, k, v = (shapes.shape(node, i) for i in range(3))
    if q is None or k is None or v is None:
        return None
    if not len(q) == len(k) == len(v) or len(q) not in (3, 4):
        shapes.fail(
            node,
            "query, key and value must all have 3 or all have 4 axes, "
            f"found {shapes.show(q)}, {shapes.show(k)} and {shapes.show(v)}",
        )
    packed = len(q) == 3
    if packed:
        heads, groups = attribute(node, "q_num_heads"), attribute(node, "kv_num_heads")
        if heads is None or groups is None:
            shapes.fail(node, "'q_num_heads' and 'kv_num_heads' must be stated for operands with 3 axes")
        q, k, v = (_unpacked(node, d, n) for d, n in ((q, heads), (k, groups), (v, groups)))
    batch = shapes.agree(node, shapes.agree(node, q[0], k[0], "batches"), v[0], "batches")
    kv_heads = shapes.agree(node, k[1], v[1], "heads of key and value")
    if isinstance(q[1], int) and isinstance(kv_heads, int):
        shapes.divided(node, q[1], kv_heads, "the number of query heads")
    fresh = shapes.agree(node, k[2], v[2], "lengths of key and value")
    size = shapes.agree(node, q[3], k[3], "head sizes of query and key")
    past: Dim = 0
    if shapes.is_present(node, 4):
        held = shapes.rank_is(node, 4, 4)
        past = None if held is None else held[2]
    return AttentionDims(batch, q[1], kv_heads, q[2], past, shapes.total((past, fresh)), size, v[3], packed)


def _unpacked(node: Node, dims: Shape, heads: int) -> Shape:
    return dims[0], heads, dims[1], shapes.divided(node, dims[2], heads, "the last axis")


def _infer_attention(node: Node) -> Sequence[Type | None]:
    """Results: Y, present key, present value, and the query-key product."""
    sizes, dtype, value_dtype = attention_dims(node), shapes.dtype(node, 0), shapes.dtype(node, 2)
    if sizes is None:
        unknown, values = shapes.of(dtype, None), shapes.of(value_dtype, None)
        return unknown, unknown, values, unknown
    result: Shape = (sizes.batch, sizes.query_heads, sizes.queries, sizes.value_size)
    if sizes.packed:
        result = (sizes.batch, sizes.queries, shapes.product((sizes.query_heads, sizes.value_size)))
    scores = (sizes.batch, sizes.query_heads, sizes.queries, sizes.total)
    mask = shapes.shape(node, 3)
    if mask is not None and len(mask) > 4:
        shapes.fail(node, f"the mask {shapes.show(mask)} must broadcast to {shapes.show(scores)}")
    cache = (sizes.batch, sizes.kv_heads, sizes.total)
    return (
        shapes.of(dtype, result),
        shapes.of(dtype, (*cache, sizes.head_size)),
        shapes.of(value_dtype, (*cache, sizes.value_size)),
        shapes.of(dtype, scores),
    )


def _work_attention(node: Node) -> Work:
    """Two batched matrix products, and a softmax over the scores between them."""
    sizes = attention_dims(node)
    assert sizes is not None
    scores = shapes.integer_product((sizes.batch, sizes.query_heads, sizes.queries, sizes.total))
    inner = shapes.integer_product((sizes.head_size,)) + shapes.integer_product((sizes.value_size,))
    return Work(scores * (2.0 * inner + 5.0), *traffic(node), float(scores))


def _infer_rotary(node: Node) -> Sequence[Type | None]:
    dims = shapes.rank_at_least(node, 0, 3)
    if dims is not None and len(dims) == 3 and not attribute(node, "num_heads"):
        shapes.fail(node, "'num_heads' must be stated for an operand with 3 axes")
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 1, 2)), dims))


def _infer_linear_attention(node: Node) -> Sequence[Type | None]:
    """Packed Y [B, T, q heads * value size] and the state [B, kv heads, key size, value size]."""
    q, k, v = (shapes.rank_is(node, i, 3) for i in range(3))
    dtype = shapes.same_dtype(node, (0, 1, 2))
    heads, groups = attribute(node, "q_num_heads"), attribute(node, "kv_num_heads")
    key_size = None if k is None else shapes.divided(node, k[2], groups, "the last axis of the key")
    value_size = None if v is None else shapes.divided(node, v[2], groups, "the last axis of the value")
    batch, steps = (None, None) if q is None else q[:2]
    state = shapes.dtype(node, 3) or dtype
    return (
        shapes.of(dtype, (batch, steps, shapes.scaled(value_size, heads))),
        shapes.of(state, (batch, groups, key_size, value_size)),
    )


def _infer_causal_conv(node: Node) -> Sequence[Type | None]:
    dims, weights = shapes.rank_is(node, 0, 3), shapes.rank_is(node, 1, 3)
    dtype = shapes.same_dtype(node, (0, 1, 2, 3))
    batch, channels = (None, None) if dims is None else dims[:2]
    taps = None if weights is None else weights[2]
    return shapes.of(dtype, dims), shapes.of(dtype, (batch, channels, shapes.shifted(taps, -1)))


def _work_causal_conv(node: Node) -> Work:
    weights = shapes.shape(node, 1) or (0, 0, 0)
    return Work(2.0 * shapes.integer_product(weights[2:]) * node.output.tensor.numel, *traffic(node))


def _register() -> None:
    contraction = OpClass.CONTRACTION
    for operator in (
        Operator(
            "Attention",
            contraction,
            _infer_attention,
            3,
            6,
            max_outputs=4,
            attributes={
                "is_causal": 0,
                "kv_num_heads": None,
                "q_num_heads": None,
                "qk_matmul_output_mode": 0,
                "scale": None,
                "softcap": 0.0,
                "softmax_precision": None,
            },
            work=_work_attention,
        ),
        Operator(
            "RotaryEmbedding",
            OpClass.OPAQUE,
            _infer_rotary,
            3,
            4,
            attributes={"interleaved": 0, "num_heads": None, "rotary_embedding_dim": 0},
            work=per_element(3),
        ),
        Operator(
            "LinearAttention",
            contraction,
            _infer_linear_attention,
            3,
            6,
            outputs=2,
            attributes={
                "chunk_size": 64,
                "kv_num_heads": REQUIRED,
                "q_num_heads": REQUIRED,
                "scale": 0.0,
                "update_rule": "gated_delta",
            },
        ),
        Operator(
            "CausalConvWithState",
            contraction,
            _infer_causal_conv,
            2,
            4,
            outputs=2,
            attributes={"activation": "none"},
            work=_work_causal_conv,
        ),
    ):
        register(operator)


_register()
