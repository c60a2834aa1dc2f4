"""LRN: each element over a power of the squares around it in neighbouring channels, on dense plain tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.operators import attribute
from autofusion.kernels import BindContext, Numerics, Offer, Operand, Refusal, Target, TensorView
from autofusion_kernels_cpu.codegen import nest, vmath
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.codegen.nest import Axis
from autofusion_kernels_cpu.codegen.values import F32, Value
from autofusion_kernels_cpu.estimate import node_estimate
from autofusion_kernels_cpu.native.kernel import Kernel
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.support import anew

OPERATOR = "LRN"
PARAMETERS = ("length", "channels", "plane", "below", "above", "scale", "beta", "bias")


def offers(node: Node, target: Target) -> list[Offer] | Refusal:
    """One offer for float32 of any rank from 2 on."""
    x = node.inputs[0]
    assert x is not None
    if x.tensor.dtype != np.float32:
        return Refusal(f"it normalises {x.tensor.dtype}, only float32 is supported")
    if len(x.tensor.static_shape) < 2:
        return Refusal("it has no channels")
    estimate = node_estimate(node, target)
    return [
        Offer(
            kernel="reduction.LRN",
            inputs=(Operand(),),
            outputs=(Operand(),),
            bind=partial(_bind, node, isa_of(target), estimate.workers),
            seconds=estimate.seconds,
            numerics=Numerics.REASSOCIATED,
            resize=partial(anew, offers, node, target),
        )
    ]


def build(isa: Isa) -> Kernel:
    """Rows are channels of images. ``below`` and ``above``: neighbours on either side; the others as the operator has
    them, ``scale`` being alpha / size."""
    return Kernel("lrn", isa, "", ("x", "y"), PARAMETERS, _emit)


def _emit(f: Function) -> None:
    p = f.param
    scale, beta, bias = (f.splat(f.float_bits(p[n]), f.lanes) for n in ("scale", "beta", "bias"))
    with nest.rows(f, [f.buffer["x"], f.buffer["y"]], [F32, F32]) as row:
        x, y = row.pointers
        low = -f.min(row.index, p["below"])
        high = f.min(p["channels"] - 1 - row.index, p["above"]) + 1
        with f.vector_loop(0, p["length"]) as loop:
            total = _squares(f, x, loop.index, loop.mask, low, high, p["plane"])
            factor = vmath.exp(f, vmath.log(f, f.fma(total, scale, bias)) * -beta)
            f.store(f.load(x, loop.index, mask=loop.mask) * factor, y, loop.index, mask=loop.mask)


def _squares(f: Function, x: Value, index: Value, mask: Value | None, low: Value, high: Value, plane: Value) -> Value:
    first = f.at(x, low * plane + index)
    with f.loop(low, high, carry=[f.zero, first]) as loop:
        total, pointer = loop.carried
        value = f.load(pointer, 0, mask=mask)
        loop.next(f.fma(value, value, total), f.at(pointer, plane))
    return loop.results[0]


def _bits(number: float) -> int:
    return int(np.float32(number).view(np.int32))


def _bind(
    node: Node,
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    x, y = inputs[0], outputs[0]
    assert x is not None
    if 0 in x.shape:
        return NativeKernel(())
    batch, channels, length = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    size = attribute(node, "size")
    axes = [Axis(batch, (channels * length,) * 2), Axis(channels, (length,) * 2)]
    params = {
        "length": length,
        "channels": channels,
        "plane": length,
        "below": (size - 1) // 2,
        "above": size - 1 - (size - 1) // 2,
        "scale": _bits(attribute(node, "alpha") / size),
        "beta": _bits(attribute(node, "beta")),
        "bias": _bits(attribute(node, "bias")),
    }
    rows = nest.row_parameters(axes, 2, workers)
    return NativeKernel((build(isa).step({"x": x, "y": y}, params, rows, label="reduction.LRN"),))
