"""Offers for Resize, and their binding to memory."""

from __future__ import annotations

import functools
import math
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
    dense_strides,
)
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref
from autofusion_kernels_cpu.resize import kernel
from autofusion_kernels_cpu.resize.coordinates import Taps, UnsupportedResize, axis_taps, identity
from autofusion_kernels_cpu.support import isa_of, operands, parameters, result, static

MAX_TAPS = 16
"""Input pixels mixed into an output pixel; beyond, registers run out and code grows."""


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Resize of the last one to three axes: float32, or any four-byte elements with mode nearest."""
    type_, out = static(node, 0), result(node)
    if type_ is None or out is None:
        return Refusal("its shapes are not static")
    shape, made = type_.static_shape, out.static_shape
    if not shape:
        return Refusal("its operand is a scalar")
    nearest = (node.attr("mode") or "nearest") == "nearest"
    if type_.dtype != np.float32 and not (nearest and type_.dtype.itemsize == 4):
        return Refusal(f"it resizes {type_.dtype}, only float32 (or four-byte elements by mode 'nearest') is supported")
    try:
        taps = axis_taps(node, shape, made)
    except UnsupportedResize as reason:
        return Refusal(str(reason))
    changed = [i for i, (t, s) in enumerate(zip(taps, shape, strict=True)) if not _is_identity(t, s)]
    if any(axis < len(shape) - 3 for axis in changed):
        return Refusal("it resizes more than the last three axes")
    total = math.prod(t.count for t in taps)
    if total > MAX_TAPS:
        return Refusal(f"it mixes {total} pixels into one, at most {MAX_TAPS} are supported")
    answers = []
    # A tap is a load and a multiply-add.
    flops, nbytes = 4.0 * out.numel * total, float(type_.nbytes + out.nbytes)
    if 3 <= len(shape) <= 5 and type_.dtype == np.float32 and all(axis >= 2 for axis in changed):
        padded = -(-max(shape[1], 1) // target.lanes) * target.lanes / max(shape[1], 1)
        estimate = roofline(target, flops * padded, nbytes * padded)
        answers.append(
            Offer(
                "resize.blocked",
                operands(node, {0: Operand(Layout(target.lanes))}),
                (Operand(Layout(target.lanes), bordered=True),),
                _bind_blocked(taps[2:], not nearest, estimate.workers),
                seconds=estimate.seconds,
                numerics=Numerics.EXACT if nearest else Numerics.REASSOCIATED,
            )
        )
    # A gather brings about one lane a cycle, and a row that does not fill its vectors takes as long as one that does.
    filled = -(-max(made[-1], 1) // target.lanes) * target.lanes / max(made[-1], 1)
    estimate = roofline(target, flops * filled * target.lanes / 2, nbytes)
    answers.append(
        Offer(
            "resize.plain",
            operands(node, {}),
            (Operand(),),
            _bind_plain(taps, not nearest, estimate.workers),
            seconds=estimate.seconds,
            numerics=Numerics.EXACT if nearest else Numerics.REASSOCIATED,
        )
    )
    return answers


@functools.cache
def _blocked_function(isa: Isa, depths: int, rows: int, taps: int, weighted: bool) -> int:
    return jit().kernel(kernel.blocked(isa, depths, rows, taps, weighted))


@functools.cache
def _plain_function(isa: Isa, depths: int, rows: int, taps: int, weighted: bool) -> int:
    return jit().kernel(kernel.plain(isa, depths, rows, taps, weighted))


def _is_identity(taps: Taps, size: int) -> bool:
    return taps.count == 1 and np.array_equal(taps.index[:, 0], np.arange(size))


def _pairs(taps: Taps) -> np.ndarray:
    bits = taps.weight.astype(np.float32).view(np.int32).astype(np.int64)
    return np.stack([taps.index, bits], axis=2).ravel()


def _three(taps: Sequence[Taps]) -> list[Taps]:
    return [identity(1)] * (3 - len(taps)) + list(taps)


def _bind_blocked(taps: Sequence[Taps], weighted: bool, workers: int) -> BindFunction:
    d, h, w = _three(taps)
    missing = 3 - len(taps)

    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
        x, y = inputs[0], outputs[0]
        assert x is not None
        isa = isa_of(context.target)
        xs, ys = ([*v.strides[:2], *([0] * missing), *v.strides[2:]] for v in (x, y))
        params = [
            y.shape[0], -(-y.shape[1] // isa.lanes), len(d.index), len(h.index), len(w.index), *xs[:4], *ys[:4],
            workers,
        ]  # fmt: skip
        step = NativeStep(
            _blocked_function(isa, d.count, h.count, w.count, weighted),
            (
                Ref(x),
                Ref(y),
                Ref(_pairs(d)),
                Ref(_pairs(h)),
                Ref(np.ascontiguousarray(w.index)),
                Ref(w.weight.astype(np.float32)),
            ),
            parameters(params),
            name="resize.blocked",
            workers=workers,
        )
        return NativeKernel((step,))

    return bind


def _bind_plain(taps: Sequence[Taps], weighted: bool, workers: int) -> BindFunction:
    d, h, w = _three(taps[-3:])

    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
        x, y = inputs[0], outputs[0]
        assert x is not None
        xs, ys = (dense_strides((1, 1, 1, 1, *v.shape))[-3:-1] for v in (x, y))
        sizes = [math.prod((1, 1, 1, *v.shape)[-3:]) for v in (x, y)]
        batch = math.prod(y.shape[:-3])
        params = [
            batch, 1, len(d.index), len(h.index), len(w.index), sizes[0], 0, *xs, sizes[1], 0, *ys,
            workers,
        ]  # fmt: skip
        step = NativeStep(
            _plain_function(isa_of(context.target), d.count, h.count, w.count, weighted),
            (
                Ref(x),
                Ref(y),
                Ref(_pairs(d)),
                Ref(_pairs(h)),
                Ref(np.ascontiguousarray(w.index.T.astype(np.int32))),
                Ref(np.ascontiguousarray(w.weight.T.astype(np.float32))),
            ),
            parameters(params),
            name="resize.plain",
            workers=workers,
        )
        return NativeKernel((step,))

    return bind
