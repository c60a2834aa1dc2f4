"""Resize kernels: each output pixel is a weighted sum of a few input pixels, which tables name.

One kernel for channel-blocked tensors, one for plain ones whose vectors lie along the last axis. The numbers of input
rows and columns that are mixed are in the code, positions and weights are data. One row and one column without weights
is a copy (nearest); its elements may be any four bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I32, I64, Value
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text

PARAMS = (
    "batch", "blocks", "depth", "height", "width",
    "x_batch", "x_block", "x_depth", "x_row", "y_batch", "y_block", "y_depth", "y_row",
    "workers",
)  # fmt: skip
BUFFERS = ("x", "y", "depth_taps", "row_taps", "columns", "weights")
"""`depth_taps` and `row_taps` hold (index, weight) pairs of i64; `columns` and `weights` are apart, [out, taps] of i64
and float32 for blocked tensors, [taps, out] of i32 and float32 for plain ones."""


@dataclass(frozen=True, slots=True)
class Structure:
    """How many layers, rows and columns of the input an output pixel mixes, and whether it weights them."""

    depths: int
    rows: int
    columns: int
    weighted: bool


class _Row:
    """An output row: its address, and those of the input rows it mixes with their weights."""

    def __init__(self, f: Function, unit: Value, depths: int, rows: int, weighted: bool) -> None:
        p = f.param
        rest, row = _split(f, unit, p["height"])
        rest, layer = _split(f, rest, p["depth"])
        image, block = _split(f, rest, p["blocks"])
        base = image * p["x_batch"] + block * p["x_block"]
        self.x: list[Value] = []
        self.weights: list[Value] = []
        for d in range(depths):
            depth, depth_weight = _tap(f, f.buffer["depth_taps"], layer * depths + d, weighted)
            for h in range(rows):
                height, row_weight = _tap(f, f.buffer["row_taps"], row * rows + h, weighted)
                self.x.append(f.at(f.buffer["x"], base + depth * p["x_depth"] + height * p["x_row"]))
                if weighted:
                    assert depth_weight is not None and row_weight is not None
                    self.weights.append(f.splat(depth_weight * row_weight, f.lanes))
        out = image * p["y_batch"] + block * p["y_block"] + layer * p["y_depth"] + row * p["y_row"]
        self.y = f.at(f.buffer["y"], out)


def _split(f: Function, index: Value, size: Value) -> tuple[Value, Value]:
    rest = f.udiv(index, size)
    return rest, index - rest * size


def _tap(f: Function, table: Value, at: Value, weighted: bool) -> tuple[Value, Value | None]:
    index = f.load(table, at * 2, I64)
    return index, f.float_bits(f.load(table, at * 2 + 1, I64)) if weighted else None


def blocked(isa: Isa, structure: Structure) -> Kernel:
    """Tensors are blocked by the vector's lanes."""
    return Kernel("resize_blocked", isa, structure_text(structure), BUFFERS, PARAMS, partial(_blocked, s=structure))


def plain(isa: Isa, structure: Structure) -> Kernel:
    """Vectors along the last axis; its input positions are gathered."""
    return Kernel("resize_plain", isa, structure_text(structure), BUFFERS, PARAMS, partial(_plain, s=structure))


def _blocked(f: Function, s: Structure) -> None:
    p = f.param
    first, last = nest.share(f, p["batch"] * p["blocks"] * p["depth"] * p["height"], p["workers"])
    with f.loop(first, last) as unit:
        row = _Row(f, unit.index, s.depths, s.rows, s.weighted)
        with f.loop(0, p["width"]) as pixel:
            total = None
            for k in range(s.columns):
                at = f.load(f.buffer["columns"], pixel.index * s.columns + k, I64) * f.lanes
                mixed = _mix(f, row, [f.load(x, at) for x in row.x])
                if s.weighted:
                    weight = f.broadcast(f.buffer["weights"], pixel.index * s.columns + k)
                    mixed = mixed * weight if total is None else f.fma(mixed, weight, total)
                total = mixed
            assert total is not None
            f.store(total, row.y, pixel.index * f.lanes)


def _plain(f: Function, s: Structure) -> None:
    p = f.param
    first, last = nest.share(f, p["batch"] * p["blocks"] * p["depth"] * p["height"], p["workers"])
    with f.loop(first, last) as unit:
        row = _Row(f, unit.index, s.depths, s.rows, s.weighted)
        with f.vector_loop(0, p["width"]) as pixels:
            mask = pixels.mask
            total = None
            for k in range(s.columns):
                here = p["width"] * k + pixels.index
                at = f.load(f.buffer["columns"], here, I32.of(f.lanes), mask=mask)
                mixed = _mix(f, row, [f.gather(x, at, mask=mask) for x in row.x])
                if s.weighted:
                    weight = f.load(f.buffer["weights"], here, mask=mask)
                    mixed = mixed * weight if total is None else f.fma(mixed, weight, total)
                total = mixed
            assert total is not None
            f.store(total, row.y, pixels.index, mask=mask)


def _mix(f: Function, row: _Row, pixels: list[Value]) -> Value:
    """The input rows' pixels at one column, mixed."""
    if not row.weights:
        return pixels[0]
    total = pixels[0] * row.weights[0]
    for pixel, weight in zip(pixels[1:], row.weights[1:], strict=True):
        total = f.fma(pixel, weight, total)
    return total
