"""Fast CPU kernels, generated through LLVM at run time: x86-64 (AVX-512, AVX2) and AArch64, no compiler needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.kernels import hookimpl

if TYPE_CHECKING:
    from autofusion.kernels import KernelPack, Target


@hookimpl
def autofusion_kernel_packs(target: Target) -> list[KernelPack]:
    """The pack, if the generators write code for the instruction set of ``target``, and this machine has it."""
    from autofusion_kernels_cpu.pack import CpuPack, supports

    return [CpuPack(target)] if supports(target) else []
