"""Shared by the tests of native kernels: memory, aligned arrays, running single steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.kernels import TensorView
from autofusion_kernels_cpu.codegen.isa import ISAS, Isa, host_isas
from autofusion_kernels_cpu.native.pool import pool
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Program

RUNNABLE = [isa.name for isa in host_isas()]
"""Names of the instruction sets that this machine runs."""


def isa_named(name: str) -> Isa:
    """The instruction set as this machine runs it, or a fixed one to assemble for."""
    return next((isa for isa in host_isas() if isa.name == name), ISAS[name])


@dataclass
class Arena:
    """A block of memory with the address function that programs need."""

    data: np.ndarray

    def address(self, view: TensorView) -> int:
        base = view.buffer.array if view.buffer.array is not None else self.data
        start = view.buffer.offset if view.buffer.array is None else 0
        return int(base.ctypes.data) + start + view.offset * view.type.dtype.itemsize


def aligned(count: int, dtype: str | np.dtype = "float32", fill: float = 0.0) -> np.ndarray:
    """A 64-byte aligned array of `count` elements."""
    size = np.dtype(dtype).itemsize
    raw = np.empty(count * size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + count * size].view(dtype)
    array[:] = fill
    return array


def run_steps(steps: Sequence[NativeStep], threads: int = 1, external: Sequence[int] = ()) -> None:
    """Assemble and run."""
    Program(pool(threads), [NativeKernel(tuple(steps))], Arena(aligned(1))).run(external)
