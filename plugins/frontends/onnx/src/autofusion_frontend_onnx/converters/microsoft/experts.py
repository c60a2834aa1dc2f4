"""Mixtures of experts: every token goes through the few experts that its router chooses.

All experts run on all tokens as batched products, and the weights of those that are not chosen are zero: the sum is
that of the operator, for more arithmetic than it needs.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.microsoft.blocks import constant, dequantised, unpacked
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"


@converter("MoE", domain=_MS)
def mixture(call: Call) -> list[Value]:
    """Weights [experts, outputs, inputs] in the first, second and optional third layer, each with its bias."""
    layers = [(call.optional(i), call.optional(i + 1)) for i in (2, 4, 6)]
    return [_mixed(call, layers, None)]


@converter("QMoE", domain=_MS)
def quantised_mixture(call: Call) -> list[Value]:
    """As MoE, with constant integer weights [experts, outputs, bytes] and scales for rows or for blocks of them."""
    if call.attr("quant_type", "int") != "int" or call.attr("weights_prepacked", 0) == 1:
        call.fail("only integer weights that are not packed for one provider are supported")
    layers = [(_weights(call, layer), call.optional(2 + 3 * layer + 2)) for layer in range(3)]
    return [_mixed(call, layers, call.optional(14))]


def _weights(call: Call, layer: int) -> Value | None:
    at = 2 + 3 * layer
    if call.optional(at) is None:
        return None
    bits = call.attr(f"fc{layer + 1}_expert_weight_bits", call.attr("expert_weight_bits", 4))
    if bits not in range(2, 9):
        call.fail(f"weights of {bits} bits are not supported; expected 2 to 8")
    numbers = unpacked(constant(call, at).view(np.uint8), bits)
    scales = call.operand(at + 1)
    size = call.attr("block_size", 0) or numbers.shape[-1]
    if call.rank(scales) == 2:
        scales = call.emit("Unsqueeze", scales, call.ints([2]))
    blocks = -(-numbers.shape[-1] // size)
    zeros = None
    if call.optional(11 + layer) is not None:
        packed = constant(call, 11 + layer).view(np.uint8)
        by_row = packed.ndim == 2  # of one expert all together, a number for each row
        zeros = unpacked(packed, bits)[..., : numbers.shape[1] if by_row else blocks]
        zeros = zeros.reshape(*numbers.shape[:2], blocks)
    return dequantised(call, numbers, bits, scales, zeros, size, 2)


def _mixed(call: Call, layers: list[tuple[Value | None, Value | None]], mixing: Value | None) -> Value:
    x = call.operand(0)
    if call.attr("use_sparse_mixer", 0) or call.attr("swiglu_limit_after_activation", 0):
        call.fail("the sparse mixer, and limits behind the activation, are not supported")
    (first, first_bias), (second, second_bias), (third, third_bias) = layers
    if first is None or second is None:
        call.fail("the weights of the first or the second layer are missing")
    tokens = call.emit("Reshape", x, call.emit("Concat", call.ints([-1]), call.dim(x, -1), axis=0))
    tokens = call.emit("Unsqueeze", tokens, call.ints([0]))
    hidden = _activated(call, tokens, (first, first_bias), None if third is None else (third, third_bias))
    y = _layer(call, hidden, second, second_bias)
    shares = call.emit("Unsqueeze", call.emit("Transpose", _shares(call, mixing), perm=[1, 0]), call.ints([2]))
    total = call.emit("ReduceSum", call.emit("Mul", y, shares), call.ints([0]), keepdims=0)
    return call.emit("Reshape", total, call.emit("Shape", x))


def _layer(call: Call, x: Value, weights: Value, bias: Value | None) -> Value:
    """[experts or 1, tokens, inputs] -> [experts, tokens, outputs]."""
    y = call.emit("MatMul", x, call.emit("Transpose", weights, perm=[0, 2, 1]))
    return y if bias is None else call.emit("Add", y, call.emit("Unsqueeze", bias, call.ints([1])))


def _activated(
    call: Call, x: Value, first: tuple[Value, Value | None], third: tuple[Value, Value | None] | None
) -> Value:
    kind, y = call.attr("activation_type", "relu"), _layer(call, x, *first)
    gated = kind in ("swiglu", "geglu")
    if not gated:
        y = _pointwise(call, kind, y)
        return y if third is None else call.emit("Mul", y, _layer(call, x, *third))
    fusion = call.attr("swiglu_fusion", 0)
    if third is not None and fusion == 0:
        gate, linear = y, _layer(call, x, *third)
    elif fusion == 2:
        gate, linear = call.node("Split", [y], {"axis": 2, "num_outputs": 2}, outputs=2).outputs
    elif third is None and fusion == 1:
        most = call.ints([np.iinfo(np.int64).max])
        gate, linear = (call.emit("Slice", y, call.ints([i]), most, call.ints([2]), call.ints([2])) for i in (0, 1))
    else:
        call.fail("gate and linear part are neither in one layer (swiglu_fusion 1 or 2) nor in the first and the third")
    if kind == "geglu":
        return call.emit("Mul", call.emit("Gelu", gate, approximate="tanh"), linear)
    limit = call.attr("swiglu_limit")
    if limit is not None:
        most = call.like(limit, y, "limit")
        gate, linear = call.emit("Min", gate, most), call.emit("Clip", linear, call.like(-limit, y, "least"), most)
    scaled = call.emit("Mul", gate, call.like(call.attr("activation_alpha", 1.0), y, "alpha"))
    gate = call.emit("Mul", gate, call.emit("Sigmoid", scaled))
    return call.emit("Mul", gate, call.emit("Add", linear, call.like(call.attr("activation_beta", 0.0), y, "beta")))


def _pointwise(call: Call, kind: str, y: Value) -> Value:
    if kind == "identity":
        return y
    if kind == "silu":
        return call.emit("Mul", y, call.emit("Sigmoid", y))
    if kind == "relu2":
        y = call.emit("Relu", y)
        return call.emit("Mul", y, y)
    if kind == "relu":
        return call.emit("Relu", y)
    if kind == "gelu":
        return call.emit("Gelu", y, approximate="tanh")  # as onnxruntime's kernel has it
    call.fail(f"activation '{kind}' is not supported")


def _shares(call: Call, mixing: Value | None) -> Value:
    """How much of each expert goes into each token [tokens, experts]: zero but for the ``k`` best."""
    router, k = call.operand(1), call.attr("k", 1)
    probability = call.emit("Softmax", router, axis=-1) if mixing is None else router
    best, chosen = call.node("TopK", [probability, call.ints([k])], {"axis": -1}, outputs=2).outputs
    if mixing is not None:
        best = call.emit("GatherElements", mixing, chosen, axis=-1)
    if call.attr("normalize_routing_weights", 0):
        best = call.emit("Div", best, call.emit("ReduceSum", best, call.ints([-1])))
    none = call.emit("Expand", call.like(0.0, router, "none"), call.emit("Shape", router))
    return call.emit("ScatterElements", none, chosen, best, axis=1)
