"""What must hold of any rule pack and of any kernel pack, of this one in particular."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import KernelPackTests, RulePackTests

HERE = Path(__file__).parent


class TestRules(RulePackTests):
    plugin = "byte-tables"
    golden = HERE / "golden"


class TestKernels(KernelPackTests):
    plugin = "byte-tables"
    cases = HERE / "cases"
