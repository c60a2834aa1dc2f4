"""Movement of whole axes: reshapes, transposes, slices, concatenation, padding. No arithmetic on elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, Work, attribute, register, traffic
from autofusion.ir.types import Dim, Shape, Type

_FAR = 2**31 - 1
"""Slice bounds at least this large mean "to the end" in every exporter."""


# ---- reshapes ----------------------------------------------------------------------------------------------


def _quotient(dims: Sequence[Dim], parts: Sequence[Dim]) -> Dim:
    """The dim that the product of ``dims`` leaves for one more factor beside ``parts``; equal symbols cancel."""
    if None in dims or None in parts:
        return None
    above = Counter(d for d in dims if isinstance(d, str))
    below = Counter(d for d in parts if isinstance(d, str))
    rest, missing = above - below, below - above
    whole, part = shapes.integer_product(dims), shapes.integer_product(parts)
    if missing or part == 0 or whole % part:
        return None
    symbols = list(rest.elements())
    if not symbols:
        return whole // part
    return symbols[0] if len(symbols) == 1 and whole == part else None


def _infer_reshape(node: Node) -> Sequence[Type | None]:
    dtype, dims, target = shapes.dtype(node, 0), shapes.shape(node, 0), shapes.ints(node, 1)
    if target is None:
        count = shapes.length(node, 1)
        return shapes.only(shapes.of(dtype, None if count is None else (None,) * count))
    if target.count(-1) > 1 or min(target, default=0) < -1:
        shapes.fail(node, f"the target shape {target} may hold one -1 and no other negative number")
    keep = not attribute(node, "allowzero")
    if not keep and 0 in target and -1 in target:
        shapes.fail(node, f"the target shape {target} may not hold both 0 and -1 with 'allowzero'")
    result: list[Dim] = []
    for position, size in enumerate(target):
        if size == 0 and keep:
            if dims is not None and position >= len(dims):
                shapes.fail(node, f"0 at position {position} of {target} copies no axis of {shapes.show(dims)}")
            result.append(None if dims is None else dims[position])
        else:
            result.append(None if size == -1 else size)
    if dims is None:
        return shapes.only(shapes.of(dtype, result))
    whole = shapes.product(dims)
    if -1 in target:
        hole = target.index(-1)
        others = result[:hole] + result[hole + 1 :]
        part = shapes.product(others)
        if isinstance(whole, int) and isinstance(part, int) and (part == 0 or whole % part):
            shapes.fail(node, f"{shapes.show(dims)} cannot be reshaped to {target}")
        result[hole] = _quotient(dims, others)
    else:
        part = shapes.product(result)
        if isinstance(whole, int) and isinstance(part, int) and whole != part:
            shapes.fail(
                node, f"{shapes.show(dims)} ({whole} elements) cannot be reshaped to {target} ({part} elements)"
            )
        if result.count(None) == 1:  # an unknown dim that was copied, known from the rest
            hole = result.index(None)
            result[hole] = _quotient(dims, result[:hole] + result[hole + 1 :])
    return shapes.only(shapes.of(dtype, result))


def _infer_flatten(node: Node) -> Sequence[Type | None]:
    dtype, dims = shapes.dtype(node, 0), shapes.shape(node, 0)
    if dims is None:
        return shapes.only(shapes.of(dtype, (None, None)))
    axis, rank = attribute(node, "axis"), len(dims)
    if not -rank <= axis <= rank:
        shapes.fail(node, f"axis {axis} is out of range, expected {-rank} to {rank}")
    axis += rank if axis < 0 else 0
    return shapes.only(shapes.of(dtype, (shapes.product(dims[:axis]), shapes.product(dims[axis:]))))


def _infer_squeeze(node: Node) -> Sequence[Type | None]:
    dtype, dims = shapes.dtype(node, 0), shapes.shape(node, 0)
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    if not shapes.is_present(node, 1):
        known = all(isinstance(d, int) for d in dims)
        return shapes.only(shapes.of(dtype, [d for d in dims if d != 1] if known else None))
    stated = shapes.ints(node, 1)
    if stated is None:
        count = shapes.length(node, 1)
        return shapes.only(shapes.of(dtype, None if count is None else (None,) * (len(dims) - count)))
    axes = shapes.axes_of(node, stated, len(dims))
    for axis in axes:
        if isinstance(dims[axis], int) and dims[axis] != 1:
            shapes.fail(node, f"axis {axis} of {shapes.show(dims)} has {dims[axis]} elements, expected 1")
    return shapes.only(shapes.of(dtype, [d for i, d in enumerate(dims) if i not in axes]))


def _infer_unsqueeze(node: Node) -> Sequence[Type | None]:
    dtype, dims, stated = shapes.dtype(node, 0), shapes.shape(node, 0), shapes.ints(node, 1)
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    if stated is None:
        count = shapes.length(node, 1)
        return shapes.only(shapes.of(dtype, None if count is None else (None,) * (len(dims) + count)))
    rank = len(dims) + len(stated)
    axes = shapes.axes_of(node, stated, rank)
    rest = iter(dims)
    return shapes.only(shapes.of(dtype, [1 if i in axes else next(rest) for i in range(rank)]))


# ---- transposes and reorderings ----------------------------------------------------------------------------


def _infer_transpose(node: Node) -> Sequence[Type | None]:
    dtype, dims, perm = shapes.dtype(node, 0), shapes.shape(node, 0), attribute(node, "perm")
    if dims is None:
        return shapes.only(shapes.of(dtype, None if perm is None else (None,) * len(perm)))
    if perm is None:
        return shapes.only(shapes.of(dtype, dims[::-1]))
    if sorted(perm) != list(range(len(dims))):
        shapes.fail(node, f"'perm' {list(perm)} is not a permutation of the axes of {shapes.show(dims)}")
    return shapes.only(shapes.of(dtype, [dims[p] for p in perm]))


def _block_size(node: Node) -> int:
    size: int = attribute(node, "blocksize")
    if size < 1:
        shapes.fail(node, f"'blocksize' is {size}, expected at least 1")
    return size


def _infer_depth_to_space(node: Node) -> Sequence[Type | None]:
    dims, size = shapes.rank_is(node, 0, 4), _block_size(node)
    if dims is None:
        return shapes.only(shapes.of(shapes.dtype(node, 0), (None,) * 4))
    channels = shapes.divided(node, dims[1], size * size, "the number of channels")
    result = (dims[0], channels, shapes.scaled(dims[2], size), shapes.scaled(dims[3], size))
    return shapes.only(shapes.of(shapes.dtype(node, 0), result))


def _infer_space_to_depth(node: Node) -> Sequence[Type | None]:
    dims, size = shapes.rank_is(node, 0, 4), _block_size(node)
    if dims is None:
        return shapes.only(shapes.of(shapes.dtype(node, 0), (None,) * 4))
    height, width = (shapes.divided(node, d, size, "height and width") for d in dims[2:])
    return shapes.only(shapes.of(shapes.dtype(node, 0), (dims[0], shapes.scaled(dims[1], size * size), height, width)))


def _infer_same(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.tensor(node, 0))


def _infer_trilu(node: Node) -> Sequence[Type | None]:
    shapes.rank_at_least(node, 0, 2)
    return shapes.only(shapes.tensor(node, 0))


def _infer_reverse_sequence(node: Node) -> Sequence[Type | None]:
    dims = shapes.rank_at_least(node, 0, 2)
    lengths = shapes.rank_is(node, 1, 1)
    if dims is not None and lengths is not None:
        axis = shapes.axis_of(node, attribute(node, "batch_axis"), len(dims), "batch_axis")
        shapes.agree(node, dims[axis], lengths[0], "the batch and the number of lengths")
    return shapes.only(shapes.tensor(node, 0))


# ---- concatenation, splitting, slicing ---------------------------------------------------------------------


def _infer_concat(node: Node) -> Sequence[Type | None]:
    operands = range(len(node.inputs))
    dtype = shapes.same_dtype(node, operands)
    known = [s for s in (shapes.shape(node, i) for i in operands) if s is not None]
    if not known:
        return shapes.only(shapes.of(dtype, None))
    rank = len(known[0])
    axis = shapes.axis_of(node, attribute(node, "axis"), rank)
    merged: Shape | None = None
    for dims in known:
        if len(dims) != rank:
            shapes.fail(node, f"operands must have one rank, found {shapes.show(known[0])} and {shapes.show(dims)}")
        rest = (*dims[:axis], None, *dims[axis + 1 :])
        merged = shapes.agree_shapes(node, merged, rest, f"dims of operands beside axis {axis}")
    assert merged is not None
    length = shapes.total([d[axis] for d in known]) if len(known) == len(node.inputs) else None
    return shapes.only(shapes.of(dtype, (*merged[:axis], length, *merged[axis + 1 :])))


def _infer_split(node: Node) -> Sequence[Type | None]:
    dtype, dims, count = shapes.dtype(node, 0), shapes.shape(node, 0), len(node.outputs)
    if dims is None:
        return [shapes.of(dtype, None)] * count
    axis = shapes.axis_of(node, attribute(node, "axis"), len(dims))
    size = dims[axis]
    parts: list[Dim]
    if shapes.is_present(node, 1):
        stated = shapes.ints(node, 1)
        if stated is not None and len(stated) != count:
            shapes.fail(node, f"there are {len(stated)} split sizes for {count} outputs")
        if stated is not None and isinstance(size, int) and sum(stated) != size:
            shapes.fail(node, f"split sizes {stated} must add up to {size}")
        parts = [None] * count if stated is None else [*stated]
    elif count == 1:
        parts = [size]
    elif isinstance(size, int):
        chunk = -(-size // count)  # the last part is the smaller one
        parts = [max(0, min(chunk, size - i * chunk)) for i in range(count)]
    else:
        parts = [None] * count
    return [shapes.of(dtype, (*dims[:axis], part, *dims[axis + 1 :])) for part in parts]


def _infer_slice(node: Node) -> Sequence[Type | None]:
    dtype, dims = shapes.dtype(node, 0), shapes.shape(node, 0)
    for index in range(1, 5):
        shapes.rank_is(node, index, 1)
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    starts, ends = shapes.ints(node, 1), shapes.ints(node, 2)
    count = shapes.length(node, 1) if starts is None else len(starts)
    if count is None:
        count = shapes.length(node, 2) if ends is None else len(ends)
    stated = shapes.ints(node, 3)
    if stated is None:
        if shapes.is_present(node, 3) or count is None:
            return shapes.only(shapes.of(dtype, (None,) * len(dims)))
        stated = list(range(count))
    axes = shapes.axes_of(node, stated, len(dims))
    steps = shapes.ints(node, 4) if shapes.is_present(node, 4) else [1] * len(axes)
    for what, given in (("starts", starts), ("ends", ends), ("steps", steps)):
        if given is not None and len(given) != len(axes):
            shapes.fail(node, f"there are {len(given)} {what} for {len(axes)} axes")
    result = list(dims)
    for i, axis in enumerate(axes):
        if starts is None or ends is None or steps is None:
            result[axis] = None
        else:
            result[axis] = _sliced(node, dims[axis], starts[i], ends[i], steps[i])
    return shapes.only(shapes.of(dtype, result))


def _sliced(node: Node, size: Dim, start: int, end: int, step: int) -> Dim:
    if step == 0:
        shapes.fail(node, "a step must not be 0")
    if isinstance(size, int):
        return len(range(*slice(start, end, step).indices(size)))
    whole = (step == 1 and start == 0 and end >= _FAR) or (
        step == -1 and (start == -1 or start >= _FAR) and end <= -_FAR
    )
    return size if whole else None


# ---- sizes that are data -----------------------------------------------------------------------------------


def _infer_expand(node: Node) -> Sequence[Type | None]:
    dtype, dims, target = shapes.dtype(node, 0), shapes.shape(node, 0), shapes.ints(node, 1)
    if target is not None:
        if min(target, default=0) < 0:
            shapes.fail(node, f"the target shape {target} must hold no negative number")
        return shapes.only(shapes.of(dtype, shapes.broadcast(node, dims, tuple(target))))
    count = shapes.length(node, 1)
    if dims is None or count is None:
        return shapes.only(shapes.of(dtype, None))
    padded = (1,) * (count - len(dims)) + dims
    return shapes.only(shapes.of(dtype, [d if isinstance(d, int) and d != 1 else None for d in padded]))


def _infer_tile(node: Node) -> Sequence[Type | None]:
    dtype, dims, repeats = shapes.dtype(node, 0), shapes.shape(node, 0), shapes.ints(node, 1)
    if dims is None:
        count = shapes.length(node, 1)
        return shapes.only(shapes.of(dtype, None if count is None else (None,) * count))
    if repeats is None:
        return shapes.only(shapes.of(dtype, (None,) * len(dims)))
    if len(repeats) != len(dims):
        shapes.fail(node, f"there are {len(repeats)} repeats for {len(dims)} axes")
    return shapes.only(shapes.of(dtype, [shapes.scaled(d, r) for d, r in zip(dims, repeats, strict=True)]))


_PAD_MODES = ("constant", "edge", "reflect", "wrap")


def _infer_pad(node: Node) -> Sequence[Type | None]:
    dtype, dims, pads = shapes.same_dtype(node, (0, 2)), shapes.shape(node, 0), shapes.ints(node, 1)
    if attribute(node, "mode") not in _PAD_MODES:
        shapes.fail(node, f"'mode' must be one of {', '.join(_PAD_MODES)}, found '{attribute(node, 'mode')}'")
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    axes = list(range(len(dims)))
    if shapes.is_present(node, 3):
        stated = shapes.ints(node, 3)
        if stated is None:
            return shapes.only(shapes.of(dtype, (None,) * len(dims)))
        axes = shapes.axes_of(node, stated, len(dims))
    result = list(dims)
    if pads is None:
        for axis in axes:
            result[axis] = None
        return shapes.only(shapes.of(dtype, result))
    if len(pads) != 2 * len(axes):
        shapes.fail(node, f"there are {len(pads)} pads for {len(axes)} axes, expected two each")
    for i, axis in enumerate(axes):
        size = result[axis] = shapes.shifted(dims[axis], pads[i] + pads[i + len(axes)])
        if isinstance(size, int) and size < 0:
            shapes.fail(node, f"pads {pads} leave {size} elements on axis {axis} of {shapes.show(dims)}")
    return shapes.only(shapes.of(dtype, result))


def _infer_center_crop_pad(node: Node) -> Sequence[Type | None]:
    dtype, dims, sizes = shapes.dtype(node, 0), shapes.shape(node, 0), shapes.ints(node, 1)
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    stated = attribute(node, "axes")
    axes = list(range(len(dims))) if stated is None else shapes.axes_of(node, stated, len(dims))
    if sizes is not None and len(sizes) != len(axes):
        shapes.fail(node, f"there are {len(sizes)} sizes for {len(axes)} axes")
    result = list(dims)
    for i, axis in enumerate(axes):
        result[axis] = None if sizes is None else sizes[i]
    return shapes.only(shapes.of(dtype, result))


# ---- work and registration ---------------------------------------------------------------------------------


def work_of_view(node: Node) -> Work:
    """Nothing moves."""
    return Work()


def work_of_selection(node: Node) -> Work:
    """As much of the first operand is read as comes out; the operands that say which are read whole."""
    read, written = traffic(node)
    first = node.inputs[0]
    whole = first.tensor.nbytes if first is not None else 0
    return Work(0.0, read - whole + min(float(whole), written), written)


def work_of_copy(node: Node) -> Work:
    """Every operand is read and every result is written, without arithmetic."""
    return Work(0.0, *traffic(node))


def _register() -> None:
    movement, nothing, part, copy = OpClass.MOVEMENT, work_of_view, work_of_selection, work_of_copy
    for operator in (
        Operator("Reshape", movement, _infer_reshape, 2, 2, attributes={"allowzero": 0}, work=nothing, view=True),
        Operator("Flatten", movement, _infer_flatten, attributes={"axis": 1}, work=nothing, view=True),
        Operator("Squeeze", movement, _infer_squeeze, 1, 2, work=nothing, view=True),
        Operator("Unsqueeze", movement, _infer_unsqueeze, 2, 2, work=nothing, view=True),
        Operator("Transpose", movement, _infer_transpose, attributes={"perm": None}, work=copy),
        Operator(
            "DepthToSpace",
            movement,
            _infer_depth_to_space,
            attributes={"blocksize": REQUIRED, "mode": "DCR"},
            work=copy,
        ),
        Operator("SpaceToDepth", movement, _infer_space_to_depth, attributes={"blocksize": REQUIRED}, work=copy),
        Operator("Trilu", movement, _infer_trilu, 1, 2, attributes={"upper": 1}, work=copy),
        Operator(
            "ReverseSequence",
            movement,
            _infer_reverse_sequence,
            2,
            2,
            attributes={"batch_axis": 1, "time_axis": 0},
            work=copy,
        ),
        Operator("Concat", movement, _infer_concat, 1, None, attributes={"axis": REQUIRED}, work=copy),
        Operator(
            "Split",
            movement,
            _infer_split,
            1,
            2,
            outputs=1,
            max_outputs=None,
            attributes={"axis": 0, "num_outputs": None},
            work=copy,
        ),
        Operator("Slice", movement, _infer_slice, 3, 5, work=part),
        Operator("Expand", movement, _infer_expand, 2, 2, work=copy),
        Operator("Tile", movement, _infer_tile, 2, 2, work=copy),
        Operator("Pad", movement, _infer_pad, 2, 4, attributes={"mode": "constant"}, work=copy),
        Operator("CenterCropPad", movement, _infer_center_crop_pad, 2, 2, attributes={"axes": None}, work=part),
    ):
        register(operator)


_register()
