"""Loads kernels while only single pages are free within 2 GB of each other; ``test_native_jit.py`` runs it.

A process with a large framework in it may look like that. Code takes several pages and its constants one: each then
lies where there is room for it.
"""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.isa import host_isa
from autofusion_kernels_cpu.native.jit import Jit

PAGE, FAR, TOP = 1 << 12, 3 << 30, 0x7F0000000000
RESERVED = 0x22 | 0x4000 | 0x100000
"""MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_FIXED_NOREPLACE."""


def scatter() -> None:
    """Leave one page of every gap near the top of the address space free, and what is left of those beyond FAR."""
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [tuple(int(x, 16) for x in line.split()[0].split("-")) for line in lines]
    for (_, before), (after, _) in itertools.pairwise(ranges):
        size = min(after - before - PAGE, FAR)
        if size > 0 and TOP <= after < 1 << 47:
            libc.mmap(after - PAGE - size, size, 0, RESERVED, -1, 0)


def kernel(number: int) -> Module:
    """A kernel of some pages of code with as many constants."""
    module = Module(host_isa())
    with module.kernel(f"polynomial{number}", buffers=["x"], params=[]) as f:
        x = f.load(f.buffer["x"], 0)
        value = x
        for i in range(600):
            value = value * x + (number + 1.0 + i / 601)
        f.store(value, f.buffer["x"], 0)
    return module


with TemporaryDirectory() as folder:
    jit = Jit(Path(folder))
    for number in range(8):
        jit.kernel(kernel(number))
        scatter()
print("loaded")
