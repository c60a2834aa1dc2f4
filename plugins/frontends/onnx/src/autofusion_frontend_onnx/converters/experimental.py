"""Operators that were experimental in the first operator sets, and that old exporters wrote all the same."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter


@converter("Affine", before=10)
def affine(call: Call) -> list[Value]:
    """alpha * x + beta."""
    x = call.operand(0)
    scaled = call.emit("Mul", x, call.like(call.attr("alpha", 1.0), x, "alpha"))
    return call.result("Add", [scaled, call.like(call.attr("beta", 0.0), x, "beta")], {})


@converter("ScaledTanh", before=10)
def scaled_tanh(call: Call) -> list[Value]:
    """alpha * tanh(beta * x)."""
    x = call.operand(0)
    inner = call.emit("Tanh", call.emit("Mul", x, call.like(call.attr("beta", 1.0), x, "beta")))
    return call.result("Mul", [inner, call.like(call.attr("alpha", 1.0), x, "alpha")], {})


@converter("ParametricSoftplus", before=10)
def parametric_softplus(call: Call) -> list[Value]:
    """alpha * log(1 + exp(beta * x))."""
    x = call.operand(0)
    inner = call.emit("Softplus", call.emit("Mul", x, call.like(call.attr("beta", 1.0), x, "beta")))
    return call.result("Mul", [inner, call.like(call.attr("alpha", 1.0), x, "alpha")], {})


@converter("Scale", before=10)
def scale(call: Call) -> list[Value]:
    """scale * x."""
    x = call.operand(0)
    return call.result("Mul", [x, call.like(call.attr("scale", 1.0), x, "scale")], {})


@converter("ThresholdedRelu", before=10)
def thresholded_relu(call: Call) -> list[Value]:
    """As it was later adopted."""
    return call.result()


@converter("ImageScaler", before=10)
def image_scaler(call: Call) -> list[Value]:
    """x * scale + bias, with a bias for each channel."""
    x = call.operand(0)
    scaled = call.emit("Mul", x, call.like(call.attr("scale", 1.0), x, "scale"))
    bias = call.const(np.reshape(call.attr("bias", [0.0]), (-1, 1, 1)), call.dtype(x), "bias")
    return call.result("Add", [scaled, bias], {})


@converter("Crop", before=10)
def crop(call: Call) -> list[Value]:
    """Cuts ``border`` (left, top, right, bottom) off, or a window of ``scale`` (height, width) from left and top."""
    left, top, right, bottom = call.attr("border", [0, 0, 0, 0])
    window = call.attr("scale")
    huge = np.iinfo(np.int64).max
    if window:
        ends = [top + window[0], left + window[1]]
    else:
        ends = [-bottom if bottom else huge, -right if right else huge]
    operands = [call.ints([top, left], "starts"), call.ints(ends, "ends"), call.ints([2, 3], "axes")]
    return call.result("Slice", [call.operand(0), *operands], {})


@converter("MeanVarianceNormalization", before=9)
def mean_variance_normalization(call: Call) -> list[Value]:
    """Over the spatial axes, and the channels if ``across_channels``; the variance only if ``normalize_variance``."""
    x = call.operand(0)
    axes = list(range(1 if call.attr("across_channels", 0) else 2, call.rank(x)))
    centred = call.emit("Sub", x, call.emit("ReduceMean", x, call.ints(axes, "axes")))
    if not call.attr("normalize_variance", 1):
        return [centred]
    variance = call.emit("ReduceMean", call.emit("Mul", centred, centred), call.ints(axes, "axes"))
    deviation = call.emit("Sqrt", call.emit("Add", variance, call.like(1e-9, x, "epsilon")))
    return call.result("Div", [centred, deviation], {})
