"""onnxruntime as a kernel pack. Only the hook here: onnxruntime is imported when a node is first asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.kernels import hookimpl

if TYPE_CHECKING:
    from autofusion.kernels import KernelPack, Target


@hookimpl
def autofusion_kernel_packs(target: Target) -> list[KernelPack]:
    """The pack ``onnxruntime``; it runs on every machine that onnxruntime runs on."""
    from autofusion_contrib_onnxruntime.pack import OnnxruntimePack

    return [OnnxruntimePack()]
