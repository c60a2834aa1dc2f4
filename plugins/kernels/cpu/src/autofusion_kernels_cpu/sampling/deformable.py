"""DeformConv: columns sampled at moved positions, then a product with the weights for each image and group."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Graph, Node
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType
from autofusion.kernels import PLAIN, BindContext, Numerics, Offer, Operand, Refusal, Target, dense_strides
from autofusion.kernels import TensorView as View
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.matmul.offers import offers as product_offers
from autofusion_kernels_cpu.native.kernel import Source
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep
from autofusion_kernels_cpu.sampling import kernel
from autofusion_kernels_cpu.sampling.schedule import sampling_estimate
from autofusion_kernels_cpu.support import operands, static

_LINE = 64
_F32 = np.dtype(np.float32)


def deform_offer(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    """Two spatial axes in float32."""
    types = [static(node, i) for i in range(len(node.inputs))]
    if any(t is not None and t.dtype != _F32 for t in types) or len(x.static_shape) != 4:
        return Refusal("only float32 with two spatial axes is supported")
    w = types[1]
    assert w is not None
    (n, c, height, width), (m, per_group, *window) = x.static_shape, w.static_shape
    groups, offset_groups = int(node.attr("group", 1)), int(node.attr("offset_group", 1))
    if c != per_group * groups or c % offset_groups or m % groups:
        return Refusal("its channels do not fit its groups")
    count, points = math.prod(window), math.prod(y.static_shape[2:])
    area = y.static_shape[2:]
    fitting = (None, None, (n, offset_groups * count * 2, *area), (m,), (n, offset_groups * count, *area))
    if any(t and shape and t.static_shape != shape for t, shape in zip(types, fitting, strict=False)):
        return Refusal("its offsets, its mask or its bias do not have the shape that its result asks for")
    if y.static_shape[:2] != (n, m) or len(window) != 2:
        return Refusal("its weights do not fit its operand")
    columns = TensorType(_F32, (n * c * count * points,))
    product = _product(m // groups, per_group * count, points, len(node.inputs) > 3 and node.inputs[3] is not None)
    products = product_offers(product, target)
    if isinstance(products, Refusal):
        return products
    (multiply,) = products
    estimate = sampling_estimate(columns, 4, target)
    room = -(-columns.nbytes // _LINE) * _LINE
    ints = {k: [int(v) for v in node.attr(k) or d] for k, d in _DEFAULTS.items()}
    params = {
        "points": points,
        "channels": c // offset_groups,
        "x_batch": c * height * width,
        "x_channel": height * width,
        "y_batch": c * count * points,
        "y_channel": count * points,
        "workers": estimate.workers,
        "groups": offset_groups,
        "taps": count,
        "height": height,
        "width": width,
        "out_width": y.static_shape[3],
        "kernel_width": window[1],
        "batch": n,
    }
    for i, name in enumerate("yx"):
        for param, given in _EACH.items():
            params[f"{param}_{name}"] = ints[given][i]

    def bind(context: BindContext, inputs: Sequence[View | None], outputs: Sequence[View]) -> NativeKernel:
        source, weights, offsets, out = inputs[0], inputs[1], inputs[2], outputs[0]
        bias = inputs[3] if len(inputs) > 3 else None
        factors = inputs[4] if len(inputs) > 4 else None
        assert source is not None and weights is not None and offsets is not None and context.scratch is not None
        scratch = context.scratch
        buffers: dict[str, Source] = {"x": source, "offsets": offsets, "factors": factors or offsets, "y": scratch}
        code = kernel.offset_kernel(isa_of(context.target), kernel.OffsetForm(factors is not None))
        steps: list[NativeStep] = [code.step(buffers, params, label="sample.offsets", workers=estimate.workers)]
        rest = View(
            TensorType(scratch.type.dtype, (multiply.scratch,)), PLAIN, (1,), scratch.buffer, scratch.offset + room
        )
        inner = BindContext(context.target, context.cache, rest, context.reference)
        rows, depth = m // groups, per_group * count
        for image in range(n):
            for group in range(groups):
                start = scratch.offset // 4 + (image * groups + group) * depth * points
                factor = View(TensorType(_F32, (depth, points)), PLAIN, (points, 1), scratch.buffer, start)
                parts = [_part(weights, (rows, depth), group * rows * depth), factor]
                parts += [] if bias is None else [_part(bias, (rows, 1), group * rows)]
                result = _part(out, (rows, points), (image * groups + group) * rows * points)
                steps += multiply.bind(inner, parts, [result]).steps
        return NativeKernel(tuple(steps))

    return [
        Offer(
            "sample.deformable",
            operands(node, {}),
            (Operand(),),
            bind,
            estimate.seconds + n * groups * multiply.seconds,
            scratch=room + multiply.scratch,
            numerics=Numerics.REASSOCIATED,
        )
    ]


_DEFAULTS = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}
_EACH = {"stride": "strides", "pad": "pads", "dilation": "dilations"}


def _part(view: View, shape: tuple[int, int], start: int) -> View:
    """A matrix inside a plain tensor, from element `start` on."""
    return View(TensorType(_F32, shape), PLAIN, dense_strides(shape), view.buffer, view.offset + start)


def _product(rows: int, depth: int, points: int, biased: bool) -> Node:
    """A Gemm of those sizes, with a column of biases."""
    graph = Graph("columns")
    shapes = [(rows, depth), (depth, points), *([(rows, 1)] if biased else [])]
    values = [graph.add_input(f"x{i}", TensorType(_F32, shape)) for i, shape in enumerate(shapes)]
    node = graph.node("Gemm", values)
    infer_node(node)
    return node
