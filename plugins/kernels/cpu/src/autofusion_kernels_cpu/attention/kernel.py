"""The attention kernel: for each head, K is packed once; then tiles of queries go through scores, softmax and values.

A tile's scores stay in the core's caches from the first product to the second; only the result leaves. The softmax is
not normalised before the second product: its result is, which is shorter. Keys past the end are minus infinity in the
scores, so that all loops over them run in whole vectors.
"""

from __future__ import annotations

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
    """What the code depends on besides the epilogue of the scores: rows of the tall tiles, and whether K lies as
    [keys, depth].
    """

    rows: int
    k_columns: bool


PARAMETERS = (
    "keys", "depth", "width", "workers", "batches", "groups", "tiles", "tall", "group_tiles",
    "q_row", "q_step", "k_row", "v_row", "o_row", "scratch",
)  # fmt: skip
"""``k_row`` and ``v_row``: strides between rows as they lie. ``scratch``: bytes for each thread. Then the row strides
of the leaves."""


def scratch_layout(isa: Isa, keys: int, depth: int) -> tuple[int, int, int, int]:
    """Elements of (packed K, a packed panel of V, scores and sums of a tile), and their total."""
    width = panel_width(isa)
    panels = -(-keys // width)
    steps = -(-depth // isa.lanes) * isa.lanes
    packed_k = panels * steps * width
    packed_v = -(-keys // isa.lanes) * isa.lanes * width
    tallest = (isa.registers - 1 - vectors_of(isa)) // vectors_of(isa)
    scores = tallest * panels * width + isa.lanes * tallest
    return packed_k, packed_v, scores, packed_k + packed_v + scores


def build(structure: Structure, epilogue: Epilogue, isa: Isa) -> Kernel:
    """Buffers: table of offsets [batch][q, k, v, leaves, o] in elements, q, k, v, leaves, o, scratch."""
    names = leaf_names(epilogue)
    return Kernel(
        "attention",
        isa,
        structure_text(structure, epilogue.key),
        ("table", "q", "k", "v", *names, "o", "scratch"),
        (*PARAMETERS, *(f"{name}_row" for name in names)),
        partial(_emit, s=structure, epilogue=epilogue),
    )


def leaf_names(epilogue: Epilogue) -> list[str]:
    """Buffers of the leaves."""
    return [f"x{i}" for i in range(len(epilogue.leaves))]


def _emit(f: Function, s: Structure, epilogue: Epilogue) -> None:
    module = f.module
    leaves = [leaf.value for leaf in epilogue.leaves]
    names = leaf_names(epilogue)
    strides = [f"{n}_row" for n in names]
    heights = [s.rows] + ([s.rows - 1] if s.rows > 1 else [])
    tiles = {h: tile_function(module, h, 1) for h in heights}
    scores = _scores(module, epilogue)
    softmax = _softmax(module)
    values = _values(module)
    pack_k = (pack_columns if s.k_columns else pack_rows)(module)
    pack_v = pack_rows(module) if s.k_columns else pack_k
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
    block = f.at(packed_v, key_steps * width)
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
        with f.when(f.ne(batch, task.carried[0])), f.loop(0, panels) as panel:
            column = panel.index * width
            source = f.at(k, column * (p["k_row"] if s.k_columns else 1))
            target = f.at(packed_k, panel.index * steps * width)
            f.call(pack_k, source, p["k_row"], target, p["depth"], p["keys"] - column)
        low = group * p["group_tiles"]
        high = f.min(low + p["group_tiles"], p["tiles"])

        def column_of_tiles(rows: int, low: Value, high: Value, first_row: Value) -> None:
            with f.loop(low, high, carry=[first_row]) as loop:
                (row,) = loop.carried
                query = f.at(q, row * p["q_row"])
                with f.loop(0, panels) as panel:
                    b = f.at(packed_k, panel.index * steps * width)
                    f.call(tiles[rows], query, p["q_row"], p["q_step"], b, width, p["depth"], b, 0, zeros, tile_memory)
                    column = panel.index * width
                    pointers = [
                        f.at(
                            x,
                            row * p[stride] + (column if kind is OperandKind.TENSOR else 0),
                            elements.memory_type(value.tensor.dtype),
                        )
                        for x, stride, kind, value in zip(outer, strides, epilogue.kinds, leaves, strict=True)
                    ]
                    target = f.at(block, column)
                    left = p["keys"] - column
                    f.call(
                        scores,
                        tile_memory,
                        rows,
                        left,
                        target,
                        row_length,
                        *pointers,
                        *(p[stride] for stride in strides),
                    )
                f.call(softmax, block, rows, row_length, sums)
                with f.loop(0, p["width"], step=width) as panel:
                    left = p["width"] - panel.index
                    source = f.at(v, panel.index)

                    def packed(source=source, left=left) -> list[Value]:
                        # Only the last panel may be narrow, so one packed panel is enough.
                        f.call(pack_v, source, p["v_row"], packed_v, p["keys"], left)
                        return [packed_v, f.const(width, I64)]

                    b, step = f.branch(left >= width, lambda source=source: [source, p["v_row"]], packed)
                    f.call(tiles[rows], block, row_length, 1, b, step, p["keys"], b, 0, zeros, tile_memory)
                    target = f.at(o, row * p["o_row"] + panel.index)
                    f.call(values, tile_memory, rows, left, sums, target, p["o_row"])
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
                env: dict[GraphValue, Value] = {}
                for leaf, kind, pointer in zip(region.leaves, epilogue.kinds, pointers, strict=True):
                    if kind is OperandKind.TENSOR:
                        env[leaf.value] = elements.load(f, leaf.dtype, pointer, v * f.lanes, f.lanes, mask)
                    else:
                        env[leaf.value] = elements.broadcast(f, leaf.dtype, pointer, 0, f.lanes)
                made = epilogue.values(f, f.load(tile, v * f.lanes), env)[region.results[0]]
                f.store(f.select(mask, made, -vmath.INFINITY), target, v * f.lanes)
            moved = [
                f.at(x, f.args[f"s{i}"], elements.memory_type(leaf.dtype))
                for i, (x, leaf) in enumerate(zip(pointers, region.leaves, strict=True))
            ]
            loop.next(f.at(tile, nv * f.lanes), f.at(target, f.args["length"]), *moved)
    return f


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


def _values(module: Module) -> Function:
    """``values(tile, rows, columns, sums, target, stride)``: one panel of the result, each row times its factor."""
    nv = vectors_of(module.isa)
    arguments = [("tile", PTR), ("rows", I64), ("columns", I64), ("sums", PTR), ("target", PTR), ("stride", I64)]
    with module.function("values", arguments) as f:
        masks = [f.tail_mask(f.args["columns"] - v * f.lanes) for v in range(nv)]
        with f.loop(0, f.args["rows"], carry=[f.args["tile"], f.args["target"]]) as loop:
            tile, target = loop.carried
            factor = f.broadcast(f.args["sums"], loop.index, F32)
            for v, mask in enumerate(masks):
                f.store(f.load(tile, v * f.lanes) * factor, target, v * f.lanes, mask=mask)
            loop.next(f.at(tile, nv * f.lanes), f.at(target, f.args["stride"]))
    return f
