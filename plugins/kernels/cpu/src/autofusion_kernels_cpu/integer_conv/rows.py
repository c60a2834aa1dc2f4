"""Depthwise convolutions: the lines that a row of the result reads, with the elements of a column side by side.

The taps above each other lie in one group of elements, channel by channel, so that one multiplication sums them for a
whole vector of channels. A task makes the row that it needs in memory of its thread, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.kernels import TensorView
from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I16, I32, I64, PTR, Value
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.memory import strided
from autofusion_kernels_cpu.integer.form import Form
from autofusion_kernels_cpu.integer_conv.problem import IntegerConv
from autofusion_kernels_cpu.integer_conv.weights import Weights
from autofusion_kernels_cpu.matmul.pack import aligned
from autofusion_kernels_cpu.native.kernel import Source

BUFFERS = ("scratch", "border", "taps")
PARAMETERS = (
    "block", "in_depth", "in_height", "in_width", "low", "whole", "groups", "in_plane", "in_row", "stride_depth",
    "stride_height", "row_bytes",
)  # fmt: skip
"""Sizes and strides of the image in pixels and bytes. ``low`` pixels come before a line, of ``whole``; ``groups`` of
taps above each other; ``row_bytes`` of a thread's memory. ``taps`` is where each tap reads, against the stride."""
_OUTSIDE = -(1 << 40)


def fits_rows(problem: IntegerConv) -> bool:
    """True for a depthwise convolution of one filter a channel with a known zero point, nothing cut off."""
    g = problem.geometry
    return g.is_depthwise and problem.zero is not None and all(a.low >= 0 for a in g.axes)


def groups_of(geometry: Geometry, form: Form) -> int:
    """Groups of taps above each other."""
    return -(-geometry.axes[0].kernel * geometry.axes[1].kernel // form.group)


def row_bytes(geometry: Geometry, form: Form, isa: Isa) -> int:
    """Memory of one thread."""
    width = geometry.axes[2]
    return (width.size + width.low + width.high) * groups_of(geometry, form) * isa.bytes


def pack_rows(cache: dict[Any, Any], problem: IntegerConv, form: Form, lanes: int) -> Weights:
    """Weights [block][tap of a row][group][lane][element of a group]; places are (tap of a row, group, 0)."""
    key = ("integer_conv.rows", id(problem.source), problem.weights_zero.tobytes(), form, lanes)
    if key not in cache:
        # The entry keeps the array, so that its id stays its own.
        cache[key] = (problem.source, _pack(problem, form, lanes))
    found: Weights = cache[key][1]
    return found


def _pack(problem: IntegerConv, form: Form, lanes: int) -> Weights:
    g, weights = problem.geometry, problem.weights
    groups, wide, blocks = groups_of(g, form), g.axes[2].kernel, -(-g.filters // lanes)
    element = np.dtype(np.int8 if form is Form.BYTES else np.int16)
    full = np.zeros((blocks * lanes, groups * form.group, wide), element)
    full[: g.filters, : weights.shape[2] // wide] = weights.reshape(g.filters, -1, wide)
    packed = full.reshape(blocks, lanes, groups, form.group, wide).transpose(0, 4, 2, 1, 3)
    sums = np.zeros((blocks + 1) * lanes, np.int32)
    sums[: g.filters] = weights.sum(axis=(1, 2), dtype=np.int32)
    steps = wide * groups
    places = [(tap, group, 0) for tap in range(wide) for group in range(groups)]
    starts = np.arange(blocks, dtype=np.int64) * steps * lanes * form.group * element.itemsize
    firsts, counts = np.zeros(blocks, np.int64), np.full(blocks, steps, np.int64)
    return Weights(aligned(packed), starts, aligned(sums), np.array(places, np.int64), firsts, counts)


def places_of(weights: Weights, geometry: Geometry, form: Form, isa: Isa) -> np.ndarray:
    """Bytes from a thread's row to each (tap, group), for the first pixel of the result."""
    tap, group, _ = weights.places.T
    pixel = groups_of(geometry, form) * isa.bytes
    return (tap * geometry.axes[2].dilation * pixel + group * isa.bytes).astype(np.int32)


def memory(
    problem: IntegerConv, form: Form, isa: Isa, x: TensorView, scratch: TensorView
) -> tuple[dict[str, Source], dict[str, int]]:
    """Buffers and parameters."""
    g, at = problem.geometry, strided(x, problem.geometry)
    depth, height, width = g.axes
    taps = [
        (d * depth.dilation - depth.low, h * height.dilation - height.low)
        for d in range(depth.kernel)
        for h in range(height.kernel)
    ]
    taps += [(_OUTSIDE, _OUTSIDE)] * (-len(taps) % form.group)
    params = {
        "block": at.block,
        "in_depth": depth.size,
        "in_height": height.size,
        "in_width": width.size,
        "low": width.low,
        "whole": width.size + width.low + width.high,
        "groups": groups_of(g, form),
        "in_plane": at.depth,
        "in_row": at.height,
        "stride_depth": depth.stride,
        "stride_height": height.stride,
        "row_bytes": row_bytes(g, form, isa),
    }
    assert problem.zero is not None
    border = np.full(width.size * isa.lanes, problem.zero, problem.dtype)
    return {"scratch": scratch, "border": border, "taps": np.array(taps, np.int64)}, params


@dataclass(frozen=True, slots=True)
class _Sum:
    """How elements of one column come together."""

    f: Function
    form: Form
    signed: bool
    zero: Value

    def joined(self, elements: Sequence[Value]) -> Value:
        """Vectors of bytes as one of groups."""
        f, total = self.f, None
        for index, x in enumerate(elements):
            if self.form is Form.WORDS:
                wide = f.convert(x, I16) if self.signed else f.extend_unsigned(x, I16)
                zero = f.convert(self.zero, I16) if self.signed else f.extend_unsigned(self.zero, I16)
                x = wide - f.splat(zero, f.lanes)
            elif self.signed:
                x = x ^ -128
            x = f.extend_unsigned(x, I32)
            x = x << (index * 32 // self.form.group) if index else x
            total = x if total is None else total | x
        assert total is not None
        return total


def gather_function(module: Module, form: Form, signed: bool) -> Function:
    """``gather(image, out, zero, border, taps, depth, row, parameters..)``: the row that begins at these positions."""
    numbers = ("in_depth", "in_height", "in_width", "low", "whole", "groups", "in_plane", "in_row")
    arguments = [("image", PTR), ("out", PTR), ("zero", I8), ("border", PTR), ("taps", PTR), ("z", I64), ("y", I64)]
    with module.function("gather", [*arguments, *((n, I64) for n in numbers)], noalias=False) as f:
        a, lanes = f.args, f.lanes
        together = _Sum(f, form, signed, a["zero"])
        pixel = a["groups"] * lanes
        with f.loop(0, a["groups"]) as group:
            lines = []
            for j in range(form.group):
                tap = f.at(a["taps"], (group.index * form.group + j) * 2, I64)
                z, y = a["z"] + f.load(tap, 0, I64), a["y"] + f.load(tap, 1, I64)
                inside = f.ult(z, a["in_depth"]) & f.ult(y, a["in_height"])
                here = f.at(a["image"], z * a["in_plane"] + y * a["in_row"], I8)
                lines.append(f.select(inside, here, a["border"]))
            target = f.at(a["out"], group.index * lanes, I32)
            edge = together.joined([f.load(a["border"], 0, I8.of(lanes))] * form.group)
            with f.loop(0, a["low"]) as x:
                f.store(edge, target, x.index * pixel)
            with f.loop(a["low"] + a["in_width"], a["whole"]) as x:
                f.store(edge, target, x.index * pixel)
            with f.loop(0, a["in_width"]) as x:
                column = [f.load(line, x.index * lanes, I8.of(lanes)) for line in lines]
                f.store(together.joined(column), target, (a["low"] + x.index) * pixel)
    return f


def gather(f: Function, function: Function, image: Value, z: Value, y: Value) -> Value:
    """Make a row; returns where it is."""
    p, b = f.param, f.buffer
    out = f.at(b["scratch"], f.thread * p["row_bytes"], I8)
    zero = f.load(b["zero"], 0, I8)
    numbers = [p[n] for n in ("in_depth", "in_height", "in_width", "low", "whole", "groups", "in_plane", "in_row")]
    f.call(function, image, out, zero, b["border"], b["taps"], z * p["stride_depth"], y * p["stride_height"], *numbers)
    return out
