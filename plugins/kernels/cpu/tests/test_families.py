"""The fused kinds that the pack states are those that its families run."""

from __future__ import annotations

import dataclasses

from autofusion.cost.detect import detect
from autofusion_kernels_cpu import attention, matmul, pack, pointwise, reduction
from autofusion_kernels_cpu.attention.offers import KIND as ATTENTION
from autofusion_kernels_cpu.matmul.offers import KIND as MATMUL
from autofusion_kernels_cpu.pointwise.offers import KIND as POINTWISE
from autofusion_kernels_cpu.reduction.offers import KINDS as REDUCTIONS


def test_stated_kinds_are_those_of_the_families() -> None:
    stated = {name: set(kinds) for name, kinds in pack.FAMILIES.items() if kinds}
    asked = {"attention": {ATTENTION}, "matmul": {MATMUL}, "pointwise": {POINTWISE}, "reduction": set(REDUCTIONS)}
    assert stated == asked | {"conv": {"conv"}}


def test_every_family_is_a_package_that_answers() -> None:
    families = pack.families()
    assert list(families) == list(pack.FAMILIES)
    assert {families[n] for n in ("attention", "matmul", "pointwise", "reduction")} == {
        attention,
        matmul,
        pointwise,
        reduction,
    }
    assert all(callable(family.offers) for family in families.values())


def test_machines_without_a_known_instruction_set_get_no_pack() -> None:
    target = detect()
    assert not pack.supports(dataclasses.replace(target, isa="generic"))
    other = "neon" if target.isa != "neon" else "avx2"
    assert not pack.supports(dataclasses.replace(target, isa=other))
