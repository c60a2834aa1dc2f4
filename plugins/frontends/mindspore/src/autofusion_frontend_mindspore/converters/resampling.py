"""Resizing of images, and sampling them at given places."""

from __future__ import annotations

from typing import Any

from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter

_INTERPOLATION = {0: "linear", 1: "nearest", 2: "cubic", "bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
_BORDER = {0: "zeros", 1: "border", 2: "reflection", "zeros": "zeros", "border": "border", "reflection": "reflection"}


def _corners(align: bool, half: bool) -> str:
    if align:
        return "align_corners"
    return "half_pixel" if half else "asymmetric"


def _resized(call: Call, size: Any, **attrs: Any) -> Value:
    value = call.tensor(0)
    spatial = call.sizes(size)
    whole = call.emit("Concat", call.emit("Shape", value, start=0, end=2), spatial, axis=0)
    return call.emit("Resize", value, None, None, whole, **attrs)


def _arguments(call: Call) -> tuple[Any, bool, bool]:
    size = call.args[1] if len(call.args) > 1 else call.argument(1, "size")
    align = bool(call.argument(2, "align_corners", False))
    return size, align, bool(call.argument(3, "half_pixel_centers", False))


@converter("ResizeBilinearV2", "ResizeLinear1D")
def resize_linear(call: Call) -> Value:
    """(x, size, corners aligned, centres at half a pixel)."""
    size, align, half = _arguments(call)
    if call.op == "ResizeLinear1D":
        mode = call.attrs.get("coordinate_transformation_mode", "align_corners")
        align, half = mode == "align_corners", mode == "half_pixel"
    return _resized(call, size, mode="linear", coordinate_transformation_mode=_corners(align, half))


@converter("ResizeNearestNeighborV2", "ResizeNearestNeighbor")
def resize_nearest(call: Call) -> Value:
    """(x, size, corners aligned, centres at half a pixel)."""
    size, align, half = _arguments(call)
    if align:
        attrs = {"coordinate_transformation_mode": "align_corners", "nearest_mode": "round_prefer_ceil"}
    elif half:
        attrs = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    else:
        attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _resized(call, size, mode="nearest", **attrs)


@converter("ResizeBicubic")
def resize_cubic(call: Call) -> Value:
    """(x, size, corners aligned, centres at half a pixel); the coefficient differs between the two."""
    size, align, half = _arguments(call)
    if half and not align:
        attrs: dict[str, Any] = {"cubic_coeff_a": -0.5, "exclude_outside": 1}
    else:
        attrs = {"cubic_coeff_a": -0.75}
    return _resized(call, size, mode="cubic", coordinate_transformation_mode=_corners(align, half), **attrs)


@converter(
    "UpsampleNearest1D",
    "UpsampleNearest2D",
    "UpsampleNearest3D",
    "UpsampleLinear1D",
    "UpsampleBilinear2D",
    "UpsampleTrilinear3D",
    "UpsampleBicubic2D",
)
def upsample(call: Call) -> Value:
    """(x, size or None, scales or None, corners aligned), as torch.nn.functional.interpolate."""
    mode = {"N": "nearest", "L": "linear", "T": "linear"}.get(call.op[8], "cubic" if "Bicubic" in call.op else "linear")
    align = mode != "nearest" and bool(call.argument(3, "align_corners", False))
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": _corners(align, mode != "nearest")}
    if mode == "nearest":
        attrs["nearest_mode"] = "floor"
    elif not align:
        attrs["coordinate_transformation_mode"] = "pytorch_half_pixel"
    if call.has(1):
        return _resized(call, call.args[1], **attrs)
    scales = [1.0, 1.0, *(float(s) for s in call.argument(2, "scales"))]
    return call.emit("Resize", call.tensor(0), None, call.const(scales, "float32"), **attrs)


@converter("AffineGrid")
def affine_grid(call: Call) -> Value:
    """(transformations [N, 2, 3] or [N, 3, 4], sizes of the image): the places that they sample it at."""
    align = bool(call.argument(2, "align_corners", False))
    return call.emit("AffineGrid", call.tensor(0), call.sizes(call.args[1]), align_corners=int(align))


@converter("GridSampler2D", "GridSampler3D")
def grid_sampler(call: Call) -> Value:
    """(x, grid, interpolation, border, corners aligned)."""
    mode, border = call.argument(2, "interpolation_mode", 0), call.argument(3, "padding_mode", 0)
    if mode not in _INTERPOLATION or border not in _BORDER:
        call.fail(f"unknown interpolation {mode!r} or padding {border!r}")
    return call.emit(
        "GridSample",
        call.tensor(0),
        call.tensor(1),
        mode=_INTERPOLATION[mode],
        padding_mode=_BORDER[border],
        align_corners=int(bool(call.argument(4, "align_corners", False))),
    )
