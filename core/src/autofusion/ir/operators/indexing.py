"""Movement by index: gathers, scatters, and selections whose size is data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.movement import work_of_copy, work_of_selection
from autofusion.ir.operators.schema import OpClass, Operator, attribute, register
from autofusion.ir.types import Dim, Shape, TensorType, Type


def _infer_gather(node: Node) -> Sequence[Type | None]:
    dtype, dims, indices = shapes.dtype(node, 0), shapes.rank_at_least(node, 0, 1), shapes.shape(node, 1)
    if dims is None or indices is None:
        return shapes.only(shapes.of(dtype, None))
    axis = shapes.axis_of(node, attribute(node, "axis"), len(dims))
    return shapes.only(shapes.of(dtype, dims[:axis] + indices + dims[axis + 1 :]))


def _same_rank(node: Node, what: str) -> tuple[Shape | None, Shape | None]:
    dims, indices = shapes.rank_at_least(node, 0, 1), shapes.shape(node, 1)
    if dims is not None:
        shapes.axis_of(node, attribute(node, "axis"), len(dims))
        if indices is not None and len(indices) != len(dims):
            shapes.fail(node, f"{what} {shapes.show(indices)} must have the rank of the data {shapes.show(dims)}")
    return dims, indices


def _infer_gather_elements(node: Node) -> Sequence[Type | None]:
    _, indices = _same_rank(node, "indices")
    return shapes.only(shapes.of(shapes.dtype(node, 0), indices))


def _infer_gather_nd(node: Node) -> Sequence[Type | None]:
    dtype, dims, indices = shapes.dtype(node, 0), shapes.rank_at_least(node, 0, 1), shapes.rank_at_least(node, 1, 1)
    if dims is None or indices is None or not isinstance(indices[-1], int):
        return shapes.only(shapes.of(dtype, None))
    batch = attribute(node, "batch_dims")
    if batch >= min(len(dims), len(indices)) or batch + indices[-1] > len(dims):
        shapes.fail(
            node, f"indices {shapes.show(indices)} with {batch} batch axes do not fit the data {shapes.show(dims)}"
        )
    lead = shapes.agree_shapes(node, dims[:batch], indices[:batch], "batch dims of data and indices") or ()
    return shapes.only(shapes.of(dtype, lead + indices[batch:-1] + dims[batch + indices[-1] :]))


def _infer_scatter_elements(node: Node) -> Sequence[Type | None]:
    _, indices = _same_rank(node, "indices")
    shapes.agree_shapes(node, indices, shapes.shape(node, 2), "shapes of indices and updates")
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 2)), shapes.shape(node, 0)))


def _infer_scatter_nd(node: Node) -> Sequence[Type | None]:
    dims, indices, updates = shapes.rank_at_least(node, 0, 1), shapes.rank_at_least(node, 1, 1), shapes.shape(node, 2)
    if dims is not None and indices is not None and isinstance(indices[-1], int):
        if indices[-1] > len(dims):
            shapes.fail(node, f"indices {shapes.show(indices)} do not fit the data {shapes.show(dims)}")
        shapes.agree_shapes(node, indices[:-1] + dims[indices[-1] :], updates, "expected and found shape of updates")
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 2)), dims))


def _infer_tensor_scatter(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 1)), shapes.shape(node, 0)))


def _infer_compress(node: Node) -> Sequence[Type | None]:
    dtype, dims, axis = shapes.dtype(node, 0), shapes.rank_at_least(node, 0, 1), attribute(node, "axis")
    condition = shapes.constant(node, 1)
    count: Dim = None
    if condition is not None and dims is not None:
        size = shapes.product(dims) if axis is None else dims[shapes.axis_of(node, axis, len(dims))]
        if isinstance(size, int):
            count = int(np.count_nonzero(condition.reshape(-1)[:size]))
    if axis is None:
        return shapes.only(shapes.of(dtype, (count,)))
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    axis = shapes.axis_of(node, axis, len(dims))
    return shapes.only(shapes.of(dtype, (*dims[:axis], count, *dims[axis + 1 :])))


def _infer_one_hot(node: Node) -> Sequence[Type | None]:
    # The depth may be of any numeric type.
    indices, depth, dtype = shapes.shape(node, 0), shapes.constant(node, 1), shapes.dtype(node, 2)
    if indices is None:
        return shapes.only(shapes.of(dtype, None))
    axis = shapes.axis_of(node, attribute(node, "axis"), len(indices) + 1)
    size: Dim = int(depth.reshape(-1)[0]) if depth is not None and depth.size else None
    return shapes.only(shapes.of(dtype, (*indices[:axis], size, *indices[axis:])))


def _infer_nonzero(node: Node) -> Sequence[Type | None]:
    dims, data = shapes.shape(node, 0), shapes.constant(node, 0)
    count = None if data is None else int(np.count_nonzero(data))
    return shapes.only(TensorType(I64, (None if dims is None else len(dims), count)))


def _infer_unique(node: Node) -> Sequence[Type | None]:
    dtype, dims, axis = shapes.dtype(node, 0), shapes.shape(node, 0), attribute(node, "axis")
    index = TensorType(I64, (None,))
    if axis is None:
        inverse = TensorType(I64, (None if dims is None else shapes.product(dims),))
        return shapes.of(dtype, (None,)), index, inverse, index
    if dims is None:
        return shapes.of(dtype, None), index, index, index
    axis = shapes.axis_of(node, axis, len(dims))
    result = (*dims[:axis], None, *dims[axis + 1 :])
    return shapes.of(dtype, result), index, TensorType(I64, (dims[axis],)), index


def _infer_top_k(node: Node) -> Sequence[Type | None]:
    dtype, dims, count = shapes.dtype(node, 0), shapes.rank_at_least(node, 0, 1), shapes.ints(node, 1)
    if dims is None:
        return shapes.of(dtype, None), TensorType(I64, None)
    axis = shapes.axis_of(node, attribute(node, "axis"), len(dims))
    size, k = dims[axis], count[0] if count else None
    if isinstance(size, int) and k is not None and not 0 <= k <= size:
        shapes.fail(node, f"k must be 0 to {size}, the size of axis {axis} of {shapes.show(dims)}, found {k}")
    result = (*dims[:axis], k, *dims[axis + 1 :])
    return shapes.of(dtype, result), TensorType(I64, result)


def _register() -> None:
    movement, opaque, part, copy = OpClass.MOVEMENT, OpClass.OPAQUE, work_of_selection, work_of_copy
    for operator in (
        Operator("Gather", movement, _infer_gather, 2, 2, attributes={"axis": 0}, work=part),
        Operator("GatherElements", movement, _infer_gather_elements, 2, 2, attributes={"axis": 0}, work=part),
        Operator("GatherND", movement, _infer_gather_nd, 2, 2, attributes={"batch_dims": 0}, work=part),
        Operator(
            "ScatterElements",
            movement,
            _infer_scatter_elements,
            3,
            3,
            attributes={"axis": 0, "reduction": "none"},
            work=copy,
        ),
        Operator("ScatterND", movement, _infer_scatter_nd, 3, 3, attributes={"reduction": "none"}, work=copy),
        Operator(
            "TensorScatter",
            movement,
            _infer_tensor_scatter,
            2,
            3,
            attributes={"axis": -2, "mode": "linear"},
            work=copy,
        ),
        Operator("Compress", opaque, _infer_compress, 2, 2, attributes={"axis": None}),
        Operator("OneHot", opaque, _infer_one_hot, 3, 3, attributes={"axis": -1}),
        Operator("NonZero", opaque, _infer_nonzero),
        Operator(
            "Unique",
            opaque,
            _infer_unique,
            max_outputs=4,
            attributes={"axis": None, "sorted": 1},
        ),
        Operator(
            "TopK",
            opaque,
            _infer_top_k,
            2,
            2,
            outputs=2,
            attributes={"axis": -1, "largest": 1, "sorted": 1},
        ),
    ):
        register(operator)


_register()
