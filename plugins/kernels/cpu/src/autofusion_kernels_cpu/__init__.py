"""Fast CPU kernels, generated through LLVM at run time: x86-64 (AVX-512, AVX2) and AArch64, no compiler needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autofusion.kernels import hookimpl

if TYPE_CHECKING:
    import numpy as np

    from autofusion.kernels import KernelPack, Segment, Target


@hookimpl
def autofusion_kernel_packs(target: Target) -> list[KernelPack]:
    """The pack, if the generators write code for the instruction set of ``target``, and this machine has it."""
    from autofusion_kernels_cpu.pack import CpuPack, supports

    return [CpuPack(target)] if supports(target) else []


def restore_segments(
    data: Mapping[str, Any], code: np.ndarray, stored: np.ndarray, arenas: Sequence[int]
) -> Sequence[Segment]:
    """Programs that ``CpuPack.save_segments`` saved; see ``autofusion.kernels.saving``."""
    from autofusion_kernels_cpu.native.saved import restore

    return restore(data, code, stored, arenas)
