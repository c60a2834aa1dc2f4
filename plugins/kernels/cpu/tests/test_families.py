"""The fused kinds that the pack states are those that its families run."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys

from autofusion.cost.detect import detect
from autofusion.ir.graph import FUSED
from autofusion.kernels import STANDARD
from autofusion_kernels_cpu import pack


def test_stated_kinds_are_core_s() -> None:
    stated = [kind for kinds in pack.FAMILIES.values() for kind in kinds]
    assert sorted(stated, key=lambda kind: kind.name) == list(STANDARD)


def test_every_family_answers_for_its_kinds_and_operators() -> None:
    for label, kinds in pack.FAMILIES.items():
        family = importlib.import_module(f"autofusion_kernels_cpu.{label}")
        module = importlib.import_module(f"autofusion_kernels_cpu.{label}.offers")
        answering = module.offers
        assert set(getattr(module, "OFFERS", family.OPERATORS)) == set(family.OPERATORS)
        names = [*family.OPERATORS, *(f"{FUSED}:{kind.name}" for kind in kinds)]
        assert names and all(answering in pack.asked(name) for name in names)
    assert pack.asked("NonZero") == ()


def test_a_family_is_imported_when_it_is_asked() -> None:
    code = (
        "import sys, autofusion_kernels_cpu.pack as pack; pack.asked('Relu'); "
        "print([n for n in pack.FAMILIES if f'autofusion_kernels_cpu.{n}.offers' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pointwise']"


def test_machines_without_a_known_instruction_set_get_no_pack() -> None:
    target = detect()
    assert not pack.supports(dataclasses.replace(target, isa="generic"))
    other = "neon" if target.isa != "neon" else "avx2"
    assert not pack.supports(dataclasses.replace(target, isa=other))
