"""Offers for the pooling operators, and their binding to memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Node
from autofusion.kernels import (
    BindContext,
    BindFunction,
    Layout,
    Numerics,
    Offer,
    Operand,
    Refusal,
    Target,
    TensorView,
)
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref
from autofusion_kernels_cpu.pooling import kernel
from autofusion_kernels_cpu.pooling.window import Axis, window_axes
from autofusion_kernels_cpu.support import isa_of, operands, parameters, result, static, used_results

OPERATORS = {"MaxPool": "max", "AveragePool": "average", "GlobalMaxPool": "max", "GlobalAveragePool": "average"}


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Pooling of float32 over one to three spatial axes, blocked or plain."""
    type_, out = static(node, 0), result(node)
    if type_ is None or out is None:
        return Refusal("its shapes are not static")
    if type_.dtype != np.float32:
        return Refusal(f"it pools {type_.dtype}, only float32 is supported")
    rank = len(type_.static_shape)
    if not 3 <= rank <= 5:
        return Refusal(f"it has {rank - 2} spatial axes, only 1 to 3 are supported")
    if used_results(node) > 1:
        return Refusal("its result 'Indices' is used")
    kind = OPERATORS[node.op]
    axes = window_axes(node, type_.static_shape, out.static_shape)
    include_pad = bool(node.attr("count_include_pad", 0))
    taps = float(np.prod([axis.kernel for axis in axes]))
    lanes = target.lanes
    channels = type_.static_shape[1]
    padded = -(-max(channels, 1) // lanes) * lanes / max(channels, 1)
    # A tap is a load and a (NaN keeping) maximum, about three instructions a vector at two a cycle, where the peak has
    # two multiply-adds.
    flops = 6.0 * out.numel * taps
    nbytes = float(type_.nbytes + out.nbytes)
    blocked = roofline(target, flops * padded, nbytes * padded)
    adjacent = axes[-1].stride == 1
    # A gather brings about one lane a cycle, and a row that does not fill its vectors takes as long as one that does.
    width = out.static_shape[-1]
    filled = -(-max(width, 1) // lanes) * lanes / max(width, 1)
    plain = roofline(target, flops * filled * (3.0 if adjacent else float(lanes)), nbytes)
    layout = Layout(lanes)
    numerics = Numerics.EXACT if kind == "max" else Numerics.REASSOCIATED
    absent = tuple(Operand() for _ in node.outputs[1:])
    return [
        Offer(
            f"pool.{kind}.blocked",
            operands(node, {0: Operand(layout)}),
            (Operand(layout, bordered=True), *absent),
            _bind_blocked(kind, axes, include_pad, blocked.workers),
            seconds=blocked.seconds,
            numerics=numerics,
        ),
        Offer(
            f"pool.{kind}.plain",
            operands(node, {}),
            (Operand(), *absent),
            _bind_plain(kind, axes, include_pad, adjacent, plain.workers),
            seconds=plain.seconds,
            numerics=numerics,
        ),
    ]


@functools.cache
def _blocked_function(isa: Isa, kind: str) -> int:
    return jit().kernel(kernel.blocked(isa, kind))


@functools.cache
def _plain_function(isa: Isa, kind: str, adjacent: bool) -> int:
    return jit().kernel(kernel.plain(isa, kind, adjacent))


def _three(axes: Sequence[Axis]) -> list[Axis]:
    return [Axis(1, 1, 1, 1, 1, 0, 0)] * (3 - len(axes)) + list(axes)


def _strides(view: TensorView, missing: int) -> list[int]:
    """Strides of batch, channel (block) and the three spatial axes."""
    return [*view.strides[:2], *([0] * missing), *view.strides[2:]]


def _tables(axes: Sequence[Axis], include_pad: bool) -> np.ndarray:
    return np.concatenate([axis.table(include_pad) for axis in axes]).ravel()


def _bind_blocked(kind: str, axes: Sequence[Axis], include_pad: bool, workers: int) -> BindFunction:
    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
        x, y = inputs[0], outputs[0]
        assert x is not None
        isa = isa_of(context.target)
        lanes = isa.lanes
        d, h, w = _three(axes)
        xs, ys = _strides(x, 3 - len(axes)), _strides(y, 3 - len(axes))
        first, last = w.interior(w.table(include_pad))
        params = [
            y.shape[0], -(-y.shape[1] // lanes), d.out, h.out, w.out, first, last, w.kernel,
            *xs[:4], *ys[:4],
            w.stride * lanes, d.dilation * xs[2], h.dilation * xs[3], w.dilation * lanes, workers,
        ]  # fmt: skip
        step = NativeStep(
            _blocked_function(isa, kind),
            (Ref(x), Ref(y), Ref(_tables((d, h, w), include_pad))),
            parameters(params),
            name=f"pool.{kind}.blocked",
            workers=workers,
        )
        return NativeKernel((step,))

    return bind


def _bind_plain(kind: str, axes: Sequence[Axis], include_pad: bool, adjacent: bool, workers: int) -> BindFunction:
    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
        x, y = inputs[0], outputs[0]
        assert x is not None
        d, h, w = _three(axes)
        xs, ys = _strides(x, 3 - len(axes)), _strides(y, 3 - len(axes))
        params = [
            *y.shape[:2], d.out, h.out, w.out, w.kernel, w.size, w.stride, w.low, w.dilation,
            *xs[:4], *ys[:4],
            d.dilation * xs[2], h.dilation * xs[3], workers,
        ]  # fmt: skip
        sizes = w.table(include_pad)[:, 2].astype(np.float32)
        step = NativeStep(
            _plain_function(isa_of(context.target), kind, adjacent),
            (Ref(x), Ref(y), Ref(_tables((d, h, w), include_pad)), Ref(sizes)),
            parameters(params),
            name=f"pool.{kind}.plain",
            workers=workers,
        )
        return NativeKernel((step,))

    return bind
