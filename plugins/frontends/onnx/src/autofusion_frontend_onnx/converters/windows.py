"""Convolutions and pooling: automatic padding becomes explicit where the sizes are known.

Where they are not, the attribute stays: operators and kernels know it, but most fusions want explicit pads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter


def explicit_pads(call: Call, attrs: dict[str, Any], kernel: Sequence[int] | None) -> dict[str, Any]:
    """``attrs`` with ``auto_pad`` replaced by ``pads``, if the spatial sizes of operand 0 and the kernel are known."""
    mode = attrs.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return {k: v for k, v in attrs.items() if k != "auto_pad"}
    if mode not in ("VALID", "SAME_UPPER", "SAME_LOWER"):
        call.fail(f"unknown auto_pad '{mode}'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    if kernel is None:
        return attrs
    shape = call.operand(0).shape
    sizes = [None] * len(kernel) if shape is None else shape[2:]
    rest = {k: v for k, v in attrs.items() if k not in ("auto_pad", "pads")}
    if mode == "VALID":
        return rest | {"pads": [0] * 2 * len(kernel)}
    if any(not isinstance(s, int) for s in sizes) or len(sizes) != len(kernel):
        return attrs
    ones = [1] * len(kernel)
    strides, dilations = attrs.get("strides") or ones, attrs.get("dilations") or ones
    totals = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        assert isinstance(size, int)
        totals.append(max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0))
    return rest | {"pads": _shared_out(totals, mode == "SAME_UPPER")}


def _shared_out(totals: Sequence[int], more_at_end: bool) -> list[int]:
    low = [t // 2 if more_at_end else t - t // 2 for t in totals]
    return low + [t - b for t, b in zip(totals, low, strict=True)]


def kernel_of(call: Call, weight: int) -> Sequence[int] | None:
    """The kernel's spatial size: stated, or that of the weights (operand ``weight``)."""
    stated = call.attr("kernel_shape")
    if stated:
        return list(stated)
    value = call.optional(weight)
    if value is None or value.shape is None:
        return None
    dims = [d for d in value.shape[2:] if isinstance(d, int)]
    return dims if len(dims) == len(value.shape) - 2 else None


@converter("MaxPool", "AveragePool", "LpPool")
def pool(call: Call) -> list[Value]:
    """The kernel's size is an attribute."""
    return call.result(attrs=explicit_pads(call, call.attrs, call.attr("kernel_shape")))


@converter("Conv", "ConvInteger")
def conv(call: Call) -> list[Value]:
    """The kernel's size is that of the weights."""
    return call.result(attrs=explicit_pads(call, call.attrs, kernel_of(call, 1)))


@converter("QLinearConv")
def quantised_conv(call: Call) -> list[Value]:
    """As Conv, with the weights elsewhere."""
    return call.result(attrs=explicit_pads(call, call.attrs, kernel_of(call, 3)))


@converter("ConvTranspose")
def conv_transpose(call: Call) -> list[Value]:
    """Pads follow from the output's size: the one stated, or input times stride, or less where the kernel is smaller
    than the stride (what onnx infers and onnxruntime does).
    """
    kernel, attrs = kernel_of(call, 1), dict(call.attrs)
    mode, stated = attrs.get("auto_pad", "NOTSET"), attrs.get("output_shape")
    if mode == "VALID" and not stated:
        return call.result(attrs=explicit_pads(call, attrs, kernel))
    shape = call.operand(0).shape
    if mode == "NOTSET" and not stated:
        attrs.pop("auto_pad", None)
        attrs.pop("output_shape", None)
        return call.result(attrs=attrs)
    if kernel is None or shape is None or any(not isinstance(s, int) for s in shape[2:]):
        return call.result(attrs=attrs)
    count = len(kernel)
    ones, zeros = [1] * count, [0] * count
    strides, dilations = attrs.get("strides") or ones, attrs.get("dilations") or ones
    extra = list(attrs.get("output_padding") or zeros)
    totals = []
    for i, (size, k, stride, dilation) in enumerate(zip(shape[2:], kernel, strides, dilations, strict=True)):
        assert isinstance(size, int)
        wanted = stated[-count:][i] if stated else size * stride
        total = stride * (size - 1) + extra[i] + (k - 1) * dilation + 1 - wanted
        if stated:
            extra[i] += max(-total, 0)  # an output larger than the kernel reaches is filled up at its end
        totals.append(max(total, 0))
    rest = {k: v for k, v in attrs.items() if k not in ("auto_pad", "output_shape", "pads", "output_padding")}
    if any(extra):
        rest["output_padding"] = extra
    return call.result(attrs=rest | {"pads": _shared_out(totals, mode == "SAME_UPPER")})
