"""What an author of kernels needs: offers and layouts, the target machine, numerics, views, binding.

A kernel pack says how a node runs and what that costs. It sees nodes (``autofusion.ir``) and never rules.
docs/writing-a-kernel.md is the guide.
"""

from typing import TYPE_CHECKING, Any

from autofusion import lazy
from autofusion.hooks import hookimpl

if TYPE_CHECKING:
    from autofusion.errors import AutofusionError, GraphError, InputError, KernelError, OptionError, nearest
    from autofusion.faults import require_own
    from autofusion.forks import forks_wait, renew_after_fork
    from autofusion.kernels.caching import CacheFolder, CachingPack
    from autofusion.kernels.contract import (
        PLAIN,
        BindContext,
        BindFunction,
        BoundStep,
        Buffer,
        BufferKind,
        KernelPack,
        Layout,
        Memory,
        Offer,
        Operand,
        PythonKernel,
        RepeatingSegment,
        Segment,
        TensorView,
        constant_view,
        dense_strides,
        storable,
    )
    from autofusion.kernels.evaluation import evaluate
    from autofusion.kernels.isa import cpu_flags, instruction_sets
    from autofusion.kernels.saving import RestoreSegments, Saved, SavingPack, Storage
    from autofusion.kernels.target import Target
    from autofusion.kinds import (
        ANY_KIND,
        ATTENTION,
        CONV,
        INTEGER_CONV,
        INTEGER_MATMUL,
        LAYER_NORM,
        MATMUL,
        POINTWISE,
        REDUCTION,
        SOFTMAX,
        AttentionParts,
        Factor,
        FusedKind,
        factor_of,
    )
    from autofusion.numerics import NotFinite, Numerics
    from autofusion.refusal import Refusal

__all__ = [
    "ANY_KIND",
    "ATTENTION",
    "CONV",
    "INTEGER_CONV",
    "INTEGER_MATMUL",
    "LAYER_NORM",
    "MATMUL",
    "PLAIN",
    "POINTWISE",
    "REDUCTION",
    "SOFTMAX",
    "STANDARD",
    "AttentionParts",
    "AutofusionError",
    "BindContext",
    "BindFunction",
    "BoundStep",
    "Buffer",
    "BufferKind",
    "CacheFolder",
    "CachingPack",
    "Factor",
    "FusedKind",
    "GraphError",
    "InputError",
    "KernelError",
    "KernelPack",
    "Layout",
    "Memory",
    "NotFinite",
    "Numerics",
    "Offer",
    "Operand",
    "OptionError",
    "PythonKernel",
    "Refusal",
    "RepeatingSegment",
    "RestoreSegments",
    "Saved",
    "SavingPack",
    "Segment",
    "Storage",
    "Target",
    "TensorView",
    "constant_view",
    "cpu_flags",
    "dense_strides",
    "evaluate",
    "factor_of",
    "forks_wait",
    "hookimpl",
    "instruction_sets",
    "nearest",
    "renew_after_fork",
    "require_own",
    "storable",
]
_MODULES = (
    "autofusion.errors",
    "autofusion.faults",
    "autofusion.forks",
    "autofusion.kernels.contract",
    "autofusion.kernels.caching",
    "autofusion.kernels.evaluation",
    "autofusion.kernels.isa",
    "autofusion.kernels.saving",
    "autofusion.kernels.target",
    "autofusion.numerics",
    "autofusion.kinds",
    "autofusion.refusal",
)


def __getattr__(name: str) -> Any:
    return lazy.find(name, __all__, _MODULES, globals())
