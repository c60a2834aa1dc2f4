"""Offers for the sampling operators, and their kernels bound to memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels import BindContext, BindFunction, Numerics, Offer, Operand, Refusal, Target
from autofusion.kernels import TensorView as View
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.native.checks import IndexCheck
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.sampling import kernel
from autofusion_kernels_cpu.sampling.columns import column_table
from autofusion_kernels_cpu.sampling.deformable import deform_offer
from autofusion_kernels_cpu.sampling.schedule import sampling_estimate
from autofusion_kernels_cpu.support import constant_ints, operands, result, static

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
_LARGEST = 1 << 31
"""Elements of a map that an index of four bytes reaches."""


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Plain float32 maps of static shape; GridSample by nearest also of any other four-byte elements."""
    x, y = static(node, 0), result(node)
    if x is None or y is None or any(v is not None and static(node, i) is None for i, v in enumerate(node.inputs)):
        return Refusal("its shapes are not static")
    if 0 in (*x.static_shape, *y.static_shape):
        return Refusal("it has no elements")
    if x.numel >= _LARGEST or y.numel >= _LARGEST:
        return Refusal("its maps are larger than an index of four bytes reaches")
    return OFFERS[node.op](node, x, y, target)


def maps(x: Sequence[int], y: Sequence[int], workers: int) -> dict[str, int]:
    """The parameters that every kernel has, of operand [N, C, *size] and result [N, C, *size]."""
    inner, points = math.prod(x[2:]), math.prod(y[2:])
    return {
        "points": points,
        "channels": y[1],
        "x_batch": x[1] * inner,
        "x_channel": inner,
        "y_batch": y[1] * points,
        "y_channel": points,
        "workers": workers,
    }


def _offer(node: Node, name: str, bind: BindFunction, seconds: float, numerics: Numerics) -> list[Offer]:
    return [Offer(f"sample.{name}", operands(node, {}), (Operand(),), bind, seconds, numerics=numerics)]


def _grid_sample(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    grid = static(node, 1)
    mode = node.attr("mode", "linear")
    mode = _MODES.get(mode, mode)
    rank = len(x.static_shape) - 2
    nearest = mode == "nearest"
    if grid is None or grid.dtype != np.float32 or not (x.dtype == np.float32 or (nearest and x.dtype.itemsize == 4)):
        return Refusal(f"it samples {x.dtype} by a grid of {grid.dtype if grid else None}, only float32 is supported")
    if (x.static_shape[0], *y.static_shape[2:], rank) != grid.static_shape or y.static_shape[:2] != x.static_shape[:2]:
        return Refusal("its grid does not fit its operand")
    if not 1 <= rank <= 3 or (mode == "cubic" and rank > 2) or mode not in kernel.TAPS:
        return Refusal(f"it samples {rank} axes by mode '{mode}'")
    form = kernel.GridForm(rank, mode, node.attr("padding_mode", "zeros"), bool(node.attr("align_corners", 0)))
    estimate = sampling_estimate(y, kernel.TAPS[mode] ** rank, target)
    sizes = {f"size{i}": size for i, size in enumerate(x.static_shape[2:])}
    params = maps(x.static_shape, y.static_shape, estimate.workers) | sizes | {"batch": x.static_shape[0]}

    def bind(context: BindContext, inputs: Sequence[View | None], outputs: Sequence[View]) -> NativeKernel:
        code = kernel.grid_kernel(isa_of(context.target), form)
        buffers = {"x": given(inputs, 0), "grid": given(inputs, 1), "y": outputs[0]}
        return NativeKernel((code.step(buffers, params, label="sample.grid", workers=estimate.workers),))

    numerics = Numerics.EXACT if nearest else Numerics.REASSOCIATED
    return _offer(node, "grid", bind, estimate.seconds, numerics)


def _roi_align(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    rois, images = static(node, 1), static(node, 2)
    if rois is None or images is None or {x.dtype, rois.dtype} != {np.dtype(np.float32)}:
        return Refusal("it is not in float32")
    if images.dtype not in (np.int32, np.int64):
        return Refusal(f"its batch indices are {images.dtype}, only int32 and int64 are supported")
    regions = y.static_shape[0]
    if rois.static_shape != (regions, 4) or images.static_shape != (regions,) or len(x.static_shape) != 4:
        return Refusal("its regions and batch indices do not fit its operand")
    half = node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    form = kernel.RoiForm(half, node.attr("mode", "avg") == "max", images.dtype.itemsize)
    ratio = int(node.attr("sampling_ratio", 0))
    estimate = sampling_estimate(y, 4 * max(ratio, 2) ** 2, target)
    batch, _, height, width = x.static_shape
    scale = np.float32(node.attr("spatial_scale", 1.0)).view(np.int32)
    params = maps(x.static_shape, y.static_shape, estimate.workers)
    params |= {"regions": regions, "batch": batch, "height": height, "width": width}
    params |= {"bin_rows": y.static_shape[2], "bin_columns": y.static_shape[3], "ratio": ratio, "scale": int(scale)}
    told = (
        (
            f"{node.label}: batch index ",
            f" is out of range, expected 0 to {batch - 1}; check the indices that were fed",
        ),
        (
            f"{node.label}: region ",
            f" asks for {kernel.MOST_SAMPLES} or more samples along an axis of a bin; "
            "check the regions that were fed and 'sampling_ratio'",
        ),
    )

    def bind(context: BindContext, inputs: Sequence[View | None], outputs: Sequence[View]) -> NativeKernel:
        note = np.full(2, kernel.NOTHING, np.int64)
        buffers: dict[str, Source] = {"x": given(inputs, 0), "regions": given(inputs, 1), "images": given(inputs, 2)}
        code = kernel.roi_kernel(isa_of(context.target), form)
        step = code.step(
            buffers | {"y": outputs[0], "note": note}, params, label="sample.regions", workers=estimate.workers
        )
        return NativeKernel((step,), IndexCheck(note, kernel.NOTHING, told))

    return _offer(node, "regions", bind, estimate.seconds, Numerics.REASSOCIATED)


def _col2im(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    image, block = constant_ints(node, 1), constant_ints(node, 2)
    if x.dtype != np.float32 or image is None or block is None:
        return Refusal("it is not in float32, or its shapes are not constant")
    if len(x.static_shape) != 3 or y.static_shape[2:] != tuple(image) or x.static_shape[0] != y.static_shape[0]:
        return Refusal("its columns do not fit its image")
    batch, channels, count = y.static_shape[0], y.static_shape[1], x.static_shape[2]
    table = column_table(node, image, block)
    if table is None or channels * math.prod(block) != x.static_shape[1]:
        return Refusal("its columns do not fit its image")
    estimate = sampling_estimate(y, len(table), target)
    params = maps((batch, channels, math.prod(block), count), y.static_shape, estimate.workers)
    params |= {"batch": batch, "taps": len(table)}

    def bind(context: BindContext, inputs: Sequence[View | None], outputs: Sequence[View]) -> NativeKernel:
        code = kernel.table_kernel(isa_of(context.target))
        buffers = {"x": given(inputs, 0), "table": table, "y": outputs[0]}
        return NativeKernel((code.step(buffers, params, label="sample.columns", workers=estimate.workers),))

    return _offer(node, "columns", bind, estimate.seconds, Numerics.REASSOCIATED)


def given(inputs: Sequence[View | None], index: int) -> View:
    """An operand that is there."""
    view = inputs[index]
    assert view is not None
    return view


OFFERS: Mapping[str, Callable[[Node, TensorType, TensorType, Target], Sequence[Offer] | Refusal]] = {
    "Col2Im": _col2im,
    "DeformConv": deform_offer,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
