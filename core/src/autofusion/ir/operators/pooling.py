"""Pooling: reductions over windows, whole planes, or regions of interest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.reduction import per_element
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, Work, attribute, register, traffic
from autofusion.ir.types import TensorType, Type

WINDOW_ATTRIBUTES = {"auto_pad": "NOTSET", "dilations": None, "pads": None, "strides": None}


def _infer_pool(node: Node) -> Sequence[Type | None]:
    dims, dtype = shapes.rank_at_least(node, 0, 3), shapes.dtype(node, 0)
    if dims is None:
        return shapes.of(dtype, None), TensorType(I64, None)
    kernel = [int(k) for k in attribute(node, "kernel_shape")]
    result = (*dims[:2], *shapes.window_dims(node, dims[2:], kernel, ceil=bool(attribute(node, "ceil_mode"))))
    return shapes.of(dtype, result), TensorType(I64, result)


def _infer_global_pool(node: Node) -> Sequence[Type | None]:
    dims = shapes.rank_at_least(node, 0, 3)
    result = None if dims is None else dims[:2] + (1,) * (len(dims) - 2)
    return shapes.only(shapes.of(shapes.dtype(node, 0), result))


def _infer_unpool(node: Node) -> Sequence[Type | None]:
    dims, dtype = shapes.rank_at_least(node, 0, 3), shapes.dtype(node, 0)
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    if shapes.is_present(node, 2):
        stated = shapes.ints(node, 2)
        return shapes.only(shapes.of(dtype, (None,) * len(dims) if stated is None else stated))
    kernel = [int(k) for k in attribute(node, "kernel_shape")]
    rank = len(dims) - 2
    if len(kernel) != rank:
        shapes.fail(node, f"'kernel_shape' must have {rank} entries, found {kernel}")
    strides, pads = shapes.spatial(node, "strides", rank, 1), shapes.paddings(node, rank)
    spatial = [
        (d - 1) * strides[i] + kernel[i] - sum(pads[i]) if isinstance(d, int) else None for i, d in enumerate(dims[2:])
    ]
    return shapes.only(shapes.of(dtype, (*dims[:2], *spatial)))


def _infer_roi_align(node: Node) -> Sequence[Type | None]:
    dims, rois, batch = shapes.rank_is(node, 0, 4), shapes.rank_is(node, 1, 2), shapes.rank_is(node, 2, 1)
    count = shapes.agree_shapes(node, rois and rois[:1], batch, "the number of rois and of batch indices")
    result = (
        count[0] if count else None,
        dims[1] if dims else None,
        attribute(node, "output_height"),
        attribute(node, "output_width"),
    )
    return shapes.only(shapes.of(shapes.dtype(node, 0), result))


def _infer_roi_pool(node: Node) -> Sequence[Type | None]:
    dims, rois = shapes.rank_is(node, 0, 4), shapes.rank_is(node, 1, 2)
    pooled = attribute(node, "pooled_shape")
    if len(pooled) != 2:
        shapes.fail(node, f"'pooled_shape' must have 2 entries, found {list(pooled)}")
    result = (rois[0] if rois else None, dims[1] if dims else None, *pooled)
    return shapes.only(shapes.of(shapes.dtype(node, 0), result))


def _work_pool(node: Node) -> Work:
    taps = math.prod(attribute(node, "kernel_shape"))
    return Work(float(taps) * node.output.tensor.numel, *traffic(node))


def _work_roi_align(node: Node) -> Work:
    samples = max(1, attribute(node, "sampling_ratio")) ** 2
    return Work(8.0 * samples * node.output.tensor.numel, *traffic(node))


def _register() -> None:
    for name, own, results in (
        ("AveragePool", {"count_include_pad": 0}, 1),
        ("LpPool", {"p": 2}, 1),
        ("MaxPool", {"storage_order": 0}, 2),
    ):
        register(
            Operator(
                name,
                OpClass.REDUCTION,
                _infer_pool,
                max_outputs=results,
                attributes={**WINDOW_ATTRIBUTES, "ceil_mode": 0, "kernel_shape": REQUIRED, **own},
                work=_work_pool,
            )
        )
    for name, attributes in (("GlobalAveragePool", {}), ("GlobalMaxPool", {}), ("GlobalLpPool", {"p": 2})):
        register(Operator(name, OpClass.REDUCTION, _infer_global_pool, attributes=attributes, work=per_element(1)))
    register(
        Operator(
            "MaxUnpool",
            OpClass.OPAQUE,
            _infer_unpool,
            min_inputs=2,
            max_inputs=3,
            attributes={"kernel_shape": REQUIRED, "pads": None, "strides": None},
        )
    )
    register(
        Operator(
            "RoiAlign",
            OpClass.OPAQUE,
            _infer_roi_align,
            min_inputs=3,
            max_inputs=3,
            attributes={
                "coordinate_transformation_mode": "half_pixel",
                "mode": "avg",
                "output_height": 1,
                "output_width": 1,
                "sampling_ratio": 0,
                "spatial_scale": 1.0,
            },
            work=_work_roi_align,
        )
    )
    register(
        Operator(
            "MaxRoiPool",
            OpClass.OPAQUE,
            _infer_roi_pool,
            min_inputs=2,
            max_inputs=2,
            attributes={"pooled_shape": REQUIRED, "spatial_scale": 1.0},
        )
    )


_register()
