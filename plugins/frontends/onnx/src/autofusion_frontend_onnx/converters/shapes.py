"""Operators that move elements, and were renamed or had other defaults."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter


@converter("Concat", before=4)
def concat(call: Call) -> list[Value]:
    """The axis had a default."""
    return call.result(attrs={"axis": call.attr("axis", 1)})


@converter("Scatter")
def scatter(call: Call) -> list[Value]:
    """Renamed in operator set 11."""
    return call.result("ScatterElements")


@converter("SpaceToDepth", since=28)
def space_to_depth(call: Call) -> list[Value]:
    """The order column-row-depth is a transpose between two reshapes."""
    if call.attr("mode", "DCR") == "DCR":
        return call.result(attrs=call.without("mode"))
    x, block = call.operand(0), call.attr("blocksize")
    sizes = [call.dim(x, axis) for axis in range(4)]
    by = call.ints([block])
    height, width = (call.emit("Div", sizes[axis], by) for axis in (2, 3))
    cut = call.emit("Concat", sizes[0], sizes[1], height, by, width, by, axis=0)
    moved = call.emit("Transpose", call.emit("Reshape", x, cut), perm=[0, 1, 3, 5, 2, 4])
    depth = call.emit("Mul", sizes[1], call.ints([block * block]))
    return call.result("Reshape", [moved, call.emit("Concat", sizes[0], depth, height, width, axis=0)], {})
