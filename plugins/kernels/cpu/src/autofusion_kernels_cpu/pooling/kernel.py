"""Pooling kernels: one for channel-blocked tensors, one for plain ones whose vectors lie along the last axis.

Windows come as tables (see `window`), so padding, strides, dilations and rounding are data; the code depends on the
reduction (max or average) and, for plain tensors, on whether neighbouring outputs read neighbouring inputs.
Every tensor has three spatial axes here; missing ones have size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import F32, I1, I8, I32, I64, Type, Value
from autofusion_kernels_cpu.native.kernel import Kernel

GROUP = 8
"""Output pixels that share one pass over the taps of a blocked window: enough to hide the latency of the maximum."""

WAYS = 4
"""Partial results of a single pixel."""

BLOCKED_PARAMS = (
    "batch", "blocks", "depth", "height", "width", "inner_first", "inner_last", "taps",
    "x_batch", "x_block", "x_depth", "x_row", "y_batch", "y_block", "y_depth", "y_row",
    "step", "tap_depth", "tap_row", "tap", "workers",
)  # fmt: skip
PLAIN_PARAMS = (
    "batch", "blocks", "depth", "height", "width", "taps", "size", "stride", "low", "dilation",
    "x_batch", "x_block", "x_depth", "x_row", "y_batch", "y_block", "y_depth", "y_row",
    "tap_depth", "tap_row", "workers",
)  # fmt: skip


class _Row:
    """The output row that a thread works on: its addresses, and the taps in depth and height."""

    def __init__(self, f: Function, unit: Value, item: Type = F32) -> None:
        p, table = f.param, f.buffer["table"]
        rest, row = _split(f, unit, p["height"])
        rest, layer = _split(f, rest, p["depth"])
        image, block = _split(f, rest, p["blocks"])
        in_depth, in_row = layer * 3, (p["depth"] + row) * 3
        self.widths = (p["depth"] + p["height"]) * 3
        self.depth_taps, self.row_taps = f.load(table, in_depth + 1, I64), f.load(table, in_row + 1, I64)
        self.divisor = f.load(table, in_depth + 2, I64) * f.load(table, in_row + 2, I64)
        base = image * p["x_batch"] + block * p["x_block"]
        base = base + f.load(table, in_depth, I64) * p["x_depth"] + f.load(table, in_row, I64) * p["x_row"]
        self.x = f.at(f.buffer["x"], base, item)
        out = image * p["y_batch"] + block * p["y_block"] + layer * p["y_depth"] + row * p["y_row"]
        self.y = f.at(f.buffer["y"], out, item)


def _split(f: Function, index: Value, size: Value) -> tuple[Value, Value]:
    rest = f.udiv(index, size)
    return rest, index - rest * size


def _fold(f: Function, kind: str, total: Value, x: Value) -> Value:
    if kind == "u8":
        return f.select(f.ult(total, x), x, total)
    return f.max(x, total) if kind in ("max", "i8") else total + x


def _item(kind: str) -> Type:
    """What tensors hold."""
    return I8 if kind in ("u8", "i8") else F32


def _start(f: Function, kind: str) -> Value:
    if _item(kind) == I8:
        return f.const(-128 if kind == "i8" else 0, I8.of(f.lanes))
    return f.const(0.0 if kind == "average" else float("-inf"), f.f32)


def blocked(isa: Isa, kind: str, dtype: str = "f32") -> Kernel:
    """`kind` is max or average; tensors are blocked by the vector's lanes. Maxima also of `dtype` u8 and i8."""
    if dtype != "f32":
        assert kind == "max" and dtype in ("u8", "i8")
        kind = dtype
    name = f"pool_{kind}_blocked"
    return Kernel(name, isa, "", ("x", "y", "table"), BLOCKED_PARAMS, partial(_blocked, kind=kind))


def _blocked(f: Function, kind: str) -> None:
    p = f.param
    first, last = nest.share(f, p["batch"] * p["blocks"] * p["depth"] * p["height"], p["workers"])
    with f.loop(first, last) as unit:
        row = _Row(f, unit.index, _item(kind))
        whole = f.udiv(f.max(p["inner_last"] - p["inner_first"], 0), GROUP) * GROUP
        grouped = p["inner_first"] + whole
        with f.loop(0, p["inner_first"]) as left:
            _pixel(f, kind, row, left.index)
        with f.loop(p["inner_first"], grouped, step=GROUP) as inner:
            _group(f, kind, row, inner.index)
        with f.loop(grouped, p["width"]) as right:
            _pixel(f, kind, row, right.index)


def _window(f: Function, row: _Row, column: Value) -> tuple[Value, Value, Value]:
    at = row.widths + column * 3
    return tuple(f.load(f.buffer["table"], at + i, I64) for i in range(3))  # type: ignore[return-value]


def _group(f: Function, kind: str, row: _Row, column: Value) -> None:
    """Inside, where every window has the size of the first one."""
    start, _, size = _window(f, row, column)
    x = f.at(row.x, start * f.lanes, _item(kind))
    columns = [f.param["step"] * i for i in range(GROUP)]

    def store(totals: Sequence[Value]) -> None:
        for i, total in enumerate(totals):
            f.store(total, row.y, (column + i) * f.lanes)

    if kind == "average":
        divisor = f.splat(f.convert(row.divisor * size, F32), f.lanes)
        store([total / divisor for total in _taps(f, kind, row, x, f.param["taps"], columns)])
    elif f.native_nan_max or _item(kind) == I8:
        store(_taps(f, kind, row, x, f.param["taps"], columns))
    else:
        # Keeping a NaN costs x86 three instructions a tap. Instead, look for one on the way at half an instruction a
        # tap, and should there be any, do the group again pixel by pixel.
        *totals, numbers = _taps(f, "quick max", row, x, f.param["taps"], columns)
        none = f.reduce("and", numbers)
        clean = none if none.type == I1 else f.ne(none, 0)

        def again() -> None:
            with f.loop(0, GROUP) as pixel:
                _pixel(f, kind, row, column + pixel.index)

        f.branch(clean, lambda: store(totals), again)


def _all_numbers(f: Function) -> Value:
    """The start of a mask in the form that the instruction set keeps masks in."""
    return f.const(True, f.mask_type) if f.isa.registers == 32 else f.const(-1, f.i32)


def _quick_max(f: Function, folded: Sequence[Value], taps: Sequence[Value]) -> list[Value]:
    """Maxima that may lose a NaN, and the mask of the lanes that had none."""
    *totals, numbers = folded
    for a, b in zip(taps[::2], taps[1::2], strict=True):
        both = f.emit(f"fcmp ord {a!r}, {b.text}", f.mask_type)
        numbers = f.and_(numbers, both if numbers.type == f.mask_type else f.emit(f"sext {both!r} to {f.i32}", f.i32))
    return [*(f.max_keep(total, x) for total, x in zip(totals, taps, strict=True)), numbers]


def _pixel(f: Function, kind: str, row: _Row, column: Value) -> None:
    start, count, size = _window(f, row, column)
    (total,) = _taps(f, kind, row, f.at(row.x, start * f.lanes, _item(kind)), count, [f.as_value(0, I64)], WAYS)
    if kind == "average":
        total = total / f.splat(f.convert(row.divisor * size, F32), f.lanes)
    f.store(total, row.y, column * f.lanes)


def _taps(
    f: Function, kind: str, row: _Row, start: Value, taps: Value, columns: Sequence[Value], ways: int = 1
) -> Sequence[Value]:
    """The reduction over a window for the output pixels at `columns`, element offsets from `start`.

    A single pixel may be reduced `ways` ways at once, so that long windows do not wait for one sum.
    """
    p, item = f.param, _item(kind)
    vector = item.of(f.lanes)
    initial = [_start(f, kind) for _ in range(len(columns) * ways)]
    initial += [_all_numbers(f)] if kind == "quick max" else []
    whole = f.udiv(taps, ways) * ways
    with f.loop(0, row.depth_taps, carry=initial) as depth:
        layer = f.at(start, depth.index * p["tap_depth"], item)
        with f.loop(0, row.row_taps, carry=depth.carried) as height:
            line = f.at(layer, height.index * p["tap_row"], item)
            # A line is summed on its own: the error of a mean grows with lines and columns, not with their product.
            sums = kind == "average"
            with f.loop(0, whole, step=ways, carry=initial if sums else height.carried) as width:
                here = [f.at(line, (width.index + way) * p["tap"], item) for way in range(ways)]
                x = [f.load(h, c, vector) for h in here for c in columns]
                if kind == "quick max":
                    width.next(*_quick_max(f, width.carried, x))
                else:
                    width.next(*(_fold(f, kind, total, tap) for total, tap in zip(width.carried, x, strict=True)))
            totals = width.results
            if ways > 1:
                with f.loop(whole, taps, carry=[totals[0]]) as rest:
                    rest.next(
                        _fold(f, kind, rest.carried[0], f.load(f.at(line, rest.index * p["tap"], item), 0, vector))
                    )
                totals = (*rest.results, *totals[1:])
            height.next(*([a + b for a, b in zip(height.carried, totals, strict=True)] if sums else totals))
        depth.next(*height.results)
    if ways == 1:
        return depth.results
    total, *others = depth.results
    for other in others:
        total = _fold(f, kind, total, other)
    return [total]


def plain(isa: Isa, kind: str, adjacent: bool) -> Kernel:
    """Vectors along the last axis; `adjacent` if the stride is 1, otherwise lanes are gathered."""
    name = f"pool_{kind}_plain_{'adjacent' if adjacent else 'gather'}"
    emit = partial(_plain, kind=kind, adjacent=adjacent)
    return Kernel(name, isa, "", ("x", "y", "table", "sizes"), PLAIN_PARAMS, emit)


def _plain(f: Function, kind: str, adjacent: bool) -> None:
    p = f.param
    first, last = nest.share(f, p["batch"] * p["blocks"] * p["depth"] * p["height"], p["workers"])
    lane = f.iota(f.lanes)
    size = f.splat(f.convert(p["size"], I32), f.lanes)
    with f.loop(first, last) as unit:
        row = _Row(f, unit.index)
        with f.vector_loop(0, p["width"]) as columns:
            assert columns.mask is not None
            begin = columns.index * p["stride"] - p["low"]
            steps = lane if adjacent else lane * f.convert(p["stride"], I32)
            with f.loop(0, p["taps"], carry=[_start(f, kind)]) as width:
                # Taps outermost, so that the mask of a tap is made once for all rows.
                shift = begin + width.index * p["dilation"]
                at = f.splat(f.convert(shift, I32), f.lanes) + steps
                mask = f.and_(columns.mask, f.and_(f.ge(at, 0), f.lt(at, size)))
                with f.loop(0, row.depth_taps, carry=width.carried) as depth:
                    layer = f.at(row.x, depth.index * p["tap_depth"])
                    with f.loop(0, row.row_taps, carry=depth.carried) as height:
                        line = f.at(layer, height.index * p["tap_row"])
                        fill = float("-inf") if kind == "max" else 0.0
                        if adjacent:
                            x = f.load(line, shift, mask=mask, fill=fill)
                        else:
                            x = f.gather(line, at, mask=mask, fill=fill)
                        height.next(_fold(f, kind, height.carried[0], x))
                    depth.next(*height.results)
                width.next(*depth.results)
            (total,) = width.results
            if kind == "average":
                sizes = f.load(f.buffer["sizes"], columns.index, mask=columns.mask, fill=1.0)
                total = total / (f.splat(f.convert(row.divisor, F32), f.lanes) * sizes)
            f.store(total, row.y, columns.index, mask=columns.mask)
