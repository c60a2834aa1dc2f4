"""Upsample and the early forms of Resize and GridSample."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter


@converter("Upsample")
def upsample(call: Call) -> list[Value]:
    """Scales were two attributes, then one, then an operand."""
    x = call.operand(0)
    if call.version < 7:
        scales = call.const([1.0, 1.0, call.attr("height_scale"), call.attr("width_scale")], np.float32, "scales")
    elif call.version < 9:
        scales = call.const(call.attr("scales"), np.float32, "scales")
    else:
        scales = call.operand(1)
    return _asymmetric(call, x, scales, call.attr("mode", "nearest"))


@converter("Resize", since=10, before=11)
def first_resize(call: Call) -> list[Value]:
    """Operator set 10 has scales only, and one way to map coordinates."""
    return _asymmetric(call, call.operand(0), call.operand(1), call.attr("mode", "nearest"))


def _asymmetric(call: Call, x: Value, scales: Value, mode: str) -> list[Value]:
    mode = "linear" if mode == "bilinear" else mode
    attrs = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if mode != "nearest":
        return call.result("Resize", [x, None, scales], attrs)
    # Where it shrinks, the nearest element is rounded up, elsewhere down: so did the runtimes of that time.
    shrunk, grown = attrs | {"nearest_mode": "ceil"}, attrs | {"nearest_mode": "floor"}
    data = scales.const
    if data is not None and (data >= 1).all():
        return call.result("Resize", [x, None, scales], grown)
    if data is not None and (data <= 1).all():
        return call.result("Resize", [x, None, scales], shrunk)
    # Of two steps, one does nothing on an axis; where a scale is computed, which of them is seen once it is.
    one = call.const(1, np.float32, "one")
    x = call.emit("Resize", x, None, call.emit("Max", scales, one), **grown)
    return call.result("Resize", [x, None, call.emit("Min", scales, one)], shrunk)


@converter("Resize", since=11)
def resize(call: Call) -> list[Value]:
    """Absent operands may be written as empty tensors; one way to map coordinates was given up in set 13."""
    operands = [v if v is None or v.const is None or v.const.size else None for v in call.inputs]
    attrs = dict(call.attrs)
    if attrs.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        attrs |= _without_offset(call)
    if attrs.get("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize" and len(operands) > 1:
        operands[1] = None
    return call.result(inputs=operands, attrs=attrs)


def _without_offset(call: Call) -> dict[str, str]:
    """(i + 0.5) / scale lies half an element behind half_pixel, which other roundings make up for."""
    same = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
    rounding = call.attr("nearest_mode", "round_prefer_floor")
    if call.attr("mode", "nearest") != "nearest" or rounding not in same:
        call.fail(
            f"coordinates 'tf_half_pixel_for_nn' with mode '{call.attr('mode')}' and '{rounding}' are not supported"
        )
    return {"coordinate_transformation_mode": "half_pixel", "nearest_mode": same[rounding]}


@converter("GridSample", before=20)
def grid_sample(call: Call) -> list[Value]:
    """The modes have other names."""
    mode = call.attr("mode", "bilinear")
    return call.result(attrs=call.attrs | {"mode": {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)})


@converter("RoiAlign", before=16)
def roi_align(call: Call) -> list[Value]:
    """Coordinates were not moved by half an element."""
    return call.result(attrs=call.attrs | {"coordinate_transformation_mode": "output_half_pixel"})
