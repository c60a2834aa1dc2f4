"""The standard tests of a rule pack."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import RulePackTests


class TestQuantised(RulePackTests):
    plugin = "quantised"
    golden = Path(__file__).parent / "golden"
