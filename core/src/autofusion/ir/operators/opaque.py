"""Operators that nothing fuses over: they make data from shapes, resample, select boxes, or run along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autofusion.ir.dtypes import BOOL, F32, I64
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import OpClass, Operator, Work, attribute, register, traffic
from autofusion.ir.types import Dim, TensorType, Type, of_array

CONSTANT_ATTRIBUTES = (
    "sparse_value",
    "value",
    "value_float",
    "value_floats",
    "value_int",
    "value_ints",
    "value_string",
    "value_strings",
)


# ---- data from shapes --------------------------------------------------------------------------------------


def constant_value(node: Node) -> np.ndarray:
    """The array of a Constant node, whichever attribute holds it."""
    stated = [n for n in CONSTANT_ATTRIBUTES if node.attr(n) is not None]
    if len(stated) != 1:
        shapes.fail(node, f"exactly one of {', '.join(CONSTANT_ATTRIBUTES)} must be stated, found {stated}")
    name = stated[0]
    value = node.attrs[name]
    if name.startswith("value_float"):
        return np.asarray(value, np.float32)
    if name.startswith("value_int"):
        return np.asarray(value, np.int64)
    if name.startswith("value_string"):
        return np.asarray(value, object)
    return np.asarray(value)


def _infer_constant(node: Node) -> Sequence[Type | None]:
    return shapes.only(of_array(constant_value(node)))


def _infer_constant_of_shape(node: Node) -> Sequence[Type | None]:
    value = attribute(node, "value")
    dtype = F32 if value is None else np.asarray(value).dtype
    target = shapes.ints(node, 0)
    if target is not None:
        if min(target, default=0) < 0:
            shapes.fail(node, f"the shape {target} must hold no negative number")
        return shapes.only(TensorType(dtype, tuple(target)))
    count = shapes.length(node, 0)
    return shapes.only(TensorType(dtype, None if count is None else (None,) * count))


def _infer_shape(node: Node) -> Sequence[Type | None]:
    dims = shapes.shape(node, 0)
    if dims is None:
        return shapes.only(TensorType(I64, (None,)))
    return shapes.only(TensorType(I64, (len(dims[attribute(node, "start") : attribute(node, "end")]),)))


def _infer_size(node: Node) -> Sequence[Type | None]:
    return shapes.only(TensorType(I64, ()))


def _infer_range(node: Node) -> Sequence[Type | None]:
    dtype = shapes.same_dtype(node, (0, 1, 2))
    data = [shapes.constant(node, i) for i in range(3)]
    count: Dim = None
    if all(d is not None for d in data):
        start, limit, delta = (d.reshape(-1)[0].item() for d in data if d is not None)
        if delta == 0:
            shapes.fail(node, "the step must not be 0")
        count = max(0, math.ceil((limit - start) / delta))
    return shapes.only(shapes.of(dtype, (count,)))


def _infer_eye_like(node: Node) -> Sequence[Type | None]:
    dtype = shapes.dtype_attribute(node, "dtype") or shapes.dtype(node, 0)
    return shapes.only(shapes.of(dtype, shapes.rank_is(node, 0, 2)))


# ---- resampling --------------------------------------------------------------------------------------------


def _infer_resize(node: Node) -> Sequence[Type | None]:
    dtype, dims = shapes.dtype(node, 0), shapes.shape(node, 0)
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    stated = attribute(node, "axes")
    axes = list(range(len(dims))) if stated is None else shapes.axes_of(node, stated, len(dims))
    by_scale = shapes.is_present(node, 2) and shapes.length(node, 2) != 0
    by_size = shapes.is_present(node, 3) and shapes.length(node, 3) != 0
    if by_scale == by_size:
        shapes.fail(node, f"exactly one of scales and sizes must be given, found {'both' if by_scale else 'neither'}")
    result: list[Dim] = list(dims)
    given = shapes.constant(node, 2 if by_scale else 3)
    if given is not None and given.size != len(axes):
        shapes.fail(node, f"there are {given.size} {'scales' if by_scale else 'sizes'} for {len(axes)} axes")
    if given is None:
        for axis in axes:
            result[axis] = None
    elif by_scale:
        for axis, scale in zip(axes, given.reshape(-1), strict=True):
            result[axis] = _rescaled(dims[axis], np.float32(scale))
    else:
        sizes = [int(s) for s in given.reshape(-1)]
        for axis, size in zip(axes, _fitted(node, [dims[a] for a in axes], sizes), strict=True):
            result[axis] = size
    return shapes.only(shapes.of(dtype, result))


def _rescaled(dim: Dim, scale: np.float32) -> Dim:
    if isinstance(dim, int):
        return math.floor(np.float32(dim) * scale)  # single precision, as kernels compute it
    return dim if scale == 1 else None


def _fitted(node: Node, dims: Sequence[Dim], sizes: Sequence[int]) -> Sequence[Dim]:
    """Requested sizes, after the policy that keeps the aspect ratio."""
    policy = attribute(node, "keep_aspect_ratio_policy")
    if policy == "stretch":
        return sizes
    known = [d for d in dims if isinstance(d, int)]
    if len(known) != len(dims):
        return [None] * len(dims)
    ratios = [size / dim for size, dim in zip(sizes, known, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(scale * dim + 0.5) for dim in known]


def _infer_grid_sample(node: Node) -> Sequence[Type | None]:
    dims, grid, dtype = shapes.rank_at_least(node, 0, 3), shapes.rank_at_least(node, 1, 3), shapes.dtype(node, 0)
    if dims is None or grid is None:
        return shapes.only(shapes.of(dtype, None))
    if len(dims) != len(grid):
        shapes.fail(node, f"operand {shapes.show(dims)} and grid {shapes.show(grid)} must have one rank")
    batch = shapes.agree(node, dims[0], grid[0], "the batches of operand and grid")
    shapes.agree(node, grid[-1], len(dims) - 2, "the last axis of the grid and the number of spatial axes")
    return shapes.only(shapes.of(dtype, (batch, dims[1], *grid[1:-1])))


def _infer_affine_grid(node: Node) -> Sequence[Type | None]:
    size, dtype = shapes.ints(node, 1), shapes.dtype(node, 0)
    if size is not None:
        return shapes.only(shapes.of(dtype, (size[0], *size[2:], len(size) - 2)))
    count = shapes.length(node, 1)
    return shapes.only(shapes.of(dtype, None if count is None else (*(None,) * (count - 1), count - 2)))


def _infer_col2im(node: Node) -> Sequence[Type | None]:
    """[N, C * prod(block), L] -> [N, C, image...]."""
    dims, image, block = shapes.rank_is(node, 0, 3), shapes.ints(node, 1), shapes.ints(node, 2)
    rank = shapes.length(node, 1) if image is None else len(image)
    if rank is None:
        return shapes.only(shapes.of(shapes.dtype(node, 0), None))
    channels: Dim = None
    if dims is not None and block is not None:
        channels = shapes.divided(node, dims[1], math.prod(block), "the second axis")
    spatial: Sequence[Dim] = [None] * rank if image is None else image
    return shapes.only(shapes.of(shapes.dtype(node, 0), (dims[0] if dims else None, channels, *spatial)))


def _work_resize(node: Node) -> Work:
    taps = {"nearest": 0, "linear": 2, "cubic": 4}.get(attribute(node, "mode"), 2)
    dims = node.output.tensor.static_shape
    source = shapes.shape(node, 0) or dims
    axes = sum(a != b for a, b in zip(dims, source, strict=True))
    return Work(2.0 * taps**axes * math.prod(dims) if taps else 0.0, *traffic(node))


# ---- along an axis, in order -------------------------------------------------------------------------------


def _infer_same(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.tensor(node, 0))


def _infer_cast_like(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.dtype(node, 1), shapes.shape(node, 0)))


def _infer_dropout(node: Node) -> Sequence[Type | None]:
    return shapes.tensor(node, 0), TensorType(BOOL, shapes.shape(node, 0))


def _infer_det(node: Node) -> Sequence[Type | None]:
    dims = shapes.rank_at_least(node, 0, 2)
    if dims is not None:
        shapes.agree(node, dims[-1], dims[-2], "the last two axes")
    return shapes.only(shapes.of(shapes.dtype(node, 0), None if dims is None else dims[:-2]))


def _infer_nms(node: Node) -> Sequence[Type | None]:
    boxes, scores = shapes.rank_is(node, 0, 3), shapes.rank_is(node, 1, 3)
    if boxes is not None:
        shapes.agree(node, boxes[2], 4, "the last axis of the boxes and a box's numbers")
        if scores is not None:
            shapes.agree(node, boxes[1], scores[2], "the number of boxes and of scores")
    return shapes.only(TensorType(I64, (None, 3)))


def _register() -> None:
    opaque = OpClass.OPAQUE
    for operator in (
        Operator("Constant", opaque, _infer_constant, 0, 0, attributes=dict.fromkeys(CONSTANT_ATTRIBUTES)),
        Operator("ConstantOfShape", opaque, _infer_constant_of_shape, attributes={"value": None}),
        Operator("Shape", opaque, _infer_shape, attributes={"end": None, "start": 0}, work=lambda node: Work()),
        Operator("Size", opaque, _infer_size, work=lambda node: Work()),
        Operator("Range", opaque, _infer_range, 3, 3),
        Operator("EyeLike", opaque, _infer_eye_like, attributes={"dtype": None, "k": 0}),
        Operator(
            "Resize",
            opaque,
            _infer_resize,
            1,
            4,
            attributes={
                "antialias": 0,
                "axes": None,
                "coordinate_transformation_mode": "half_pixel",
                "cubic_coeff_a": -0.75,
                "exclude_outside": 0,
                "extrapolation_value": 0.0,
                "keep_aspect_ratio_policy": "stretch",
                "mode": "nearest",
                "nearest_mode": "round_prefer_floor",
            },
            work=_work_resize,
        ),
        Operator(
            "GridSample",
            opaque,
            _infer_grid_sample,
            2,
            2,
            attributes={"align_corners": 0, "mode": "linear", "padding_mode": "zeros"},
        ),
        Operator("AffineGrid", opaque, _infer_affine_grid, 2, 2, attributes={"align_corners": 0}),
        Operator("Col2Im", opaque, _infer_col2im, 3, 3, attributes={"dilations": None, "pads": None, "strides": None}),
        Operator("CumSum", opaque, _infer_same, 2, 2, attributes={"exclusive": 0, "reverse": 0}),
        Operator("CumProd", opaque, _infer_same, 2, 2, attributes={"exclusive": 0, "reverse": 0}),
        Operator("CastLike", opaque, _infer_cast_like, 2, 2, attributes={"saturate": 1}),
        Operator(
            "Dropout",
            opaque,
            _infer_dropout,
            1,
            3,
            max_outputs=2,
            attributes={"seed": None},
            deterministic=False,
            view=True,
        ),
        Operator("Det", opaque, _infer_det),
        Operator("NonMaxSuppression", opaque, _infer_nms, 2, 5, attributes={"center_point_box": 0}),
    ):
        register(operator)


_register()
