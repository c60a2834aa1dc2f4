"""Poolings bound to memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.kernels import BindContext, BindFunction, TensorView
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.pooling import kernel
from autofusion_kernels_cpu.pooling.problem import Pooling, interior, window_table

_STRIDES = ("batch", "block", "depth", "row")


def bind_blocked(problem: Pooling, workers: int) -> BindFunction:
    """A bind function for blocked operand and result."""
    return partial(_blocked, problem, workers)


def bind_plain(problem: Pooling, workers: int) -> BindFunction:
    """A bind function for plain operand and result."""
    return partial(_plain, problem, workers)


def _common(problem: Pooling, x: TensorView, y: TensorView, workers: int) -> dict[str, int]:
    """Parameters of both kernels: sizes of the result, strides of both tensors, steps of the outer taps."""
    d, h, w = problem.full_axes
    made = {"batch": y.shape[0], "depth": d.out, "height": h.out, "width": w.out, "workers": workers, "taps": w.kernel}
    for name, view in (("x", x), ("y", y)):
        strides = (*view.strides[:2], *[0] * (3 - len(problem.axes)), *view.strides[2:])
        made |= {f"{name}_{part}": stride for part, stride in zip(_STRIDES, strides, strict=False)}
    return made | {"tap_depth": d.dilation * made["x_depth"], "tap_row": h.dilation * made["x_row"]}


def _tables(problem: Pooling) -> np.ndarray:
    return np.concatenate([window_table(axis, problem.include_pad) for axis in problem.full_axes]).ravel()


def _blocked(
    problem: Pooling,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    x, y = inputs[0], outputs[0]
    assert x is not None
    isa, width = isa_of(context.target), problem.axes[-1]
    first, last = interior(width)
    params = _common(problem, x, y, workers) | {
        "blocks": -(-y.shape[1] // isa.lanes),
        "inner_first": first,
        "inner_last": last,
        "step": width.stride * isa.lanes,
        "tap": width.dilation * isa.lanes,
    }
    buffers = {"x": x, "y": y, "table": _tables(problem)}
    code = kernel.blocked(isa, problem.kind, dtype_name(problem.x.dtype))
    return NativeKernel((code.step(buffers, params, label=f"pool.{problem.kind}.blocked", workers=workers),))


def _plain(
    problem: Pooling,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    x, y = inputs[0], outputs[0]
    assert x is not None
    width = problem.axes[-1]
    params = _common(problem, x, y, workers) | {
        "blocks": y.shape[1],
        "size": width.size,
        "stride": width.stride,
        "low": width.low,
        "dilation": width.dilation,
    }
    sizes = window_table(width, problem.include_pad)[:, 2].astype(np.float32)
    buffers = {"x": x, "y": y, "table": _tables(problem), "sizes": sizes}
    code = kernel.plain(isa_of(context.target), problem.kind, width.stride == 1)
    return NativeKernel((code.step(buffers, params, label=f"pool.{problem.kind}.plain", workers=workers),))
