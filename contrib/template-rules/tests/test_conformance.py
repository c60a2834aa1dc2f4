"""What must hold of any rule pack."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import RulePackTests


class TestAcme(RulePackTests):
    plugin = "acme"
    golden = Path(__file__).parent / "golden"
