"""Integer convolutions bound to memory."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.kernels import BindContext, TensorView, dense_strides
from autofusion_kernels_cpu.codegen.epilogue import OperandKind
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.region import Leaf
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.conv.memory import FIXED, Strided, strided
from autofusion_kernels_cpu.integer.form import Form
from autofusion_kernels_cpu.integer_conv import image
from autofusion_kernels_cpu.integer_conv.kernel import Structure, build, operand_names
from autofusion_kernels_cpu.integer_conv.problem import IntegerConv
from autofusion_kernels_cpu.integer_conv.rows import groups_of, memory, pack_rows, places_of, row_bytes
from autofusion_kernels_cpu.integer_conv.schedule import choose_tile
from autofusion_kernels_cpu.integer_conv.weights import pack_weights
from autofusion_kernels_cpu.leaves import packed, table_memory
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep

PIECE = 4
"""Tiles of a piece: long rows are cut, so that threads share them evenly."""


class Way(enum.Enum):
    """How the image is read: in channel blocks; plain, a pixel a group; depthwise, by rows made first."""

    BLOCKED = "blocked"
    PLANAR = "planar"
    ROWS = "rows"


def fits_planar(problem: IntegerConv, form: Form) -> bool:
    """True for an image of so few channels that a pixel is one group."""
    return form is Form.BYTES and problem.geometry.channels <= form.group and problem.geometry.groups == 1


def needs_image(problem: IntegerConv, form: Form, way: Way) -> bool:
    """True if the operand is not multiplied where it lies: it is plain; its border is its zero point, perhaps not 0; or
    it is signed.
    """
    if way is Way.ROWS:
        return False
    if way is Way.PLANAR or form is Form.WORDS or problem.dtype == np.int8:
        return True
    return problem.zero != 0 and any(problem.geometry.border)


def _borders(g: Geometry) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Pixels before and after the image, over the axes of the normal form."""
    low = g.normal_form([max(a.low, 0) for a in g.node_order(g.axes)], 0)
    high = g.normal_form([a.high for a in g.node_order(g.axes)], 0)
    return low, high


def scratch_bytes(problem: IntegerConv, form: Form, isa: Isa, way: Way, workers: int) -> int:
    """Memory for the image prepared, or for a row of each thread."""
    g = problem.geometry
    if way is Way.ROWS:
        return workers * row_bytes(g, form, isa)
    if not needs_image(problem, form, way):
        return 0
    low, high = _borders(g)
    pixels = math.prod(a.size + lo + hi for a, lo, hi in zip(g.axes, low, high, strict=True))
    if way is Way.PLANAR:
        return g.batch * pixels * form.group
    return g.batch * -(-g.channels // isa.lanes) * pixels * isa.lanes * form.element.size


@dataclass(frozen=True, slots=True, eq=False)
class _Image:
    """What is multiplied: ``strides`` in bytes, ``origin`` is from its first pixel to that of the first window."""

    source: Source
    strides: Strided
    origin: int
    steps: tuple[NativeStep, ...] = ()


def bind(
    problem: IntegerConv,
    form: Form,
    way: Way,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """One step, or two: the image is prepared first unless it can be read where it lies."""
    g, epilogue, lanes = problem.geometry, problem.epilogue, isa.lanes
    x, y = inputs[problem.operand], outputs[0]
    assert x is not None
    by_rows = way is Way.ROWS
    read = (
        _in_place(g, x)
        if by_rows
        else (
            _prepared(problem, form, way is Way.PLANAR, isa, workers, context, x, _zero(problem, inputs))
            if needs_image(problem, form, way)
            else _in_place(g, x)
        )
    )
    zero = _zero(problem, inputs)
    kinds = [*epilogue.kinds, OperandKind.TENSOR]
    sources: list[Source] = []
    moves: list[Strided] = []
    for leaf, kind in zip(epilogue.leaves, epilogue.kinds, strict=True):
        source, strides = _operand(context, leaf, kind, inputs, g, lanes)
        sources.append(source)
        moves.append(strides)
    sources.append(y)
    moves.append(strided(y, g))
    depth, height, width = (a.out for a in g.axes)
    flat = [(m, lanes) for m, kind in zip(moves, kinds, strict=True) if kind is OperandKind.TENSOR]
    if (
        g.is_pointwise
        and not by_rows
        and all(_adjacent(g, m, unit) for m, unit in (*flat, (read.strides, read.strides.width)))
    ):
        depth, height, width = 1, 1, depth * height * width
    tile = choose_tile(isa, form, width, g.filters, g.groups)
    whole_row = -(-width // tile.pixels) * tile.pixels
    if by_rows:
        weights, piece = pack_rows(context.cache, problem, form, lanes), whole_row
        places, pixel = places_of(weights, g, form, isa), groups_of(g, form) * isa.bytes
    else:
        weights, piece = (
            pack_weights(context.cache, problem, form, lanes, tile.vectors),
            min(tile.pixels * PIECE, whole_row),
        )
        places, pixel = _places(weights.places, g, read, form), read.strides.width
    structure = Structure(form, tile, pixel * g.axes[2].stride, problem.dtype == np.int8, by_rows)
    params = {
        "images": g.batch,
        "panels": len(weights.counts),
        "depth": depth,
        "height": height,
        "pieces": -(-width // piece),
        "piece": piece,
        "width": width,
        "blocks": -(-g.filters // lanes),
        "image": read.strides.image,
        "plane": read.strides.depth * g.axes[0].stride,
        "row": read.strides.height * g.axes[1].stride,
        "workers": workers,
    }
    names = operand_names(epilogue)
    for name, m in zip(names, moves, strict=True):
        params |= {
            f"{name}.image": m.image,
            f"{name}.block": m.block,
            f"{name}.plane": m.depth,
            f"{name}.row": m.height,
        }
    buffers: dict[str, Source] = {
        "input": read.source,
        "weights": weights.packed,
        "places": places,
        "sums": weights.sums,
        "zero": zero,
        "panel": np.stack([weights.starts, weights.firsts, weights.counts], axis=1).astype(np.int64),
    }
    buffers |= dict(zip(names, sources, strict=True))
    if by_rows:
        assert context.scratch is not None
        more_buffers, more_params = memory(problem, form, isa, x, context.scratch)
        buffers, params = buffers | more_buffers, params | more_params
    return NativeKernel((*read.steps, build(structure, epilogue, isa).step(buffers, params, workers=workers)))


def _adjacent(g: Geometry, strides: Strided, unit: int) -> bool:
    """True if the pixels of all rows follow each other."""
    depth, height, width = (a.out for a in g.axes)
    by_row, by_plane = (
        height == 1 or strides.height == unit * width,
        depth == 1 or strides.depth == unit * width * height,
    )
    return strides.width == unit and by_row and by_plane


def _in_place(g: Geometry, x: TensorView) -> _Image:
    """The operand where it lies; negative padding starts inside."""
    at = strided(x, g)
    return _Image(x, at, -sum(a.low * s for a, s in zip(g.axes, (at.depth, at.height, at.width), strict=True)))


def _zero(problem: IntegerConv, inputs: Sequence[TensorView | None]) -> Source:
    """Where the operand's zero point is."""
    if problem.zero is not None:
        return np.full(1, problem.zero, problem.dtype)
    assert problem.zero_operand is not None
    view = inputs[problem.zero_operand]
    assert view is not None
    return view


def _prepared(
    problem: IntegerConv,
    form: Form,
    planar: bool,
    isa: Isa,
    workers: int,
    context: BindContext,
    x: TensorView,
    zero: Source,
) -> _Image:
    assert context.scratch is not None
    g, at = problem.geometry, strided(x, problem.geometry)
    low, high = _borders(g)
    whole = [a.size + lo + hi for a, lo, hi in zip(g.axes, low, high, strict=True)]
    planes, pixel = -(-g.channels // isa.lanes), isa.lanes * form.element.size
    blocks = planes
    if planar:
        planes, pixel, blocks = 1, form.group, g.channels
    params = {"planes": g.batch * planes, "blocks": blocks, "workers": workers}
    for i, axis in enumerate(("depth", "height", "width")):
        params |= {axis: g.axes[i].size, f"low_{axis}": low[i], f"whole_{axis}": whole[i]}
    params |= {"image": at.image, "block": at.block, "plane": at.depth, "row": at.height}
    structure = image.Structure(form, problem.dtype == np.int8)
    code = image.build_planar(structure, isa) if planar else image.build(structure, isa)
    step = code.step({"source": x, "zero": zero, "target": context.scratch}, params, workers=workers)
    strides = Strided(*(s * pixel for s in dense_strides((g.batch, planes, *whole))))
    start = [lo - a.low for a, lo in zip(g.axes, low, strict=True)]
    origin = sum(s * n for s, n in zip((strides.depth, strides.height, strides.width), start, strict=True))
    return _Image(context.scratch, strides, origin, (step,))


def _places(places: np.ndarray, g: Geometry, read: _Image, form: Form) -> np.ndarray:
    """Bytes from the input to each (tap, channel block, lane), for the first pixel of the result."""
    tap, block, lane = places.T
    kernel = [a.kernel for a in g.axes]
    k_depth, k_height, k_width = np.unravel_index(tap, kernel)
    s = read.strides
    found = read.origin + block * s.block + lane * form.element.size
    for index, axis, stride in zip((k_depth, k_height, k_width), g.axes, (s.depth, s.height, s.width), strict=True):
        found = found + index * axis.dilation * stride
    return found.astype(np.int32)


def _operand(
    context: BindContext,
    leaf: Leaf,
    kind: OperandKind,
    inputs: Sequence[TensorView | None],
    g: Geometry,
    lanes: int,
) -> tuple[Source, Strided]:
    """Where a leaf of the epilogue lies; constants are laid out once for the session."""
    if leaf.table:
        return table_memory(leaf, inputs), FIXED
    if leaf.constant is None:
        assert leaf.operand is not None
        view = inputs[leaf.operand]
        assert view is not None
        if kind is OperandKind.SCALAR:
            return view, FIXED
        own = strided(view, g)
        if kind is OperandKind.TENSOR:
            return view, own
        return view, Strided(own.image if view.shape[0] > 1 else 0, own.block, 0, 0, 0)
    if kind is OperandKind.SCALAR:
        return np.ascontiguousarray(leaf.constant).reshape(1), FIXED
    full = np.reshape(leaf.constant, (1,) * (2 + g.rank - len(leaf.shape)) + tuple(leaf.shape))
    key = ("integer_conv.operand", id(leaf.constant), full.shape, lanes)
    entry = context.cache.get(key)
    if entry is None:
        # The entry keeps the array, so that its id stays its own. A panel may read past the last block.
        entry = context.cache.setdefault(key, (leaf.constant, packed(full, lanes)))
    array = entry[1]
    steps = dense_strides(array.shape)[:-1]
    depth, height, width = g.normal_form(steps[2:], 0)
    image_step = steps[0] if full.shape[0] > 1 else 0
    if kind is OperandKind.CHANNEL:
        return array, Strided(image_step, steps[1], 0, 0, 0)
    return array, Strided(image_step, steps[1], depth, height, width)
