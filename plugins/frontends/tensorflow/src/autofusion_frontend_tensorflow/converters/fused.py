"""Operators that TensorFlow's own optimiser has fused, found in graphs saved after it: written out again."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.converters.contraction import matrices, product
from autofusion_frontend_tensorflow.converters.convolution import convolved
from autofusion_frontend_tensorflow.converters.normalisation import normalised
from autofusion_frontend_tensorflow.converters.pointwise import SIMPLE, relu6
from autofusion_frontend_tensorflow.layout import Layout, layout_of
from autofusion_frontend_tensorflow.registry import converter


def _epilogue(call: Call, value: Value, arguments: Sequence[Value], layout: Layout | None) -> Value:
    """Apply what ``fused_ops`` lists, in order; each takes its operands from ``arguments``."""
    left = list(arguments)

    def take(what: str) -> Value:
        if not left:
            call.fail(f"fused operator '{what}' has no operand")
        return left.pop(0)

    for name in call.attr("fused_ops", []):
        if name == "BiasAdd":
            bias = take(name)
            if layout is not None and not layout.last:
                bias = call.reshape(bias, [-1, *[1] * layout.spatial])
            value = call.emit("Add", value, bias)
        elif name == "FusedBatchNorm":
            assert layout is not None
            value = normalised(call, layout, value, [take(name) for _ in range(4)], call.attr("epsilon", 0.0))
        elif name == "LeakyRelu":
            value = call.emit("LeakyRelu", value, alpha=float(call.attr("leakyrelu_alpha", 0.2)))
        elif name == "Relu6":
            value = relu6(call, value)
        elif name in ("GeluExact", "GeluApproximate"):
            value = call.emit("Gelu", value, approximate="none" if name == "GeluExact" else "tanh")
        elif name in ("Add", "AddV2"):
            value = call.emit("Add", value, take(name))
        elif name in ("_MklSwish", "Swish"):
            value = call.emit("Mul", value, call.emit("Sigmoid", value))
        elif name in SIMPLE:
            value = call.emit(SIMPLE[name], value)
        else:
            call.fail(f"fused operator '{name}' is not known; save the graph before TensorFlow optimises it")
    if left:
        call.fail(f"it has {len(left)} operands that none of its fused operators takes")
    return value


@converter("_FusedConv2D", "_FusedDepthwiseConv2dNative")
def conv(call: Call) -> Value:
    """A convolution and what follows it."""
    layout = layout_of(call)
    value = convolved(call, layout, call.operand(0), call.operand(1))
    count = int(call.attr("num_args", len(call.inputs) - 2))
    return _epilogue(call, value, call.inputs[2 : 2 + count], layout)


@converter("_FusedMatMul")
def matmul(call: Call) -> Value:
    """A product and what follows it."""
    a, b = matrices(call)
    value = product(call, a, b, bool(call.attr("transpose_a", False)), bool(call.attr("transpose_b", False)))
    return _epilogue(call, value, call.inputs[2:], None)


@converter("_FusedBatchNormEx")
def batch_norm(call: Call) -> Value:
    """A normalisation, an addition, and an activation."""
    layout = layout_of(call)
    if call.attr("is_training", True):
        call.fail("it normalises by the statistics of the batch: the graph was saved for training")
    value = normalised(call, layout, call.operand(0), call.inputs[1:5], call.attr("epsilon", 1e-4))
    if int(call.attr("num_side_inputs", 0)):
        value = call.emit("Add", value, call.operand(5))
    activation = call.attr("activation_mode", "Identity")
    if activation == "Identity":
        return value
    if activation not in SIMPLE:
        call.fail(f"activation '{activation}' is not known")
    return call.emit(SIMPLE[activation], value)
