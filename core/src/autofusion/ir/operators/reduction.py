"""Reductions over axes, and normalisations along them.

BatchNormalization is here and not with the pointwise operators: its parameters lie along the channel, not at the
trailing broadcast position, and in training mode it reduces over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.dtypes import F32, I64
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import (
    REQUIRED,
    OpClass,
    Operator,
    Work,
    WorkFunction,
    attribute,
    register,
    single,
    traffic,
)
from autofusion.ir.types import Shape, TensorType, Type

REDUCE = frozenset(
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
"""The operators that reduce over the axes of their second operand (all axes if it is absent)."""

_EPSILON = single(1e-5)


def reduced_axes(node: Node) -> list[int] | None:
    """Axes that a Reduce* node reduces, from the front and sorted; None if they or the rank are not known."""
    dims = shapes.shape(node, 0)
    if dims is None:
        return None
    if shapes.is_present(node, 1):
        axes = shapes.ints(node, 1)
        if axes is None:
            if shapes.length(node, 1) != 0:
                return None
            axes = []
    else:
        axes = []
    if not axes:
        return [] if attribute(node, "noop_with_empty_axes") else list(range(len(dims)))
    return sorted(shapes.axes_of(node, axes, len(dims)))


def _infer_reduce(node: Node) -> Sequence[Type | None]:
    dims, dtype = shapes.shape(node, 0), shapes.dtype(node, 0)
    axes = reduced_axes(node)
    keep = attribute(node, "keepdims")
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    if axes is None:
        if keep:
            return shapes.only(shapes.of(dtype, (None,) * len(dims)))
        count = shapes.length(node, 1)
        return shapes.only(shapes.of(dtype, None if count is None else (None,) * (len(dims) - count)))
    return shapes.only(shapes.of(dtype, _without(dims, axes, keep)))


def _without(dims: Shape, axes: Sequence[int], keep: int) -> Shape:
    if keep:
        return tuple(1 if i in axes else d for i, d in enumerate(dims))
    return tuple(d for i, d in enumerate(dims) if i not in axes)


def _infer_arg(node: Node) -> Sequence[Type | None]:
    dims = shapes.shape(node, 0)
    if dims is None:
        return shapes.only(TensorType(I64, None))
    axis = shapes.axis_of(node, attribute(node, "axis"), len(dims))
    return shapes.only(TensorType(I64, _without(dims, [axis], attribute(node, "keepdims"))))


def _infer_along_axis(node: Node) -> Sequence[Type | None]:
    dims = shapes.shape(node, 0)
    if dims is not None:
        shapes.axis_of(node, attribute(node, "axis"), len(dims))
    return shapes.only(shapes.tensor(node, 0))


def _infer_layer_norm(node: Node) -> Sequence[Type | None]:
    """Results: normalised, mean, inverse standard deviation (the last two in the stash type, axes reduced to 1)."""
    x = shapes.tensor(node, 0)
    dims = None if x is None else x.shape
    stash = shapes.dtype_attribute(node, "stash_type") or F32
    if dims is None:
        return x, TensorType(stash, None), TensorType(stash, None)
    axis = shapes.axis_of(node, attribute(node, "axis"), len(dims))
    for index in range(1, len(node.inputs)):
        scale = shapes.shape(node, index)
        full = shapes.broadcast(node, dims, scale)
        if full is not None and len(full) > len(dims):
            shapes.fail(node, f"operand {index} {shapes.show(scale)} must broadcast to {shapes.show(dims)}")
    stashed = TensorType(stash, dims[:axis] + (1,) * (len(dims) - axis))
    return x, stashed, stashed


def _channel_operands(node: Node, indices: Sequence[int]) -> None:
    dims = shapes.rank_at_least(node, 0, 2)
    for index in indices:
        own = shapes.rank_is(node, index, 1)
        if dims is not None and own is not None:
            shapes.agree(node, dims[1], own[0], f"the channels of the operand and the length of operand {index}")


def _infer_batch_norm(node: Node) -> Sequence[Type | None]:
    dims = shapes.shape(node, 0)
    if dims is not None and len(dims) == 1:
        dims = (dims[0], 1)  # the operator set reads a vector as a batch with one channel
    for index in range(1, 5):
        own = shapes.rank_is(node, index, 1)
        if dims is not None and len(dims) > 1 and own is not None:
            shapes.agree(node, dims[1], own[0], f"the channels of the operand and the length of operand {index}")
    return shapes.tensor(node, 0), shapes.tensor(node, 3), shapes.tensor(node, 4)


def _infer_channel_norm(node: Node) -> Sequence[Type | None]:
    _channel_operands(node, (1, 2))
    return shapes.only(shapes.tensor(node, 0))


def _infer_group_norm(node: Node) -> Sequence[Type | None]:
    _channel_operands(node, (1, 2))
    dims = shapes.shape(node, 0)
    if dims is not None:
        shapes.divided(node, dims[1], attribute(node, "num_groups"), "the number of channels")
    return shapes.only(shapes.tensor(node, 0))


def _infer_same(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.tensor(node, 0))


def _infer_mean_variance(node: Node) -> Sequence[Type | None]:
    dims = shapes.shape(node, 0)
    if dims is not None:
        shapes.axes_of(node, attribute(node, "axes"), len(dims))
    return shapes.only(shapes.tensor(node, 0))


def per_element(flops: float, transcendentals: float = 0.0) -> WorkFunction:
    """Work that is proportional to the elements of the first operand."""

    def work(node: Node) -> Work:
        value = node.operand(0)
        elements = value.tensor.numel if value is not None else 0
        return Work(flops * elements, *traffic(node), transcendentals * elements)

    return work


def _work_lrn(node: Node) -> Work:
    elements = node.output.tensor.numel
    return Work((2.0 * attribute(node, "size") + 3) * elements, *traffic(node), elements)


_REDUCE_COST = {"ReduceLogSumExp": (2.0, 1.0), "ReduceL2": (2.0, 0.0), "ReduceSumSquare": (2.0, 0.0)}
for _name in sorted(REDUCE):
    register(
        Operator(
            _name,
            OpClass.REDUCTION,
            _infer_reduce,
            max_inputs=2,
            attributes={"keepdims": 1, "noop_with_empty_axes": 0},
            work=per_element(*_REDUCE_COST.get(_name, (1.0, 0.0))),
        )
    )
for _name in ("ArgMax", "ArgMin"):
    register(
        Operator(
            _name,
            OpClass.REDUCTION,
            _infer_arg,
            attributes={"axis": 0, "keepdims": 1, "select_last_index": 0},
            work=per_element(1),
        )
    )
for _name, _flops, _transcendentals in (("Softmax", 4, 1), ("LogSoftmax", 4, 1), ("Hardmax", 2, 0)):
    register(
        Operator(
            _name,
            OpClass.REDUCTION,
            _infer_along_axis,
            attributes={"axis": -1},
            work=per_element(_flops, _transcendentals),
        )
    )
register(
    Operator(
        "LpNormalization",
        OpClass.REDUCTION,
        _infer_along_axis,
        attributes={"axis": -1, "p": 2},
        work=per_element(3),
    )
)
for _name, _most, _results in (("LayerNormalization", 3, 3), ("RMSNormalization", 2, 1)):
    register(
        Operator(
            _name,
            OpClass.REDUCTION,
            _infer_layer_norm,
            min_inputs=2,
            max_inputs=_most,
            outputs=1,
            max_outputs=_results,
            attributes={"axis": -1, "epsilon": _EPSILON, "stash_type": F32},
            work=per_element(8),
        )
    )
register(
    Operator(
        "BatchNormalization",
        OpClass.REDUCTION,
        _infer_batch_norm,
        min_inputs=5,
        max_inputs=5,
        max_outputs=3,
        attributes={"epsilon": _EPSILON, "momentum": single(0.9), "training_mode": 0},
        work=per_element(2),
    )
)
register(
    Operator(
        "InstanceNormalization",
        OpClass.REDUCTION,
        _infer_channel_norm,
        min_inputs=3,
        max_inputs=3,
        attributes={"epsilon": _EPSILON},
        work=per_element(8),
    )
)
register(
    Operator(
        "GroupNormalization",
        OpClass.REDUCTION,
        _infer_group_norm,
        min_inputs=3,
        max_inputs=3,
        attributes={"epsilon": _EPSILON, "num_groups": REQUIRED, "stash_type": F32},
        work=per_element(8),
    )
)
register(
    Operator(
        "MeanVarianceNormalization",
        OpClass.REDUCTION,
        _infer_mean_variance,
        attributes={"axes": (0, 2, 3)},
        work=per_element(7),
    )
)
register(
    Operator(
        "LRN",
        OpClass.REDUCTION,
        _infer_same,
        attributes={"alpha": single(1e-4), "beta": 0.75, "bias": 1.0, "size": REQUIRED},
        work=_work_lrn,
    )
)
