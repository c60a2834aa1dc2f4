"""Resizes bound to memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.kernels import BindContext, BindFunction, TensorView, dense_strides
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.resize import kernel
from autofusion_kernels_cpu.resize.coordinates import Taps, identity
from autofusion_kernels_cpu.resize.kernel import Structure
from autofusion_kernels_cpu.resize.problem import Resizing

_STRIDES = ("batch", "block", "depth", "row")


def bind_blocked(problem: Resizing, workers: int) -> BindFunction:
    """A bind function for blocked operand and result, of which the last axes but two are resized."""
    d, h, w = _three(problem.taps[2:])
    missing = 3 - len(problem.taps[2:])
    tables = {"columns": np.ascontiguousarray(w.index), "weights": w.weight.astype(np.float32)}
    return partial(_blocked, problem, (d, h, w), tables | _outer(d, h), missing, workers)


def bind_plain(problem: Resizing, workers: int) -> BindFunction:
    """A bind function for plain operand and result."""
    d, h, w = _three(problem.taps[-3:])
    tables = {
        "columns": np.ascontiguousarray(w.index.T.astype(np.int32)),
        "weights": np.ascontiguousarray(w.weight.T.astype(np.float32)),
    }
    return partial(_plain, problem, (d, h, w), tables | _outer(d, h), workers)


def _three(taps: Sequence[Taps]) -> list[Taps]:
    return [identity(1)] * (3 - len(taps)) + list(taps)


def _outer(depth: Taps, height: Taps) -> dict[str, np.ndarray]:
    return {"depth_taps": _pairs(depth), "row_taps": _pairs(height)}


def _pairs(taps: Taps) -> np.ndarray:
    bits = taps.weight.astype(np.float32).view(np.int32).astype(np.int64)
    return np.stack([taps.index, bits], axis=2).ravel()


def _structure(problem: Resizing, taps: Sequence[Taps]) -> Structure:
    return Structure(*(each.count for each in taps), problem.weighted)


def _params(taps: Sequence[Taps], strides: dict[str, Sequence[int]], workers: int, **sizes: int) -> dict[str, int]:
    depth, height, width = (len(each.index) for each in taps)
    made = {"depth": depth, "height": height, "width": width, "workers": workers, **sizes}
    for name, own in strides.items():
        made |= {f"{name}_{part}": stride for part, stride in zip(_STRIDES, own, strict=True)}
    return made


def _blocked(
    problem: Resizing,
    taps: Sequence[Taps],
    tables: dict[str, np.ndarray],
    missing: int,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    x, y = inputs[0], outputs[0]
    assert x is not None
    isa = isa_of(context.target)
    # The pixels of a row are adjacent: the last stride is the block.
    strides = {n: (*v.strides[:2], *[0] * missing, *v.strides[2:])[:4] for n, v in (("x", x), ("y", y))}
    params = _params(taps, strides, workers, batch=y.shape[0], blocks=-(-y.shape[1] // isa.lanes))
    code = kernel.blocked(isa, _structure(problem, taps))
    return NativeKernel((code.step({"x": x, "y": y, **tables}, params, label="resize.blocked", workers=workers),))


def _plain(
    problem: Resizing,
    taps: Sequence[Taps],
    tables: dict[str, np.ndarray],
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    x, y = inputs[0], outputs[0]
    assert x is not None
    strides = {}
    for name, view in (("x", x), ("y", y)):
        depth, row = dense_strides((1, 1, 1, 1, *view.shape))[-3:-1]
        strides[name] = (math.prod((1, 1, 1, *view.shape)[-3:]), 0, depth, row)
    params = _params(taps, strides, workers, batch=math.prod(y.shape[:-3]), blocks=1)
    code = kernel.plain(isa_of(context.target), _structure(problem, taps))
    return NativeKernel((code.step({"x": x, "y": y, **tables}, params, label="resize.plain", workers=workers),))
