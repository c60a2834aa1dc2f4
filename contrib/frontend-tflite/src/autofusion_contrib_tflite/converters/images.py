"""Operators on images: channels last in the file, so that Transposes stand around the IR's."""

from __future__ import annotations

from typing import Any

import tflite

from autofusion.ir.graph import Value
from autofusion_contrib_tflite.call import Call
from autofusion_contrib_tflite.registry import converter

_TO_NCHW, _TO_NHWC = [0, 3, 1, 2], [0, 2, 3, 1]


def _window(options: Any) -> dict[str, Any]:
    same = options.Padding() == tflite.Padding.SAME
    strides = [options.StrideH(), options.StrideW()]
    return {"strides": strides, "auto_pad": "SAME_UPPER" if same else "VALID"}


@converter("CONV_2D", "DEPTHWISE_CONV_2D")
def _conv(call: Call) -> Value:
    depthwise = call.op == "DEPTHWISE_CONV_2D"
    options = call.options("DepthwiseConv2DOptions" if depthwise else "Conv2DOptions")
    attrs = _window(options) | {"dilations": [options.DilationHFactor(), options.DilationWFactor()]}
    x = call.transpose(call.operand(0), _TO_NCHW)
    channels = call.static_dim(x, 1)
    if depthwise:
        weights, attrs["group"] = call.transpose(call.operand(1), (3, 0, 1, 2)), channels
    else:
        weights, attrs["group"] = (
            call.transpose(call.operand(1), (0, 3, 1, 2)),
            channels // call.static_dim(call.operand(1), 3),
        )
    y = call.emit("Conv", x, weights, call.optional(2), **attrs)
    return call.activated(call.transpose(y, _TO_NHWC), options.FusedActivationFunction())


@converter("TRANSPOSE_CONV")
def _transpose_conv(call: Call) -> Value:
    options = call.options("TransposeConvOptions")
    wanted = call.known_ints(0, "shape of the result")
    x = call.transpose(call.operand(2), _TO_NCHW)
    weights = call.transpose(call.operand(1), (3, 0, 1, 2))
    strides = [options.StrideH(), options.StrideW()]
    sizes = zip(wanted[1:3], x.shape[2:], weights.shape[2:], strides, strict=True)
    total = [(n - 1) * s + k - out for out, n, k, s in sizes]
    pads = [max(t, 0) for t in total]
    y = call.emit(
        "ConvTranspose",
        x,
        weights,
        call.optional(3),
        strides=strides,
        pads=[p // 2 for p in pads] + [p - p // 2 for p in pads],
        output_padding=[max(-t, 0) for t in total],
    )
    return call.activated(call.transpose(y, _TO_NHWC), options.FusedActivationFunction())


@converter("AVERAGE_POOL_2D", "MAX_POOL_2D")
def _pool(call: Call) -> Value:
    op = "MaxPool" if call.op == "MAX_POOL_2D" else "AveragePool"
    options = call.options("Pool2DOptions")
    x = call.transpose(call.operand(0), _TO_NCHW)
    y = call.emit(op, x, kernel_shape=[options.FilterHeight(), options.FilterWidth()], **_window(options))
    return call.activated(call.transpose(y, _TO_NHWC), options.FusedActivationFunction())


@converter("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(call: Call) -> Value:
    mode = "linear" if call.op == "RESIZE_BILINEAR" else "nearest"
    options = call.options("ResizeBilinearOptions" if mode == "linear" else "ResizeNearestNeighborOptions")
    x = call.transpose(call.operand(0), _TO_NCHW)
    height, width = call.known_ints(1, "size")
    batch, channels = call.static_dim(x, 0), call.static_dim(x, 1)
    place = "asymmetric"
    if options.AlignCorners():
        place = "align_corners"
    elif options.HalfPixelCenters():
        place = "half_pixel" if mode == "linear" else "tf_half_pixel_for_nn"
    nearest = "round_prefer_ceil" if options.AlignCorners() else "floor"
    attrs = {"mode": mode, "coordinate_transformation_mode": place, "nearest_mode": nearest}
    y = call.emit("Resize", x, None, None, call.ints([batch, channels, height, width]), **attrs)
    return call.transpose(y, _TO_NHWC)
