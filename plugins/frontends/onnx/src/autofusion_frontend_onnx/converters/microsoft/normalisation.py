"""Layer normalisations with skip connections, embeddings in front, or without the mean."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"
_I32 = np.dtype(np.int32)


@converter("LayerNormalization", before=17)
def early_layer_normalization(call: Call) -> list[Value]:
    """onnxruntime had the operator in the default domain long before operator set 17 defined it."""
    return call.result()


@converter("SimplifiedLayerNormalization")
@converter("SimplifiedLayerNormalization", domain=_MS)
def simplified_layer_normalization(call: Call) -> list[Value | None]:
    """x / sqrt(mean(x^2) + epsilon) * scale."""
    attrs = {k: v for k, v in call.attrs.items() if k in ("axis", "epsilon", "stash_type")}
    if call.wants(1):
        x = call.operand(0)
        axis = attrs.get("axis", -1)
        y = call.emit("RMSNormalization", x, call.operand(1), **attrs)
        axes = list(range(call.axis(axis, x), call.rank(x)))
        mean = call.emit("ReduceMean", call.emit("Mul", x, x), call.ints(axes, "axes"))
        shifted = call.emit("Add", mean, call.like(attrs.get("epsilon", 1e-5), x, "epsilon"))
        return [y, call.emit("Reciprocal", call.emit("Sqrt", shifted))]
    return list(call.result("RMSNormalization", call.inputs[:2], attrs))


@converter("SkipLayerNormalization", domain=_MS)
def skip_layer_normalization(call: Call) -> list[Value | None]:
    """layer_norm(x + skip + bias) * gamma + beta; the sum is a result too."""
    total = _sum(call, call.optional(4))
    node = call.node(
        "LayerNormalization",
        [total, call.operand(2), call.optional(3)],
        {"axis": -1, "epsilon": call.attr("epsilon", 1e-12)},
        outputs=3 if call.wants(1) or call.wants(2) else 1,
    )
    mean, deviation = node.outputs[1:] or (None, None)
    return [node.output, mean, deviation, total]


@converter("SkipSimplifiedLayerNormalization", domain=_MS)
def skip_simplified_layer_normalization(call: Call) -> list[Value | None]:
    """rms_norm(x + skip + bias) * gamma; the sum is a result too."""
    total = _sum(call, call.optional(3))
    attrs = {"axis": -1, "epsilon": call.attr("epsilon", 1e-12)}
    return [call.emit("RMSNormalization", total, call.operand(2), **attrs), None, None, total]


def _sum(call: Call, bias: Value | None) -> Value:
    x, skip = call.operand(0), call.operand(1)
    total = call.emit("Add", x, skip)
    return total if bias is None else call.emit("Add", total, bias)


@converter("EmbedLayerNormalization", domain=_MS)
def embed_layer_normalization(call: Call) -> list[Value | None]:
    """layer_norm of the sum of word, position and segment embeddings; also the number of unmasked words."""
    ids, segments = call.operand(0), call.optional(1)
    words, positions, segment_table = call.operand(2), call.operand(3), call.optional(4)
    gamma, beta, mask, position_ids = call.operand(5), call.operand(6), call.optional(7), call.optional(8)
    total = call.emit("Gather", words, ids, axis=0)
    if position_ids is None:
        length = call.dim(ids, 1)
        position = call.emit("Slice", positions, call.ints([0]), length, call.ints([0]))
    else:
        position = call.emit("Gather", positions, position_ids, axis=0)
    total = call.emit("Add", total, position)
    if segments is not None and segment_table is not None:
        total = call.emit("Add", total, call.emit("Gather", segment_table, segments, axis=0))
    epsilon = call.attr("epsilon", 1e-12)
    y = call.emit("LayerNormalization", total, gamma, beta, axis=-1, epsilon=epsilon)
    if mask is not None:
        count = call.emit("ReduceSum", call.emit("Cast", mask, to=_I32), call.ints([1]), keepdims=0)
    else:
        count = call.emit("Expand", call.const(0, _I32), call.dim(ids, 0))
    return [y, count, total]


@converter("QEmbedLayerNormalization", domain=_MS)
def quantised_embed_layer_normalization(call: Call) -> list[Value | None]:
    """As EmbedLayerNormalization, with integer tables, scale and shift: their scales and zero points follow."""
    real = {
        at: call.emit("DequantizeLinear", call.operand(at), *(_scalar(call, at + ahead) for ahead in (6, 11)))
        for at in range(2, 7)
        if call.optional(at) is not None
    }
    call.inputs = [real.get(i, call.optional(i)) for i in range(8)]
    return embed_layer_normalization(call)[:2]


def _scalar(call: Call, index: int) -> Value:
    return call.emit("Reshape", call.operand(index), call.ints([]))


@converter("GroupNorm", "SkipGroupNorm", domain=_MS)
def group_norm(call: Call) -> list[Value | None]:
    """Group normalisation of channels-last or channels-first images, with an addend before and SiLU behind."""
    x = call.operand(0)
    total = x
    if call.op == "SkipGroupNorm":
        total = call.emit("Add", total, call.operand(3))
        if call.optional(4) is not None:
            total = call.emit("Add", total, call.optional(4))
    last = call.attr("channels_last", 1)
    rank = call.rank(x)
    y = call.emit("Transpose", total, perm=[0, rank - 1, *range(1, rank - 1)]) if last else total
    gamma, beta = (call.emit("CastLike", call.operand(i), x) for i in (1, 2))
    y = call.emit(
        "GroupNormalization",
        y,
        gamma,
        beta,
        num_groups=call.attr("groups"),
        epsilon=call.attr("epsilon", 1e-5),
        stash_type=F32,
    )
    if call.attr("activation"):
        y = call.emit("Mul", y, call.emit("Sigmoid", y))
    return [call.emit("Transpose", y, perm=[0, *range(2, rank), 1]) if last else y, total]
