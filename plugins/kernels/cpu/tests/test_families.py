"""The fused kinds that the pack states are those that its families run."""

from __future__ import annotations

import dataclasses

from autofusion.cost.detect import detect
from autofusion.kernels import STANDARD
from autofusion_kernels_cpu import attention, integer, matmul, pack, pointwise, reduction


def test_stated_kinds_are_core_s() -> None:
    stated = [kind for kinds in pack.FAMILIES.values() for kind in kinds]
    assert sorted(stated, key=lambda kind: kind.name) == list(STANDARD)


def test_every_family_is_a_package_that_answers() -> None:
    families = pack.families()
    assert list(families) == list(pack.FAMILIES)
    assert {families[n] for n in ("attention", "integer", "matmul", "pointwise", "reduction")} == {
        attention,
        integer,
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
