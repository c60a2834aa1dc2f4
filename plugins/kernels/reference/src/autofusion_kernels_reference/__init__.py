"""A reference kernel for every operator: slow and exact. This module only holds the hook; the rest loads with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.kernels import hookimpl

if TYPE_CHECKING:
    from autofusion.kernels import KernelPack, Target


@hookimpl
def autofusion_kernel_packs(target: Target) -> list[KernelPack]:
    """The reference pack; it runs on every machine."""
    from autofusion_kernels_reference.pack import ReferencePack

    return [ReferencePack()]
