"""Panels of B: ``[panel][k][column]``, so that a tile reads them straight through; zero past the last column.

Constants are packed once, when they are bound. Other operands are packed by the kernel, one task's panels at a time,
into memory of the thread's own: that also takes care of the columns past the end and of a transposed B.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I64, PTR
from autofusion_kernels_cpu.matmul.tile import panel_width, vectors_of
from autofusion_kernels_cpu.packed import packed


def pack_constant(cache: dict[Any, Any], array: np.ndarray, transposed: bool, isa: Isa) -> np.ndarray:
    """B, [..., K, N] (or [..., N, K] if ``transposed``, or [K]), as [batch, panels, K, width]; kept in ``cache``."""
    width = panel_width(isa)
    return packed(cache, "matmul.panels", array, (transposed, width), partial(_panels, array, transposed, width))


def _panels(array: np.ndarray, transposed: bool, width: int) -> np.ndarray:
    matrix = np.swapaxes(array, -1, -2) if transposed else array[:, None] if array.ndim == 1 else array
    *batch, k, n = matrix.shape
    panels = -(-n // width)
    made = aligned_empty((math.prod(batch), panels, k, width), np.float32)
    flat = matrix.reshape(math.prod(batch), k, n)
    for panel in range(panels):
        part = flat[:, :, panel * width : (panel + 1) * width]
        made[:, panel, :, : part.shape[2]] = part
        made[:, panel, :, part.shape[2] :] = 0
    return made


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts on a cache line."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """An array that starts on a cache line."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + nbytes].view(dtype).reshape(shape)


def padded_steps(isa: Isa, k: int) -> int:
    """Steps of k for which ``pack_columns`` may write."""
    return -(-k // isa.lanes) * isa.lanes


def pack_rows(module: Module) -> Function:
    """``pack_rows(source, stride, target, k, columns)``: a panel of B whose rows (steps of k) are contiguous."""
    nv = vectors_of(module.isa)
    arguments = [("source", PTR), ("stride", I64), ("target", PTR), ("k", I64), ("columns", I64)]
    with module.function("pack_rows", arguments) as f:
        masks = [f.tail_mask(f.args["columns"] - v * f.lanes) for v in range(nv)]
        with f.loop(0, f.args["k"], carry=[f.args["source"], f.args["target"]]) as loop:
            source, target = loop.carried
            for v, mask in enumerate(masks):
                f.store(f.load(source, v * f.lanes, mask=mask), target, v * f.lanes)
            loop.next(f.at(source, f.args["stride"]), f.at(target, nv * f.lanes))
    return f


def pack_columns(module: Module) -> Function:
    """``pack_columns(source, stride, target, k, columns)``: a panel of B whose columns are contiguous.

    Squares of lanes x lanes are transposed in registers. Steps up to a multiple of the lanes are written. Columns
    past the end are copies of the last one: nobody looks at their products.
    """
    nv = vectors_of(module.isa)
    arguments = [("source", PTR), ("stride", I64), ("target", PTR), ("k", I64), ("columns", I64)]
    with module.function("pack_columns", arguments) as f:
        lanes, stride, last = f.lanes, f.args["stride"], f.args["columns"] - 1
        with f.loop(0, nv * lanes, step=lanes) as group:
            pointers = [f.at(f.args["source"], f.min(group.index + i, last) * stride) for i in range(lanes)]
            with f.loop(0, f.args["k"], step=lanes) as loop:
                mask = f.tail_mask(f.args["k"] - loop.index)
                rows = [f.load(p, loop.index, mask=mask) for p in pointers]
                for i, vector in enumerate(f.transpose(rows)):
                    f.store(vector, f.args["target"], (loop.index + i) * (nv * lanes) + group.index)
    return f
