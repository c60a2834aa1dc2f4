"""The entry point of the kernel pack. Only hooks here; what they need is imported inside: listing must stay fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.kernels import hookimpl

if TYPE_CHECKING:
    from autofusion.kernels import KernelPack, Target


@hookimpl
def autofusion_kernel_packs(target: Target) -> list[KernelPack]:
    """The pack ``acme``; return an empty list where it cannot run."""
    from autofusion_kernels_acme.pack import AcmePack

    return [AcmePack()]
