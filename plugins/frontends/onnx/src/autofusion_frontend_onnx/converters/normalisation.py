"""Softmax over flattened axes, and the normalisations whose operands or modes have changed."""

from __future__ import annotations

from typing import Any

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.windows import explicit_pads
from autofusion_frontend_onnx.registry import converter


@converter("Softmax", "LogSoftmax", "Hardmax", before=13)
def softmax(call: Call) -> list[Value]:
    """Before operator set 13 all axes from ``axis`` on count as one. For the last axis that is the same as today."""
    x, axis = call.operand(0), call.attr("axis", 1)
    rank = len(x.shape) if x.shape is not None else None
    if axis == -1 or (rank is not None and axis in (rank - 1, -1)):
        return call.result(attrs={"axis": -1})
    flat = call.emit("Flatten", x, axis=axis)
    return call.result("Reshape", [call.emit(call.op, flat, axis=1), call.emit("Shape", x)], {"allowzero": 1})


@converter("BatchNormalization", before=14)
def batch_normalization(call: Call) -> list[Value | None]:
    """The mode was an attribute, then (sets 7 to 13) it followed from the number of results."""
    if call.version < 7:
        training = not call.attr("is_test", 0)
    else:
        training = len(call.outputs) > 1
    attrs: dict[str, Any] = {k: call.attrs[k] for k in ("epsilon", "momentum") if k in call.attrs}
    if not call.attr("spatial", 1):
        if training:
            call.fail("statistics for each activation (spatial=0) are not supported in training mode")
        return [_for_each_activation(call, attrs.get("epsilon", 1e-5))]
    if not training:
        call.outputs = call.outputs[:1]
        return list(call.result(inputs=call.inputs[:5], attrs=attrs))
    x = call.operand(0)
    node = call.node("BatchNormalization", call.inputs[:5], attrs | {"training_mode": 1}, outputs=3)
    mean, variance = _statistics(call, x) if len(call.outputs) > 3 else (None, None)
    return [*node.outputs, mean, variance]


def _for_each_activation(call: Call, epsilon: float) -> Value:
    x, scale, bias, mean, variance = (call.operand(i) for i in range(5))
    deviation = call.emit("Sqrt", call.emit("Add", variance, call.like(epsilon, variance, "epsilon")))
    return call.emit("Add", call.emit("Mul", call.emit("Div", call.emit("Sub", x, mean), deviation), scale), bias)


def _statistics(call: Call, x: Value) -> tuple[Value, Value]:
    axes = call.ints([0, *range(2, call.rank(x))], "axes")
    mean = call.emit("ReduceMean", x, axes, keepdims=1)
    centred = call.emit("Sub", x, mean)
    variance = call.emit("ReduceMean", call.emit("Mul", centred, centred), axes, keepdims=0)
    return call.emit("Squeeze", mean, axes), variance


@converter("GroupNormalization", since=18, before=21)
def group_normalization(call: Call) -> list[Value]:
    """Scale and bias were given for each group, now for each channel; the arithmetic was in the element type."""
    x, groups = call.operand(0), call.attr("num_groups")
    each = call.emit("Div", call.dim(x, 1), call.ints([groups]))
    shape = call.emit("Concat", call.ints([groups]), each, axis=0)

    def spread(value: Value) -> Value:
        column = call.emit("Reshape", value, call.ints([groups, 1]))
        return call.emit("Reshape", call.emit("Expand", column, shape), call.ints([-1]))

    return call.result(inputs=[x, spread(call.operand(1)), spread(call.operand(2))], attrs=call.attrs)


@converter("LpPool", "GlobalLpPool", before=2)
def lp_pool(call: Call) -> list[Value]:
    """The order of the norm was a float."""
    power = call.attr("p", 2.0)
    if power != int(power):
        call.fail(f"a norm of order {power} is not supported; expected a whole number")
    attrs = call.without("p", p=int(power))
    if call.op == "GlobalLpPool":
        return call.result(attrs=attrs)
    return call.result(attrs=explicit_pads(call, attrs, call.attr("kernel_shape")))
