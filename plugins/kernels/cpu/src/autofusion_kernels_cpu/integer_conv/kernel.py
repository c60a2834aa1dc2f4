"""The kernel of integer convolutions.

    out[f, row, x] = epilogue(sum_t sum_e in[place[t] + row + x * pixel + e] * w[t][f][e] - zero * sums[f])

``t`` walks a table of byte offsets, one for each group of channels of each tap: kernel taps, dilation, channels, groups
and sizes are data. A task is a panel of filters and a piece of a row; pieces are covered by tiles of one length, of
which the last is moved left. Tiles go to memory that stays in the first-level cache; a small loop over their pixels
makes up for the zero point and applies the epilogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen import elements, nest
from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I32, I64, PTR, Type, Value
from autofusion_kernels_cpu.integer.form import Form, multiply
from autofusion_kernels_cpu.integer.operand import unsigned_byte
from autofusion_kernels_cpu.integer_conv import rows
from autofusion_kernels_cpu.integer_conv.schedule import Tile
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text


@dataclass(frozen=True, slots=True)
class Structure:
    """What the code depends on besides its epilogue. ``step``: bytes between the elements of two pixels of a tile.
    ``signed``: the elements of the operand are, whose zero point is read (of bytes only). ``rows``: depthwise, by rows
    that are made first.
    """

    form: Form
    tile: Tile
    step: int
    signed: bool = False
    rows: bool = False


PARAMETERS = (
    "images", "panels", "depth", "height", "pieces", "piece", "width", "blocks",
    "image", "plane", "row", "workers",
)  # fmt: skip
"""Sizes of the result: ``pieces`` of ``piece`` pixels in a row of ``width``; ``blocks`` of filters. ``image``,
``plane`` and ``row``: bytes of the input between two of the result's. Then the strides of every other operand."""
STRIDES = ("image", "block", "plane", "row")
"""Of an operand that lies as the result does, in elements."""
PANEL = ("weights", "place", "count")
"""Data of each panel: where its weights begin, in bytes, the first of its places, and how many there are."""


def operand_names(epilogue: Epilogue) -> list[str]:
    """Buffers of the epilogue: leaves, then the result."""
    return [f"x{i}" for i in range(len(epilogue.leaves) + 1)]


def build(s: Structure, epilogue: Epilogue, isa: Isa) -> Kernel:
    """Buffers: the image, packed weights, places (int32), sums (int32), its zero point, panels (int64), others."""
    names = operand_names(epilogue)
    return Kernel(
        "integer_conv",
        isa,
        structure_text(s, epilogue.key),
        ("input", "weights", "places", "sums", "zero", "panel", *names, *(rows.BUFFERS if s.rows else ())),
        (
            *PARAMETERS,
            *(f"{name}.{stride}" for name in names for stride in STRIDES),
            *(rows.PARAMETERS if s.rows else ()),
        ),
        partial(_emit, s=s, epilogue=epilogue),
    )


def _types(epilogue: Epilogue) -> list[Type]:
    values = [*(leaf.value for leaf in epilogue.leaves), epilogue.region.results[0]]
    return [elements.memory_type(v.tensor.dtype) for v in values]


def _kinds(epilogue: Epilogue) -> list[OperandKind]:
    return [*epilogue.kinds, OperandKind.TENSOR]


def _emit(f: Function, s: Structure, epilogue: Epilogue) -> None:
    p, tile = f.param, s.tile
    names, types, kinds = operand_names(epilogue), _types(epilogue), _kinds(epilogue)
    product, finish = _tile(f.module, s), _finish(f.module, s, epilogue)
    zero = unsigned_byte(f, f.load(f.buffer["zero"], 0, I8), s.signed)
    memory = f.stack(tile.pixels * tile.vectors * f.lanes)
    gather = rows.gather_function(f.module, s.form, s.signed) if s.rows else None
    lines = p["images"] * p["depth"] * p["height"] * p["pieces"]
    first, last = nest.share(f, p["panels"] * lines, p["workers"])
    with f.loop(first, last) as task:
        panel, rest = f.udiv(task.index, lines), f.urem(task.index, lines)
        piece, rest = f.urem(rest, p["pieces"]), f.udiv(rest, p["pieces"])
        y, rest = f.urem(rest, p["height"]), f.udiv(rest, p["height"])
        z, image = f.urem(rest, p["depth"]), f.udiv(rest, p["depth"])
        record = f.at(f.buffer["panel"], panel * len(PANEL), I64)
        weights = f.at(f.buffer["weights"], f.load(record, 0, I64), I8)
        places = f.at(f.buffer["places"], f.load(record, 1, I64), I32)
        count = f.load(record, 2, I64)
        if gather is None:
            source = f.at(f.buffer["input"], image * p["image"] + z * p["plane"] + y * p["row"], I8)
        else:
            plane = f.at(f.buffer["input"], image * p["image"] + panel * p["block"], I8)
            source = rows.gather(f, gather, plane, z, y)
        block = panel * tile.vectors
        left = p["blocks"] - block
        sums = f.at(f.buffer["sums"], block * f.lanes, I32)
        bases = []
        for name, type_, kind in zip(names, types, kinds, strict=True):
            at = f.const(0, I64)
            if kind is not OperandKind.SCALAR:
                at = image * p[f"{name}.image"] + block * p[f"{name}.block"]
            if kind is OperandKind.TENSOR:
                at = at + z * p[f"{name}.plane"] + y * p[f"{name}.row"]
            bases.append(f.at(f.buffer[name], at, type_))
        begin = piece * p["piece"]
        end = f.min(begin + p["piece"], p["width"])
        with f.loop(begin, end, step=tile.pixels) as loop:
            x = f.min(loop.index, p["width"] - tile.pixels)
            f.call(product, f.at(source, x * s.step, I8), places, count, weights, memory)
            pointers = [
                f.at(base, x * f.lanes, type_) if kind is OperandKind.TENSOR else base
                for base, type_, kind in zip(bases, types, kinds, strict=True)
            ]
            f.call(finish, memory, left, sums, zero, *pointers, *(p[f"{name}.block"] for name in names))


def _tile(module: Module, s: Structure) -> Function:
    """``tile(input, places, count, weights, out)``: out[pixel][vector] = the sums of a tile, int32."""
    pixels, vectors = s.tile.pixels, s.tile.vectors
    arguments = [("input", PTR), ("places", PTR), ("count", I64), ("weights", PTR), ("out", PTR)]
    with module.function("tile", arguments) as f:
        start = [f.args["places"], f.args["weights"], *[f.const(0, f.i32)] * (pixels * vectors)]
        with f.loop(0, f.args["count"], carry=start, at_least_once=True) as loop:
            places, weights, *sums = loop.carried
            here = f.at(f.args["input"], f.convert(f.load(places, 0, I32), I64), I8)
            b = [f.load(weights, v * f.lanes, f.i32) for v in range(vectors)]
            following = []
            for m in range(pixels):
                element = f.at(here, m * s.step, I8)
                a = f.load(element, 0, f.i32) if s.rows else f.splat(f.load(element, 0, I32), f.lanes)
                following += [multiply(f, s.form, a, y, sums[m * vectors + v]) for v, y in enumerate(b)]
            loop.next(f.at(places, 1, I32), f.at(weights, vectors * f.lanes, I32), *following)
        for i, total in enumerate(loop.results[2:]):
            f.store(total, f.args["out"], i * f.lanes)
    return f


def _finish(module: Module, s: Structure, epilogue: Epilogue) -> Function:
    """``finish(tile, blocks, sums, zero, pointers.., block strides..)``: a tile through the epilogue."""
    types, kinds, names = _types(epilogue), _kinds(epilogue), operand_names(epilogue)
    arguments = [("tile", PTR), ("blocks", I64), ("sums", PTR), ("zero", I32)]
    arguments += [(n, PTR) for n in names] + [(f"{n}.block", I64) for n in names]
    result = epilogue.region.results[0]
    with module.function("finish", arguments) as f:
        single = _loaded(f, epilogue, OperandKind.SCALAR, [f.args[n] for n in names])
        # A loop, not copies of it: the code of an epilogue may be long.
        with f.loop(0, f.min(f.args["blocks"], s.tile.vectors), at_least_once=True) as block:
            shift = f.const(0, f.i32)
            if s.form is Form.BYTES:
                shift = f.load(f.args["sums"], block.index * f.lanes, f.i32) * f.splat(f.args["zero"], f.lanes)
            pointers = [
                f.at(f.args[n], block.index * f.args[f"{n}.block"], t) if kind is not OperandKind.SCALAR else f.args[n]
                for n, t, kind in zip(names, types, kinds, strict=True)
            ]
            fixed = single | _loaded(f, epilogue, OperandKind.CHANNEL, pointers)
            with f.loop(0, s.tile.pixels, at_least_once=True) as pixel:
                at = (pixel.index * s.tile.vectors + block.index) * f.lanes
                total = f.load(f.args["tile"], at, f.i32) - shift
                moving = _loaded(f, epilogue, OperandKind.TENSOR, pointers, pixel.index * f.lanes)
                env = epilogue.values(f, total, fixed | moving)
                elements.store(f, result.tensor.dtype, env[result], pointers[-1], pixel.index * f.lanes)
    return f


def _loaded(
    f: Function, epilogue: Epilogue, wanted: OperandKind, pointers: Sequence[Value], at: Value | None = None
) -> dict:
    """The leaves of a kind in vectors."""
    found = {}
    for leaf, kind, pointer in zip(epilogue.leaves, epilogue.kinds, pointers, strict=False):
        if kind is not wanted:
            continue
        if leaf.table:
            found[leaf.value] = pointer
        elif kind is OperandKind.SCALAR:
            found[leaf.value] = elements.broadcast(f, leaf.dtype, pointer, 0, f.lanes)
        else:
            found[leaf.value] = elements.load(f, leaf.dtype, pointer, 0 if at is None else at, f.lanes)
    return found
