"""The attention kernel: for each head, K is packed once; then tiles of queries go through scores, softmax and values.

V is read where it lies, or packed with K if its columns are what is adjacent. A tile's scores stay in the core's caches
from the first product to the second; only the result leaves. The softmax is not normalised before the second product:
its result is, which is shorter. Arithmetic on the probabilities needs them normalised, and is one more pass over the
tile. Keys past the end are minus infinity in the scores, so that all loops over them run in whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from autofusion.ir.graph import Value as GraphValue
from autofusion_kernels_cpu.codegen import elements, nest, vmath
from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import F32, I8, I64, PTR, Value
from autofusion_kernels_cpu.matmul.pack import pack_columns, pack_rows
from autofusion_kernels_cpu.matmul.tile import Tile, panel_width, tile_function, vectors_of, zero_tile
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text
from autofusion_kernels_cpu.reduction.sweep import ADD, PEAK, across_lanes


@dataclass(frozen=True, slots=True)
class Structure:
    """What the code depends on besides the arithmetic on scores and probabilities: rows of the tall tiles; whether K
    lies as [keys, depth], V as [width, keys], the result as [width, queries].
    """

    rows: int
    k_columns: bool
    v_columns: bool = False
    o_columns: bool = False


PARAMETERS = (
    "keys", "depth", "width", "workers", "batches", "groups", "tiles", "tall", "group_tiles",
    "q_row", "q_step", "k_row", "v_row", "o_row", "o_step", "scratch",
)  # fmt: skip
"""``k_row`` and ``v_row``: strides between rows as they lie. ``scratch``: bytes for each thread. Then the row strides
of the leaves, those of the masks first."""


def scratch_layout(isa: Isa, keys: int, depth: int, whole_width: int = 1) -> tuple[int, int, int, int]:
    """Elements of (packed K, packed V, scores and sums of a tile), and their total.

    Of V the panels for ``whole_width`` columns are packed.
    """
    width = panel_width(isa)
    panels = -(-keys // width)
    steps = -(-depth // isa.lanes) * isa.lanes
    packed_k = panels * steps * width
    packed_v = -(-keys // isa.lanes) * isa.lanes * width * -(-whole_width // width)
    tallest = (isa.registers - 1 - vectors_of(isa)) // vectors_of(isa)
    scores = tallest * panels * width + isa.lanes * tallest
    return packed_k, packed_v, scores, packed_k + packed_v + scores


def build(structure: Structure, epilogue: Epilogue, guard: Epilogue, isa: Isa) -> Kernel:
    """Buffers: table of offsets [batch][q, k, v, leaves, o] in elements, q, k, v, leaves, o, scratch.

    The leaves are those of ``epilogue``, on the scores, then those of ``guard``, on the probabilities.
    """
    names = leaf_names(epilogue, guard)
    return Kernel(
        "attention",
        isa,
        structure_text(structure, epilogue.key, guard.key),
        ("table", "q", "k", "v", *names, "o", "scratch"),
        (*PARAMETERS, *(f"{name}_row" for name in names)),
        partial(_emit, s=structure, epilogue=epilogue, guard=guard),
    )


def leaf_names(epilogue: Epilogue, guard: Epilogue) -> list[str]:
    """Buffers of the leaves."""
    return [f"x{i}" for i in range(len(epilogue.leaves) + len(guard.leaves))]


def _emit(f: Function, s: Structure, epilogue: Epilogue, guard: Epilogue) -> None:
    module = f.module
    masked = len(epilogue.leaves)
    leaves = [leaf.value for each in (epilogue, guard) for leaf in each.leaves]
    kinds = [*epilogue.kinds, *guard.kinds]
    names = leaf_names(epilogue, guard)
    strides = [f"{n}_row" for n in names]
    heights = [s.rows] + ([s.rows - 1] if s.rows > 1 else [])
    tiles = {h: tile_function(module, h, 1) for h in heights}
    scores = _scores(module, epilogue)
    softmax = _softmax(module)
    probabilities = _probabilities(module, guard) if guard.nodes else None
    values = (_scattered_values if s.o_columns else _values)(module, not guard.nodes)
    packers = {
        columns: (pack_columns if columns else pack_rows)(module) for columns in sorted({s.k_columns, s.v_columns})
    }
    pack_k, pack_v = packers[s.k_columns], packers[s.v_columns]
    width = panel_width(f.isa)
    p = f.param
    tile_memory = f.stack(s.rows * width)
    zeros = zero_tile(f, Tile(s.rows, 1))
    panels = f.udiv(p["keys"] + (width - 1), width)
    row_length = panels * width
    steps = (p["depth"] + (f.lanes - 1)) & -f.lanes
    key_steps = (p["keys"] + (f.lanes - 1)) & -f.lanes
    packed_k = f.at(f.buffer["scratch"], p["scratch"] * f.thread, I8)
    packed_v = f.at(packed_k, panels * steps * width)
    v_panel = key_steps * width
    v_panels = f.udiv(p["width"] + (width - 1), width) if s.v_columns else f.const(1, I64)
    block = f.at(packed_v, v_panel * v_panels)
    sums = f.at(block, row_length * s.rows)
    first, last = nest.share(f, p["batches"] * p["groups"], p["workers"])
    with f.loop(first, last, carry=[f.const(-1, I64)]) as task:
        batch, group = f.udiv(task.index, p["groups"]), f.urem(task.index, p["groups"])
        offsets = f.at(f.buffer["table"], batch * (4 + len(names)), I64)
        q, k, v = (f.at(f.buffer[n], f.load(offsets, i, I64)) for i, n in enumerate("qkv"))
        outer = [
            f.at(f.buffer[n], f.load(offsets, 3 + i, I64), elements.memory_type(value.tensor.dtype))
            for i, (n, value) in enumerate(zip(names, leaves, strict=True))
        ]
        o = f.at(f.buffer["o"], f.load(offsets, 3 + len(names), I64))
        with f.when(f.ne(batch, task.carried[0])):
            with f.loop(0, panels) as panel:
                column = panel.index * width
                source = f.at(k, column * (p["k_row"] if s.k_columns else 1))
                target = f.at(packed_k, panel.index * steps * width)
                f.call(pack_k, source, p["k_row"], target, p["depth"], p["keys"] - column)
            if s.v_columns:
                with f.loop(0, v_panels) as panel:
                    column = panel.index * width
                    target = f.at(packed_v, panel.index * v_panel)
                    f.call(pack_v, f.at(v, column * p["v_row"]), p["v_row"], target, p["keys"], p["width"] - column)
        low = group * p["group_tiles"]
        high = f.min(low + p["group_tiles"], p["tiles"])

        def at(row: Value, column: Value, own: slice) -> list[Value]:
            """Pointers to the leaves' elements for this tile and panel, and their row strides."""
            found = [
                f.at(
                    x,
                    row * p[stride] + (column if kind is OperandKind.TENSOR else 0),
                    elements.memory_type(value.tensor.dtype),
                )
                for x, stride, kind, value in zip(outer[own], strides[own], kinds[own], leaves[own], strict=True)
            ]
            return [*found, *(p[stride] for stride in strides[own])]

        def column_of_tiles(rows: int, low: Value, high: Value, first_row: Value) -> None:
            with f.loop(low, high, carry=[first_row]) as loop:
                (row,) = loop.carried
                query = f.at(q, row * p["q_row"])
                with f.loop(0, panels) as panel:
                    b = f.at(packed_k, panel.index * steps * width)
                    f.call(tiles[rows], query, p["q_row"], p["q_step"], b, width, p["depth"], b, 0, zeros, tile_memory)
                    column = panel.index * width
                    target = f.at(block, column)
                    left = p["keys"] - column
                    own = slice(masked)
                    f.call(scores, tile_memory, rows, left, target, row_length, *at(row, column, own))
                f.call(softmax, block, rows, row_length, sums)
                if probabilities is not None:
                    with f.loop(0, panels) as panel:
                        column = panel.index * width
                        target, left = f.at(block, column), p["keys"] - column
                        own = slice(masked, None)
                        f.call(probabilities, target, rows, left, sums, row_length, *at(row, column, own))
                with f.loop(0, p["width"], step=width) as panel:
                    left = p["width"] - panel.index
                    source = f.at(v, panel.index)

                    def packed(source=source, left=left) -> list[Value]:
                        # Only the last panel may be narrow, so one packed panel is enough.
                        f.call(pack_v, source, p["v_row"], packed_v, p["keys"], left)
                        return [packed_v, f.const(width, I64)]

                    if s.v_columns:
                        b = f.at(packed_v, f.udiv(panel.index, width) * v_panel)
                        step = f.const(width, I64)
                    else:
                        b, step = f.branch(left >= width, lambda source=source: [source, p["v_row"]], packed)
                    f.call(tiles[rows], block, row_length, 1, b, step, p["keys"], b, 0, zeros, tile_memory)
                    target = f.at(o, row * p["o_row"] + panel.index * p["o_step"])
                    f.call(values, tile_memory, rows, left, sums, target, p["o_row"], p["o_step"])
                loop.next(row + rows)

        column_of_tiles(s.rows, low, f.min(high, p["tall"]), low * s.rows)
        if s.rows > 1:
            begin = f.max(low, p["tall"])
            column_of_tiles(s.rows - 1, begin, high, begin * (s.rows - 1) + p["tall"])
        task.next(batch)


def _scores(module: Module, epilogue: Epilogue) -> Function:
    """``scores(tile, rows, columns, target, length, pointers.., row strides..)``: one panel through the region.

    Columns past the end become minus infinity.
    """
    region, nv = epilogue.region, vectors_of(module.isa)
    arguments = [("tile", PTR), ("rows", I64), ("columns", I64), ("target", PTR), ("length", I64)]
    arguments += [(f"x{i}", PTR) for i in range(len(region.leaves))]
    arguments += [(f"s{i}", I64) for i in range(len(region.leaves))]
    with module.function("scores", arguments) as f:
        masks = [f.tail_mask(f.args["columns"] - v * f.lanes) for v in range(nv)]
        start = [f.args["tile"], f.args["target"], *(f.args[f"x{i}"] for i in range(len(region.leaves)))]
        with f.loop(0, f.args["rows"], carry=start) as loop:
            tile, target, *pointers = loop.carried
            for v, mask in enumerate(masks):
                env = _leaves(f, epilogue, pointers, v, mask)
                made = epilogue.values(f, f.load(tile, v * f.lanes), env)[region.results[0]]
                f.store(f.select(mask, made, -vmath.INFINITY), target, v * f.lanes)
            moved = _next_row(f, epilogue, pointers)
            loop.next(f.at(tile, nv * f.lanes), f.at(target, f.args["length"]), *moved)
    return f


def _probabilities(module: Module, guard: Epilogue) -> Function:
    """``probabilities(block, rows, columns, sums, length, pointers.., row strides..)``: one panel, in place.

    Each row times its factor, then through the region.
    """
    region, nv = guard.region, vectors_of(module.isa)
    arguments = [("block", PTR), ("rows", I64), ("columns", I64), ("sums", PTR), ("length", I64)]
    arguments += [(f"x{i}", PTR) for i in range(len(region.leaves))]
    arguments += [(f"s{i}", I64) for i in range(len(region.leaves))]
    with module.function("probabilities", arguments) as f:
        masks = [f.tail_mask(f.args["columns"] - v * f.lanes) for v in range(nv)]
        start = [f.args["block"], *(f.args[f"x{i}"] for i in range(len(region.leaves)))]
        with f.loop(0, f.args["rows"], carry=start) as loop:
            block, *pointers = loop.carried
            factor = f.broadcast(f.args["sums"], loop.index, F32)
            for v, mask in enumerate(masks):
                env = _leaves(f, guard, pointers, v, mask)
                made = guard.values(f, f.load(block, v * f.lanes) * factor, env)[region.results[0]]
                f.store(made, block, v * f.lanes)
            loop.next(f.at(block, f.args["length"]), *_next_row(f, guard, pointers))
    return f


def _leaves(
    f: Function, epilogue: Epilogue, pointers: Sequence[Value], vector: int, mask: Value
) -> dict[GraphValue, Value]:
    """A vector of each leaf."""
    env: dict[GraphValue, Value] = {}
    for leaf, kind, pointer in zip(epilogue.region.leaves, epilogue.kinds, pointers, strict=True):
        if kind is OperandKind.TENSOR:
            env[leaf.value] = elements.load(f, leaf.dtype, pointer, vector * f.lanes, f.lanes, mask)
        else:
            env[leaf.value] = elements.broadcast(f, leaf.dtype, pointer, 0, f.lanes)
    return env


def _next_row(f: Function, epilogue: Epilogue, pointers: Sequence[Value]) -> list[Value]:
    return [
        f.at(x, f.args[f"s{i}"], elements.memory_type(leaf.dtype))
        for i, (x, leaf) in enumerate(zip(pointers, epilogue.region.leaves, strict=True))
    ]


def _softmax(module: Module) -> Function:
    """``softmax(block, rows, length, sums)``.

    E^(score - largest) in place; the reciprocal of each row's sum in ``sums``.
    """
    nv = vectors_of(module.isa)
    with module.function("softmax", [("block", PTR), ("rows", I64), ("length", I64), ("sums", PTR)]) as f:
        with f.loop(0, f.args["rows"], carry=[f.args["block"]]) as row:
            (block,) = row.carried
            low = f.const(-vmath.INFINITY, f.f32)
            with f.loop(0, f.args["length"], step=nv * f.lanes, carry=[low] * nv) as loop:
                loop.next(*(f.max_keep(f.load(block, loop.index + v * f.lanes), m) for v, m in enumerate(loop.carried)))
            peak = loop.results[0]
            for other in loop.results[1:]:
                peak = f.max_keep(peak, other)
            peak = across_lanes(f, PEAK, peak)
            with f.loop(0, f.args["length"], step=nv * f.lanes, carry=[f.zero] * nv) as loop:
                following = []
                for v, total in enumerate(loop.carried):
                    e = vmath.exp_nonpositive(f, f.load(block, loop.index + v * f.lanes) - peak)
                    f.store(e, block, loop.index + v * f.lanes)
                    following.append(total + e)
                loop.next(*following)
            total = loop.results[0]
            for other in loop.results[1:]:
                total = total + other
            inverse = 1.0 / across_lanes(f, ADD, total)
            f.store(f.extract(inverse, 0), f.args["sums"], row.index)
            row.next(f.at(block, f.args["length"]))
    return f


_VALUES = [
    ("tile", PTR), ("rows", I64), ("columns", I64), ("sums", PTR), ("target", PTR), ("stride", I64), ("step", I64)
]  # fmt: skip


def _values(module: Module, scaled: bool) -> Function:
    """``values(tile, rows, columns, sums, target, stride, step)``: one panel of the result with adjacent columns.

    Each row times its factor if ``scaled``.
    """
    nv = vectors_of(module.isa)
    with module.function("values", _VALUES) as f:
        masks = [f.tail_mask(f.args["columns"] - v * f.lanes) for v in range(nv)]
        with f.loop(0, f.args["rows"], carry=[f.args["tile"], f.args["target"]]) as loop:
            tile, target = loop.carried
            factor = f.broadcast(f.args["sums"], loop.index, F32) if scaled else None
            for v, mask in enumerate(masks):
                value = f.load(tile, v * f.lanes)
                f.store(value if factor is None else value * factor, target, v * f.lanes, mask=mask)
            loop.next(f.at(tile, nv * f.lanes), f.at(target, f.args["stride"]))
    return f


def _scattered_values(module: Module, scaled: bool) -> Function:
    """As ``values``, for columns that are ``step`` elements apart: one by one, as far apart as that may be."""
    width = vectors_of(module.isa) * module.isa.lanes
    with module.function("values", _VALUES) as f:
        columns = f.min(f.args["columns"], width)
        with f.loop(0, columns) as column:
            start = f.at(f.args["target"], column.index * f.args["step"])
            with f.loop(0, f.args["rows"], carry=[f.at(f.args["tile"], column.index), start]) as row:
                tile, target = row.carried
                value = f.load(tile, 0, F32)
                if scaled:
                    value = value * f.load(f.args["sums"], row.index, F32)
                f.store(value, target, 0)
                row.next(f.at(tile, width), f.at(target, f.args["stride"]))
    return f
