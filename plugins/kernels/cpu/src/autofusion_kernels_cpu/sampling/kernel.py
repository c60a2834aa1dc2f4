"""Sampling kernels: the taps of a vector of result positions are computed once and read in every channel.

The kernels differ in where their taps come from: a grid, the bins of a region, offsets of a convolution, or a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import F32, F64, I32, I64, Value, Vec
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text
from autofusion_kernels_cpu.sampling.taps import TAPS, Length, Tap, axis_taps, combined

_MAPS = ("points", "channels", "x_batch", "x_channel", "y_batch", "y_channel", "workers")
"""Elements of a result map, channels, and strides in elements."""
_SAMPLES = 16
"""Samples of a bin whose taps are held at once."""
MOST_SAMPLES = 1 << 15
"""Samples of a bin along one axis: a region that asks for more is an error."""
NOTHING = -1 << 63
"""The value of a note as long as nothing was wrong."""


@dataclass(frozen=True, slots=True)
class GridForm:
    """What the code of a GridSample depends on."""

    rank: int
    mode: str
    padding: str
    align: bool


@dataclass(frozen=True, slots=True)
class RoiForm:
    """What the code of a RoiAlign depends on."""

    half_pixel: bool
    largest: bool
    index_bytes: int


@dataclass(frozen=True, slots=True)
class OffsetForm:
    """What the code of a DeformConv's columns depends on."""

    modulated: bool


class _Taps:
    """Room on the stack for the taps of one vector: lanes that do not read have index -1."""

    def __init__(self, f: Function, count: int) -> None:
        self._f, self._count = f, count
        self._index, self._weight = f.stack(count * f.lanes, I32), f.stack(count * f.lanes, F32)

    def put(self, slot: int | Value, tap: Tap, mask: Vec, factor: Vec | None = None) -> None:
        """Keep a tap; `factor` is one more weight."""
        f = self._f
        reads = mask if tap.inside is None else mask & tap.inside
        f.store(f.select(reads, tap.index, -1), self._index, slot * f.lanes)
        weight = tap.weight if factor is None or tap.weight is None else tap.weight * factor
        if weight is not None:
            f.store(weight, self._weight, slot * f.lanes)

    def read(self, x: Value, slot: int | Value, weighted: bool = True) -> Vec:
        """What the tap contributes in the map at `x`."""
        f = self._f
        index = f.load(self._index, slot * f.lanes, f.i32)
        seen = f.gather(x, index, F32, mask=index >= 0)
        return seen * f.load(self._weight, slot * f.lanes) if weighted else seen

    def add(self, x: Value, slot: int | Value, total: Vec) -> Vec:
        """The total with what the tap contributes."""
        f = self._f
        index = f.load(self._index, slot * f.lanes, f.i32)
        return f.fma(f.gather(x, index, F32, mask=index >= 0), f.load(self._weight, slot * f.lanes), total)

    def sum(self, x: Value, weighted: bool = True) -> Vec:
        """All of them, in one map."""
        total = self.read(x, 0, weighted)
        for slot in range(1, self._count):
            total = self.add(x, slot, total)
        return total


def _split(f: Function, index: Value, size: Value) -> tuple[Value, Value]:
    rest = f.udiv(index, size)
    return rest, index - rest * size


def _vectors(f: Function, maps: Value, body: Callable[[Value, Value, Vec], None]) -> None:
    """`body(map, first point, mask)` for each vector of points of each map, shared between the threads."""
    p = f.param
    blocks = f.udiv(p["points"] + (f.lanes - 1), f.as_value(f.lanes, I64))
    first, last = nest.share(f, maps * blocks, p["workers"])
    with f.loop(first, last) as unit:
        number, block = _split(f, unit.index, blocks)
        start = block * f.lanes
        body(number, start, f.tail_mask(p["points"] - start))


def _cells(f: Function, start: Value, width: Value) -> tuple[Vec, Vec]:
    """Rows and columns, float64, of the points from `start` on in a map of that width."""
    cell = f.convert(f.iota(f.lanes), F64) + f.splat(f.convert(start, F64), f.lanes)
    across = f.splat(f.convert(width, F64), f.lanes)
    row = f.floor((cell + 0.5) / across)
    return row, cell - row * across


def grid_kernel(isa: Isa, form: GridForm) -> Kernel:
    """GridSample of one to three spatial axes; `size0` is the outermost."""
    sizes = tuple(f"size{i}" for i in range(form.rank))
    params = (*_MAPS, "batch", *sizes)
    return Kernel("sample_grid", isa, structure_text(form), ("x", "grid", "y"), params, partial(_grid, form=form))


def _grid(f: Function, form: GridForm) -> None:
    p, rank = f.param, form.rank
    sizes = [Length.of(f, p[f"size{i}"]) for i in range(rank)]
    taps = _Taps(f, TAPS[form.mode] ** rank)
    nearest = form.mode == "nearest"

    def body(image: Value, start: Value, mask: Vec) -> None:
        here = f.at(f.buffer["grid"], (image * p["points"] + start) * rank)
        axes = []
        for i, size in enumerate(sizes):
            given = f.gather(here, f.iota(f.lanes) * rank + (rank - 1 - i), F32, mask=mask)
            if nearest:  # computed in the grid's precision: the position decides which element is taken
                at = f.convert(_position(given, f.convert(size.real, F32), form.align), F64)
            else:
                at = _position(f.convert(given, F64), size.real, form.align)
            axes.append(axis_taps(f, at, size, form.mode, form.padding, form.align))
        for slot, tap in enumerate(combined(f, axes, sizes)):
            taps.put(slot, tap, mask)
        x = f.at(f.buffer["x"], image * p["x_batch"])
        y = f.at(f.buffer["y"], image * p["y_batch"] + start)
        with f.loop(0, p["channels"]) as channel:
            value = taps.sum(f.at(x, channel.index * p["x_channel"]), weighted=not nearest)
            f.store(value, y, channel.index * p["y_channel"], mask=mask)

    _vectors(f, p["batch"], body)


def _position(given: Vec, size: Vec, align: bool) -> Vec:
    """A coordinate of -1 to 1 in elements."""
    return (given + 1.0) / 2.0 * (size - 1.0) if align else ((given + 1.0) * size - 1.0) / 2.0


def roi_kernel(isa: Isa, form: RoiForm) -> Kernel:
    """RoiAlign; `scale` has the bits of a float32, `ratio` 0 takes the number of samples from the size of a bin."""
    params = (*_MAPS, "regions", "batch", "height", "width", "bin_rows", "bin_columns", "ratio", "scale")
    buffers = ("x", "regions", "images", "y", "note")
    return Kernel("sample_regions", isa, structure_text(form), buffers, params, partial(_regions, form=form))


def _regions(f: Function, form: RoiForm) -> None:
    p = f.param
    sizes = [Length.of(f, p["height"]), Length.of(f, p["width"])]
    taps = _Taps(f, _SAMPLES * 4)
    scale = f.float_bits(p["scale"])
    index_type = {4: I32, 8: I64}[form.index_bytes]

    def body(region: Value, start: Value, mask: Vec) -> None:
        image = f.convert(f.load(f.buffer["images"], region, index_type), I64)
        known = f.ult(image, p["batch"])
        with f.when(~known):
            f.store(image, f.buffer["note"])
        shift = 0.5 if form.half_pixel else 0.0
        x1, y1, x2, y2 = (f.load(f.buffer["regions"], region * 4 + i, F32) * scale - shift for i in range(4))
        cells = _cells(f, start, p["bin_columns"])
        counts, axes = [], []
        for low, high, bins, cell in ((y1, y2, p["bin_rows"], cells[0]), (x1, x2, p["bin_columns"], cells[1])):
            extent = high - low if form.half_pixel else f.max(high - low, 1.0)
            width = extent / f.convert(bins, F32)
            needed = f.max(f.convert(f.ceil(width), I64), 0)
            count = f.select(p["ratio"] > 0, p["ratio"], needed)
            wide = f.convert(width, F64)
            counts.append(count)
            axes.append((f.splat(f.convert(low, F64), f.lanes) + cell * f.splat(wide, f.lanes), wide, count))
        few = (counts[0] < MOST_SAMPLES) & (counts[1] < MOST_SAMPLES)
        with f.when(~few):
            f.store(region, f.buffer["note"], 1)
        total = f.select(known & few, counts[0] * counts[1], f.const(0, I64))
        factor = f.splat(f.convert(_inverse(f, total), F32), f.lanes)
        x = f.at(f.buffer["x"], f.select(known, image, f.const(0, I64)) * p["x_batch"])
        y = f.at(f.buffer["y"], region * p["y_batch"] + start)
        with f.loop(0, f.max(total, 1), step=_SAMPLES) as part:
            held = f.min(total - part.index, _SAMPLES)
            with f.loop(0, held) as sample:
                row, column = _split(f, part.index + sample.index, f.max(counts[1], 1))
                pairs = [_linear(f, *axes[0], row, sizes[0]), _linear(f, *axes[1], column, sizes[1])]
                for i, tap in enumerate(combined(f, pairs, sizes)):
                    taps.put(sample.index * 4 + i, tap, mask, None if form.largest else factor)
            begin = f.splat(f.const(-math.inf if form.largest else 0.0, F32), f.lanes)
            fresh = f.eq(part.index, 0)
            with f.loop(0, p["channels"]) as channel:
                source, out = f.at(x, channel.index * p["x_channel"]), channel.index * p["y_channel"]
                value = f.select(fresh, begin, f.load(y, out, mask=mask))
                with f.loop(0, held * 4, carry=[value]) as tap:
                    if form.largest:
                        tap.next(f.max(tap.carried[0], taps.read(source, tap.index)))
                    else:
                        tap.next(taps.add(source, tap.index, tap.carried[0]))
                value = f.select(total > 0, tap.results[0], f.const(0.0, f.f32))
                f.store(value, y, out, mask=mask)

    _vectors(f, p["regions"], body)


def _inverse(f: Function, count: Value) -> Value:
    return f.const(1.0, F64) / f.convert(f.max(count, 1), F64)


def _linear(f: Function, start: Vec, width: Value, count: Value, step: Value, size: Length) -> list[Tap]:
    """The two taps of a sample of every bin; one beyond the map by more than an element counts nothing."""
    inner = (f.convert(step, F64) + 0.5) * width / f.convert(count, F64)
    at = start + f.splat(inner, f.lanes)
    counts = (at >= -1.0) & (at <= size.real)
    at = f.select(counts, f.min_keep(f.max_keep(at, f.const(0.0, at.type)), size.real - 1.0), 0.0)
    low = f.convert(at, I32)
    weight = f.convert(at - f.convert(low, F64), F32)
    high = f.min_keep(low + 1, size.whole - 1)
    return [Tap(low, 1.0 - weight, counts), Tap(high, weight, counts)]


def offset_kernel(isa: Isa, form: OffsetForm) -> Kernel:
    """The columns [N, C, taps, points] of a deformable convolution of two spatial axes; `channels` are those of one
    offset group.
    """
    geometry = ("height", "width", "out_width", "kernel_width")
    each = ("stride_y", "stride_x", "pad_y", "pad_x", "dilation_y", "dilation_x")
    params = (*_MAPS, "groups", "taps", *geometry, *each)
    buffers = ("x", "offsets", "factors", "y")
    return Kernel(
        "sample_offsets", isa, structure_text(form), buffers, (*params, "batch"), partial(_offsets, form=form)
    )


def _offsets(f: Function, form: OffsetForm) -> None:
    p = f.param
    sizes = [Length.of(f, p["height"]), Length.of(f, p["width"])]
    taps = _Taps(f, 4)

    def body(number: Value, start: Value, mask: Vec) -> None:
        # One map for each image, offset group and kernel tap.
        group, tap = _split(f, number, p["taps"])
        kernel = _split(f, tap, p["kernel_width"])
        cells = _cells(f, start, p["out_width"])
        axes = []
        for i, name in enumerate("yx"):
            moved = f.load(f.buffer["offsets"], (number * 2 + i) * p["points"] + start, mask=mask)
            origin = f.convert(kernel[i] * p[f"dilation_{name}"] - p[f"pad_{name}"], F64)
            stride = f.splat(f.convert(p[f"stride_{name}"], F64), f.lanes)
            at = f.convert(moved, F64) + (cells[i] * stride + f.splat(origin, f.lanes))
            axes.append(axis_taps(f, at, sizes[i], "linear", "zeros", False))
        factor = None
        if form.modulated:
            factor = f.load(f.buffer["factors"], number * p["points"] + start, mask=mask)
        for slot, each in enumerate(combined(f, axes, sizes)):
            taps.put(slot, each, mask, factor)
        x = f.at(f.buffer["x"], group * p["channels"] * p["x_channel"])
        y = f.at(f.buffer["y"], (group * p["channels"] * p["taps"] + tap) * p["points"] + start)
        with f.loop(0, p["channels"]) as channel:
            value = taps.sum(f.at(x, channel.index * p["x_channel"]))
            f.store(value, y, channel.index * p["y_channel"], mask=mask)

    _vectors(f, p["batch"] * p["groups"] * p["taps"], body)


def table_kernel(isa: Isa) -> Kernel:
    """Sums of the elements that a table [taps, points] of i32 names in every map; -1 names none."""
    return Kernel("sample_table", isa, "", ("x", "table", "y"), (*_MAPS, "batch", "taps"), _table)


def _table(f: Function) -> None:
    p = f.param

    def body(image: Value, start: Value, mask: Vec) -> None:
        x = f.at(f.buffer["x"], image * p["x_batch"])
        y = f.at(f.buffer["y"], image * p["y_batch"] + start)
        with f.loop(0, p["channels"]) as channel:
            source = f.at(x, channel.index * p["x_channel"])
            with f.loop(0, p["taps"], carry=[f.const(0.0, f.f32)]) as tap:
                index = f.load(f.buffer["table"], tap.index * p["points"] + start, f.i32, mask=mask, fill=-1)
                tap.next(tap.carried[0] + f.gather(source, index, F32, mask=index >= 0))
            f.store(tap.results[0], y, channel.index * p["y_channel"], mask=mask)

    _vectors(f, p["batch"], body)
