"""Kernels that read or write where operands say.

An index out of range touches nothing and is noted; the kernel's check raises afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.elements import memory_type
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import F32, F64, I8, I32, I64, Type, Value
from autofusion_kernels_cpu.movement.kernel import ITEMS, move_function
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text

NOTHING = int(np.iinfo(np.int64).min)
"""No index is that small: the value of the note as long as all were in range."""
_VECTOR_ITEMS: dict[int, Type] = {4: F32, 8: F64}
_INDEX: dict[int, Type] = {4: I32, 8: I64}
_COMBINE: dict[str, Callable[[Function, Value, Value], Value]] = {
    "add": lambda f, a, b: a + b,
    "mul": lambda f, a, b: a * b,
    "max": lambda f, a, b: f.max(a, b),
    "min": lambda f, a, b: f.min(a, b),
}
REDUCTIONS = ("none", *_COMBINE)


@dataclass(frozen=True, slots=True)
class Form:
    """What the code depends on: the elements, the bytes of an index, how updates are combined."""

    dtype: np.dtype
    index_bytes: int
    reduction: str = "none"

    @property
    def item(self) -> Type:
        """An element as it is moved or combined."""
        return ITEMS[self.dtype.itemsize] if self.reduction == "none" else memory_type(self.dtype)


def gather_elements_kernel(isa: Isa, form: Form) -> Kernel:
    """GatherElements of elements of four or eight bytes: `step` is 0 where the last axis is the one looked up."""
    params = ("size", "pitch", "step")
    return Kernel(
        "gather_elements", isa, structure_text(form), ("x", "indices", "y", "note"), (*params, "count"),
        partial(_gather_elements, form=form),
    )  # fmt: skip


def _gather_elements(f: Function, form: Form) -> None:
    p, lanes = f.param, f.lanes
    item, index_type = _VECTOR_ITEMS[form.dtype.itemsize], _INDEX[form.index_bytes]
    size = f.splat(f.convert(p["size"], index_type), lanes)
    pitch, step = (f.splat(f.convert(p[name], I32), lanes) for name in ("pitch", "step"))
    pointers = [f.buffer[name] for name in ("x", "indices", "y")]
    with nest.rows(f, pointers, [item, index_type, item]) as row:
        x, indices, y = row.pointers
        with f.vector_loop(0, p["count"], lanes) as part:
            given = f.load(indices, part.index, index_type.of(lanes), mask=part.mask)
            index = f.select(given < 0, given + size, given)
            inside = f.ult(index, size)
            with f.when(f.reduce("or", ~inside)):
                f.store(f.reduce("max", f.select(inside, NOTHING, f.convert(given, I64))), f.buffer["note"])
            at = f.convert(index, I32) * pitch + f.iota(lanes) * step
            source = f.at(x, part.index * p["step"], item)
            assert part.mask is not None
            f.store(f.gather(source, at, item, mask=part.mask & inside), y, part.index, mask=part.mask)


def _position(f: Function, given: Value, size: Value) -> tuple[Value, Value]:
    """The index counted from the front, and whether it is one."""
    index = f.convert(given, I64)
    index = f.select(index < 0, index + size, index)
    return index, f.ult(index, size)


def scatter_elements_kernel(isa: Isa, form: Form) -> Kernel:
    """Elements written to, or combined with, those of `y`, one after the other along every row of updates."""
    params = ("size", "pitch", "step", "count")
    buffers = ("indices", "updates", "y", "note")
    emit = partial(_scatter_elements, form=form)
    return Kernel("scatter_elements", isa, structure_text(form), buffers, params, emit)


def _scatter_elements(f: Function, form: Form) -> None:
    p, item, index_type = f.param, form.item, _INDEX[form.index_bytes]
    pointers = [f.buffer[name] for name in ("indices", "updates", "y")]
    with nest.rows(f, pointers, [index_type, item, item]) as row:
        indices, updates, y = row.pointers
        with f.loop(0, p["count"]) as part:
            given = f.load(indices, part.index, index_type)
            index, inside = _position(f, given, p["size"])
            with f.when(~inside):
                f.store(f.convert(given, I64), f.buffer["note"])
            with f.when(inside):
                value = f.load(updates, part.index, item)
                at = f.at(y, index * p["pitch"] + part.index * p["step"], item)
                if form.reduction != "none":
                    value = _COMBINE[form.reduction](f, f.load(at, 0, item), value)
                f.store(value, at)


def scatter_rows_kernel(isa: Isa, form: Form) -> Kernel:
    """ScatterND: rows of `run` elements; `depth` pairs (size, pitch) say where an index leads. Threads share a run, so
    that updates of one row keep their order.
    """
    params = ("rows", "depth", "run", "workers")
    buffers = ("indices", "updates", "y", "note")
    return Kernel("scatter_rows", isa, structure_text(form), buffers, params, partial(_scatter_rows, form=form))


def _scatter_rows(f: Function, form: Form) -> None:
    p, item, table = f.param, form.item, len(f.param)
    lanes = f.isa.bytes // item.size
    move = move_function(f.module) if form.reduction == "none" else None
    first, last = nest.share(f, p["run"], p["workers"])
    with f.loop(0, p["rows"]) as row:
        with f.loop(0, p["depth"], carry=[f.const(0, I64), f.const(True, f.mask_type.element)]) as level:
            place, good = level.carried
            given = f.load(f.buffer["indices"], row.index * p["depth"] + level.index, _INDEX[form.index_bytes])
            size, pitch = (f.load(f.args["params"], level.index * 2 + (table + i), I64) for i in range(2))
            index, inside = _position(f, given, size)
            with f.when(~inside):
                f.store(f.convert(given, I64), f.buffer["note"])
            level.next(place + index * pitch, good & inside)
        place, good = level.results
        with f.when(good):
            updates = f.at(f.buffer["updates"], row.index * p["run"] + first, item)
            y = f.at(f.buffer["y"], place + first, item)
            if move is not None:
                f.call(move, y, updates, (last - first) * item.size)
            else:
                with f.vector_loop(0, last - first, lanes) as part:
                    old = f.load(y, part.index, item.of(lanes), mask=part.mask)
                    new = f.load(updates, part.index, item.of(lanes), mask=part.mask)
                    f.store(_COMBINE[form.reduction](f, old, new), y, part.index, mask=part.mask)


def turn_kernel(isa: Isa, form: Form) -> Kernel:
    """ReverseSequence: rows of `run` bytes [outer, inner] of which either axis is time, the other the batch."""
    params = ("outer", "inner", "run", "time_first", "workers")
    buffers = ("x", "lengths", "y", "note")
    return Kernel("reverse_rows", isa, structure_text(form), buffers, params, partial(_turn, form=form))


def _turn(f: Function, form: Form) -> None:
    p = f.param
    move = move_function(f.module)
    by_time = f.ne(p["time_first"], 0)
    first, last = nest.share(f, p["outer"] * p["inner"], p["workers"])
    with f.loop(first, last) as unit:
        outer = f.udiv(unit.index, p["inner"])
        inner = unit.index - outer * p["inner"]
        time, row = f.select(by_time, outer, inner), f.select(by_time, inner, outer)
        size = f.select(by_time, p["outer"], p["inner"])
        length = f.convert(f.load(f.buffer["lengths"], row, _INDEX[form.index_bytes]), I64)
        with f.when(f.ult(size, length)):
            f.store(length, f.buffer["note"])
        turned = f.select(f.ult(size, length) | (time >= length), time, length - 1 - time)
        place = f.select(by_time, turned * p["inner"] + row, row * p["inner"] + turned)
        source = f.at(f.buffer["x"], place * p["run"], I8)
        f.call(move, f.at(f.buffer["y"], unit.index * p["run"], I8), source, p["run"])


def cache_kernel(isa: Isa, form: Form) -> Kernel:
    """TensorScatter: rows of `run` bytes [batch, outer, length] written into [batch, outer, size] from the position of
    the batch on; `circular` goes on at the front.
    """
    params = ("batch", "outer", "length", "size", "run", "circular", "workers")
    buffers = ("updates", "starts", "y", "note")
    return Kernel("write_rows", isa, structure_text(form), buffers, params, partial(_cache, form=form))


def _cache(f: Function, form: Form) -> None:
    p = f.param
    move = move_function(f.module)
    first, last = nest.share(f, p["batch"] * p["outer"] * p["length"], p["workers"])
    with f.loop(first, last) as unit:
        line = f.udiv(unit.index, p["length"])
        start = f.convert(f.load(f.buffer["starts"], f.udiv(line, p["outer"]), _INDEX[form.index_bytes]), I64)
        place = start + (unit.index - line * p["length"])
        place = f.select(f.ne(p["circular"], 0), f.urem(place + p["size"], p["size"]), place)
        inside = f.ult(place, p["size"])
        with f.when(~inside):
            f.store(start, f.buffer["note"])
        with f.when(inside):
            source = f.at(f.buffer["updates"], unit.index * p["run"], I8)
            f.call(move, f.at(f.buffer["y"], (line * p["size"] + place) * p["run"], I8), source, p["run"])


def triangle_kernel(isa: Isa, form: Form) -> Kernel:
    """Trilu: of each row the part up to (lower) or from (upper) its own diagonal, zero elsewhere."""
    params = ("matrices", "rows", "columns", "diagonal", "upper", "workers")
    return Kernel("triangle", isa, structure_text(form), ("x", "y"), params, partial(_triangle, form=form))


def _triangle(f: Function, form: Form) -> None:
    p, item = f.param, ITEMS[form.dtype.itemsize]
    item = _VECTOR_ITEMS.get(item.size, item)
    lanes = min(f.isa.bytes // item.size, 16)
    first, last = nest.share(f, p["matrices"] * p["rows"], p["workers"])
    with f.loop(first, last) as unit:
        row = f.urem(unit.index, p["rows"])
        cut = f.min(f.max(row + p["diagonal"] + (1 - p["upper"]), 0), p["columns"])
        begin = f.select(f.ne(p["upper"], 0), cut, f.const(0, I64))
        stop = f.select(f.ne(p["upper"], 0), p["columns"], cut)
        x, y = (f.at(f.buffer[name], unit.index * p["columns"], item) for name in ("x", "y"))
        with f.vector_loop(0, p["columns"], lanes) as part:
            keep = f.tail_mask(stop - part.index, lanes) & ~f.tail_mask(begin - part.index, lanes)
            f.store(f.load(x, part.index, item.of(lanes), mask=keep), y, part.index, mask=part.mask)


def running_kernel(isa: Isa, dtype: np.dtype, product: bool, exclusive: bool) -> Kernel:
    """CumSum and CumProd along the middle axis of [outer, size, inner]; float32 adds up in float64 and is rounded at
    every element. Backwards from `start` with a negative `pitch`.
    """
    params = ("outer", "size", "inner", "start", "pitch", "workers")
    emit = partial(_running, dtype=dtype, product=product, exclusive=exclusive)
    return Kernel("running", isa, structure_text(dtype, product, exclusive), ("x", "y"), params, emit)


def _running(f: Function, dtype: np.dtype, product: bool, exclusive: bool) -> None:
    p, item = f.param, memory_type(dtype)
    wide = F64 if item == F32 else item

    def along(x: Value, y: Value, lanes: int, mask: Value | None) -> None:
        type_ = item.of(lanes) if lanes else item
        with f.loop(0, p["size"], carry=[f.const(int(product), wide.of(lanes) if lanes else wide)]) as step:
            at = step.index * p["pitch"]
            value = f.convert(f.load(x, at, type_, mask=mask), wide)
            total = step.carried[0] * value if product else step.carried[0] + value
            f.store(f.convert(step.carried[0] if exclusive else total, item), y, at, mask=mask)
            step.next(total)

    lanes = f.isa.bytes // item.size
    blocks = f.udiv(p["inner"] + (lanes - 1), f.as_value(lanes, I64))
    first, last = nest.share(f, p["outer"] * blocks, p["workers"])
    with f.loop(first, last) as unit:
        outer = f.udiv(unit.index, blocks)
        begin = (unit.index - outer * blocks) * lanes
        origin = outer * p["size"] * p["inner"] + p["start"] + begin
        x, y = f.at(f.buffer["x"], origin, item), f.at(f.buffer["y"], origin, item)
        f.branch(
            f.eq(p["inner"], 1),
            lambda: along(x, y, 0, None),
            lambda: along(x, y, lanes, f.tail_mask(p["inner"] - begin, lanes)),
        )
