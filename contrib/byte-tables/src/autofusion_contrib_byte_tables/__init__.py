"""Functions of 8-bit numbers as tables. The module of both entry points: one hook for rules, one for kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.rules import hookimpl

if TYPE_CHECKING:
    from autofusion.kernels import KernelPack, Target
    from autofusion.rules import RulePack


@hookimpl
def autofusion_rule_packs() -> list[RulePack]:
    """The rule pack ``byte-tables``."""
    from autofusion_contrib_byte_tables.rule import PACK

    return [PACK]


@hookimpl
def autofusion_kernel_packs(target: Target) -> list[KernelPack]:
    """The kernel pack ``byte-tables``; it runs on every machine."""
    from autofusion_contrib_byte_tables.kernel import TablePack

    return [TablePack()]
