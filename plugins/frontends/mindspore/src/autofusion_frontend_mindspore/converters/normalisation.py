"""Normalisations. Most give a tuple, of which a network in inference uses the first element."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call, elements
from autofusion_frontend_mindspore.converters.convolution import CHANNELS_LAST, moved
from autofusion_frontend_mindspore.registry import converter


@converter("BatchNorm", "BatchNormExt")
def batch_norm(call: Call) -> Any:
    """(x, scale, bias, mean, variance, is_training, epsilon, momentum, format) -> (y, and the four statistics).

    BatchNormExt has momentum before epsilon, no format, and gives (y, mean, inverse deviation) of what it divided by.
    In training mode the statistics are those of the batch; what becomes of the moving ones is not part of inference.
    """
    ext = call.op == "BatchNormExt"
    training = bool(call.argument(5, "training" if ext else "is_training", False))
    epsilon = float(call.argument(7 if ext else 6, "epsilon", 1e-5))
    last = not ext and call.argument(8, "format", call.attrs.get("data_format", "NCHW")) in CHANNELS_LAST
    value = call.tensor(0)
    if last:
        value = moved(call, value, False)
    parts = [
        call.tensor(i)
        if call.has(i)
        else call.const(np.full(call.static_dim(value, 1), 1.0 if i in (1, 4) else 0.0), F32)
        for i in range(1, 5)
    ]
    if not training:
        result = call.emit("BatchNormalization", value, *parts, epsilon=epsilon)
    else:
        result = call.node(
            "BatchNormalization", [value, *parts], {"epsilon": epsilon, "training_mode": 1}, outputs=3
        ).output
    if last:
        result = moved(call, result, True)
    if not ext:
        return elements(call, result, *parts)
    mean, variance = (_batch_statistics(call, value) if training else parts[2:]) if _wanted(call) else (None, None)
    if variance is None:
        return elements(call, result)
    spread = call.emit("Sqrt", call.emit("Add", variance, call.like(epsilon, variance)))
    return elements(call, result, mean, call.emit("Reciprocal", spread))


def _batch_statistics(call: Call, value: Value) -> tuple[Value, Value]:
    """Mean and variance of each channel over the batch, in single precision or better."""
    wide = value if value.dtype == np.dtype(np.float64) else call.cast(value, F32)
    axes = call.ints([0, *range(2, call.rank(value))])
    mean = call.emit("ReduceMean", wide, axes, keepdims=1)
    centred = call.emit("Sub", wide, mean)
    variance = call.emit("ReduceMean", call.emit("Mul", centred, centred), axes, keepdims=0)
    return call.emit("Reshape", mean, call.ints([-1])), variance


@converter("LayerNorm")
def layer_norm(call: Call) -> Any:
    """(x, scale, bias, first normalised axis, first axis of the scale, epsilon) -> (y, mean, variance)."""
    value, scale, bias = call.tensor(0), call.tensor(1), call.tensor(2)
    first, first_of_scale = (
        int(call.argument(i, n, -1)) for i, n in ((3, "begin_norm_axis"), (4, "begin_params_axis"))
    )
    epsilon = float(call.argument(5, "epsilon", 1e-7))
    first, first_of_scale = call.axis(first, value), call.axis(first_of_scale, value)
    if first == first_of_scale:
        result, mean, inverse = call.node(
            "LayerNormalization", [value, scale, bias], {"axis": first, "epsilon": epsilon}, outputs=3
        ).outputs
        if not _wanted(call):
            return elements(call, result)
        square = call.emit("Mul", inverse, inverse)
        variance = call.emit("Sub", call.emit("Reciprocal", square), call.like(epsilon, square))
        return elements(call, result, mean, variance)
    axes = call.ints(list(range(first, call.rank(value))))
    mean = call.emit("ReduceMean", value, axes)
    centred = call.emit("Sub", value, mean)
    variance = call.emit("ReduceMean", call.emit("Mul", centred, centred), axes)
    spread = call.emit("Sqrt", call.emit("Add", variance, call.like(epsilon, variance)))
    result = call.emit("Add", call.emit("Mul", call.emit("Div", centred, spread), scale), bias)
    return elements(call, result, mean, variance)


def _wanted(call: Call) -> bool:
    return isinstance(call.declared, tuple) and len(call.declared) == 3


@converter("LayerNormExt")
def layer_norm_ext(call: Call) -> Any:
    """(x, normalised shape, scale, bias, epsilon) -> (y, mean, inverse deviation)."""
    value, shape = call.tensor(0), call.int_arguments(1, "normalized_shape")
    epsilon = float(call.argument(4, "eps", 1e-5))
    scale = call.tensor(2) if call.has(2) else call.const(np.ones(shape), value.dtype)
    attrs = {"axis": call.rank(value) - len(shape), "epsilon": epsilon}
    outputs = call.node("LayerNormalization", [value, scale, call.optional(3)], attrs, outputs=3).outputs
    return elements(call, *outputs)


@converter("GroupNorm")
def group_norm(call: Call) -> Any:
    """(x, groups, scale, bias, epsilon), with a scale and bias for each channel."""
    value, groups, epsilon = call.tensor(0), int(call.argument(1, "num_groups")), float(call.argument(4, "eps", 1e-5))
    channels = call.static_dim(value, 1)
    scale = call.tensor(2) if call.has(2) else call.const(np.ones(channels), value.dtype)
    bias = call.tensor(3) if call.has(3) else call.const(np.zeros(channels), value.dtype)
    return elements(call, call.emit("GroupNormalization", value, scale, bias, num_groups=groups, epsilon=epsilon))


@converter("InstanceNorm")
def instance_norm(call: Call) -> Any:
    """(x, scale, bias, moving mean, moving variance): by the statistics of each instance, in inference too."""
    epsilon = float(call.attrs.get("epsilon", 1e-5))
    result = call.emit("InstanceNormalization", call.tensor(0), call.tensor(1), call.tensor(2), epsilon=epsilon)
    return elements(call, result)


@converter("RmsNorm")
def rms_norm(call: Call) -> Any:
    """(x, scale, epsilon) -> (y, inverse root mean square), over the axes of the scale."""
    value, scale = call.tensor(0), call.tensor(1)
    epsilon = float(call.argument(2, "epsilon", 1e-6))
    axis = call.rank(value) - call.rank(scale)
    result = call.emit("RMSNormalization", value, scale, axis=axis, epsilon=epsilon)
    if not isinstance(call.declared, tuple):
        return result
    axes = call.ints(list(range(axis, call.rank(value))))
    mean = call.emit("ReduceMean", call.emit("Mul", value, value), axes)
    inverse = call.emit("Reciprocal", call.emit("Sqrt", call.emit("Add", mean, call.like(epsilon, mean))))
    return elements(call, result, inverse)


@converter("L2Normalize")
def l2_normalize(call: Call) -> Value:
    """x / sqrt(max(sum(x * x), epsilon))."""
    value, axes = call.tensor(0), call.int_arguments(1, "axis", 0)
    epsilon = float(call.argument(2, "epsilon", 1e-4))
    squares = call.emit("ReduceSum", call.emit("Mul", value, value), call.ints(axes))
    return call.emit("Div", value, call.emit("Sqrt", call.emit("Max", squares, call.like(epsilon, squares))))


@converter("LRN")
def local_response_norm(call: Call) -> Value:
    """x / (bias + alpha * sum of squares over channels) ** beta; ONNX divides alpha by the window's size."""
    radius, bias, alpha, beta = (
        call.attrs.get(n, d) for n, d in (("depth_radius", 5), ("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))
    )
    if str(call.attrs.get("norm_region", "ACROSS_CHANNELS")) != "ACROSS_CHANNELS":
        call.fail(f"norm_region '{call.attrs['norm_region']}' is not supported")
    size = 2 * int(radius) + 1
    return call.emit("LRN", call.tensor(0), size=size, bias=float(bias), alpha=float(alpha) * size, beta=float(beta))


@converter("Dropout", "DropoutExt")
def dropout(call: Call) -> Any:
    """Nothing in inference. A network exported in training mode drops at random, which cannot be reproduced."""
    keep = call.argument(1, "keep_prob", 1.0)
    if call.op == "DropoutExt":
        keep = 1.0 - keep
    if float(keep) != 1.0:
        call.fail("it drops elements at random: export the network with set_train(False)")
    return elements(call, call.tensor(0))
