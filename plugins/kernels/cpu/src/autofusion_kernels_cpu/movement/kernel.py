"""Copy kernels: one for each shape that the inner axes of a box can have. Everything else about a box is data.

All share one walk: a unit of work is a position on the outer axes, a part of the middle axis, and a piece: a box may
come several times, from different sources and to different offsets. Pieces go fastest, so that those that meet in a
cache line follow each other. The kernels differ in what they do along the middle and the inner axis. Strides and
offsets are in bytes. The first buffer is the result, the others are the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import F32, F64, I8, I16, I32, I64, PTR, Type, Value
from autofusion_kernels_cpu.native.kernel import Kernel

PARAMS = (
    "pieces", "outer", "parts", "chunk", "middle", "source_middle", "result_middle",
    "inner", "source_inner", "result_inner", "shrink", "workers", "rank",
)  # fmt: skip
"""Followed by `rank` outer axes (dim, source stride, result stride), innermost first, and by the pieces (number of the
source, its offset, the result's offset, count of inner elements or bytes)."""

ITEMS: dict[int, Type] = {1: I8, 2: I16, 4: I32, 8: I64}
# Vectors of floats are loaded and shuffled in their own domain; no arithmetic touches them, so any bits survive.
_VECTOR_ITEMS: dict[int, Type] = {1: I8, 2: I16, 4: F32, 8: F64}

_Body = Callable[[Function, Value, Value, Value, Value, Value], None]
"""(function, source, result, count, first, last): copy middle positions first..last of one piece."""


def _kernel(isa: Isa, name: str, write: Callable[[Function], _Body]) -> Kernel:
    return Kernel(name, isa, "", ("result",), PARAMS, lambda f: _walk(f, write(f)))


def _walk(f: Function, body: _Body) -> None:
    p, params, table = f.param, f.args["params"], len(PARAMS)
    first, last = nest.share(f, p["pieces"] * p["outer"] * p["parts"], p["workers"])
    pieces = p["rank"] * 3 + table
    with f.loop(first, last) as unit:
        rest, piece = _split(f, unit.index, p["pieces"])
        index, part = _split(f, rest, p["parts"])
        number, source, result, count = (f.load(params, pieces + piece * 4 + i, I64) for i in range(4))
        origin = f.load(f.args["buffers"], number + 1, PTR)
        with f.loop(0, p["rank"], carry=[index, source, result]) as axis:
            dim, source_stride, result_stride = (f.load(params, axis.index * 3 + (table + i), I64) for i in range(3))
            rest, here = _split(f, axis.carried[0], dim)
            axis.next(rest, axis.carried[1] + here * source_stride, axis.carried[2] + here * result_stride)
        _, source, result = axis.results
        start = part * p["chunk"]
        stop = f.min(start + p["chunk"], p["middle"])
        body(f, f.at(origin, source, I8), f.at(f.buffer["result"], result, I8), count, start, stop)


def _split(f: Function, index: Value, size: Value) -> tuple[Value, Value]:
    rest = f.udiv(index, size)
    return rest, index - rest * size


def _line(f: Function, source: Value, result: Value, index: Value) -> tuple[Value, Value]:
    """The addresses at a position of the middle axis."""
    p = f.param
    return f.at(source, index * p["source_middle"], I8), f.at(result, index * p["result_middle"], I8)


def move_function(module: Module) -> Function:
    """`move(result, source, n)`: copy n bytes between places that do not overlap.

    The last vector is put at the end, overlapping what is there already, so there is no loop over a rest.
    """
    f = module.function("move", [("result", Type("ptr")), ("source", Type("ptr")), ("n", I64)])
    result, source, n = f.args["result"], f.args["source"], f.args["n"]
    vector = I8.of(f.isa.bytes)
    with f:

        def ends(type_: Type) -> None:
            last = n - type_.size
            a, b = f.load(source, 0, type_), f.load(f.at(source, last, I8), 0, type_)
            f.store(a, result)
            f.store(b, f.at(result, last, I8))

        def whole() -> None:
            last = n - vector.size
            quads = f.udiv(n, 4 * vector.size) * (4 * vector.size)
            with f.loop(0, quads, step=4 * vector.size) as quad:
                at = [quad.index + i * vector.size for i in range(4)]
                values = [f.load(f.at(source, a, I8), 0, vector) for a in at]
                for a, value in zip(at, values, strict=True):
                    f.store(value, f.at(result, a, I8))
            with f.loop(quads, last, step=vector.size) as single:
                f.store(f.load(f.at(source, single.index, I8), 0, vector), f.at(result, single.index, I8))
            f.store(f.load(f.at(source, last, I8), 0, vector), f.at(result, last, I8))

        def short(size: int) -> None:
            type_ = ITEMS.get(size) or I8.of(size)
            if size == 1:
                with f.when(f.gt(n, 0)):
                    f.store(f.load(source, 0, I8), result)
                return
            f.branch(f.ge(n, size), lambda: ends(type_), lambda: short(size // 2))

        f.branch(f.ge(n, vector.size), whole, lambda: short(vector.size // 2))
    return f


def bytes_kernel(isa: Isa) -> Kernel:
    """Runs of any length. A run that is split over the middle axis has `shrink` bytes less left at each position."""

    def write(kernel: Function) -> _Body:
        move = move_function(kernel.module)

        def body(f: Function, source: Value, result: Value, count: Value, first: Value, last: Value) -> None:
            with f.loop(first, last) as middle:
                a, b = _line(f, source, result, middle.index)
                f.call(move, b, a, f.min(f.param["inner"], count - middle.index * f.param["shrink"]))

        return body

    return _kernel(isa, "copy_bytes", write)


def vector_kernel(isa: Isa) -> Kernel:
    """Runs that are one vector."""

    def body(f: Function, source: Value, result: Value, count: Value, first: Value, last: Value) -> None:
        with f.loop(first, last) as middle:
            a, b = _line(f, source, result, middle.index)
            f.store(f.load(a), b)

    return _kernel(isa, "copy_vectors", lambda _: body)


def masked_kernel(isa: Isa) -> Kernel:
    """Runs of `count` four-byte elements, fewer than a vector has."""

    def body(f: Function, source: Value, result: Value, count: Value, first: Value, last: Value) -> None:
        mask = f.tail_mask(count)
        with f.loop(first, last) as middle:
            a, b = _line(f, source, result, middle.index)
            f.store(f.load(a, mask=mask), b, mask=mask)

    return _kernel(isa, "copy_masked", lambda _: body)


def fill_kernel(isa: Isa, itemsize: int) -> Kernel:
    """One source element for all of an inner run."""
    item = ITEMS[itemsize]
    lanes = isa.bytes // itemsize

    def body(f: Function, source: Value, result: Value, count: Value, first: Value, last: Value) -> None:
        with f.loop(first, last) as middle:
            a, b = _line(f, source, result, middle.index)
            value = f.load(a, 0, item)
            vector = f.splat(value, lanes)
            whole = f.udiv(count, lanes) * lanes
            with f.loop(0, whole, step=lanes) as inner:
                f.store(vector, b, inner.index)
            with f.loop(whole, count) as inner:
                f.store(value, b, inner.index)

    return _kernel(isa, f"copy_fill{itemsize}", lambda _: body)


def gather_kernel(isa: Isa, itemsize: int) -> Kernel:
    """Strided source, contiguous result; elements of four or eight bytes."""
    item = _VECTOR_ITEMS[itemsize]
    lanes = isa.bytes // itemsize

    def body(f: Function, source: Value, result: Value, count: Value, first: Value, last: Value) -> None:
        stride = f.convert(f.div(f.param["source_inner"], itemsize), I32)
        steps = f.iota(lanes) * f.splat(stride, lanes)
        with f.loop(first, last) as middle:
            a, b = _line(f, source, result, middle.index)
            with f.vector_loop(0, count, lanes) as inner:
                here = f.at(a, inner.index * f.param["source_inner"], I8)
                f.store(f.gather(here, steps, item, mask=inner.mask), b, inner.index, mask=inner.mask)

    return _kernel(isa, f"copy_gather{itemsize}", lambda _: body)


def element_kernel(isa: Isa, itemsize: int) -> Kernel:
    """Any strides, one element at a time."""
    item = ITEMS[itemsize]

    def body(f: Function, source: Value, result: Value, count: Value, first: Value, last: Value) -> None:
        with f.loop(first, last) as middle:
            a, b = _line(f, source, result, middle.index)
            with f.loop(0, count) as inner:
                value = f.load(f.at(a, inner.index * f.param["source_inner"], I8), 0, item)
                f.store(value, f.at(b, inner.index * f.param["result_inner"], I8))

    return _kernel(isa, f"copy_elements{itemsize}", lambda _: body)


def tile_lanes(isa: Isa, itemsize: int) -> int:
    """Rows and columns of a tile that is transposed in registers."""
    return isa.bytes // max(itemsize, 4)


def transpose_kernel(isa: Isa, itemsize: int) -> Kernel:
    """The middle axis is contiguous in the source, the inner one in the result: square tiles in registers."""
    item = _VECTOR_ITEMS[itemsize]
    lanes = tile_lanes(isa, itemsize)
    args = [("source", PTR), ("result", PTR), ("rows", I64), ("columns", I64), ("pitch", I64), ("spread", I64)]

    def write_edge(f: Function) -> None:
        # Rows and columns past the edge repeat the last one: loads stay inside, and stores from the far end to the
        # near one overwrite what is wrong.
        rows, columns = f.args["rows"], f.args["columns"]
        inside = f.tail_mask(columns, lanes)
        vectors = [
            f.load(f.at(f.args["source"], f.min(rows - 1, i) * f.args["pitch"], I8), 0, item.of(lanes), mask=inside)
            for i in range(lanes)
        ]
        mask = f.tail_mask(rows, lanes)
        for i, vector in reversed(list(enumerate(f.transpose(vectors)))):
            f.store(vector, f.at(f.args["result"], f.min(columns - 1, i) * f.args["spread"], I8), mask=mask)

    def body(
        edge: Function, f: Function, source: Value, result: Value, count: Value, first: Value, last: Value
    ) -> None:
        pitch, spread = f.param["source_inner"], f.param["result_middle"]
        with f.loop(first, last, step=lanes) as column:
            columns = f.min(last - column.index, lanes)
            a = f.at(source, column.index * itemsize, I8)
            b = f.at(result, column.index * spread, I8)
            # An edge of columns makes all of its tiles edges.
            whole = f.select(f.eq(columns, lanes), f.udiv(count, lanes) * lanes, f.as_value(0, I64))
            with f.loop(0, whole, step=lanes) as row:
                rows = [f.at(a, (row.index + i) * pitch, I8) for i in range(lanes)]
                vectors = f.transpose([f.load(r, 0, item.of(lanes)) for r in rows])
                for i, vector in enumerate(vectors):
                    f.store(vector, f.at(b, row.index * itemsize + i * spread, I8))
            with f.loop(whole, count, step=lanes) as row:
                here = f.at(a, row.index * pitch, I8), f.at(b, row.index * itemsize, I8)
                f.call(edge, *here, f.min(count - row.index, lanes), columns, pitch, spread)

    def write(kernel: Function) -> _Body:
        with kernel.module.function("edge", args) as edge:
            write_edge(edge)
        return partial(body, edge)

    return _kernel(isa, f"copy_transpose{itemsize}", write)


_KERNELS: dict[str, Callable[[Isa, int], Kernel]] = {
    "bytes": lambda isa, _: bytes_kernel(isa),
    "vector": lambda isa, _: vector_kernel(isa),
    "masked": lambda isa, _: masked_kernel(isa),
    "fill": fill_kernel,
    "gather": gather_kernel,
    "element": element_kernel,
    "transpose": transpose_kernel,
}


def copy_kernel(kind: str, isa: Isa, itemsize: int) -> Kernel:
    """The kernel for walks of that kind."""
    return _KERNELS[kind](isa, itemsize)
