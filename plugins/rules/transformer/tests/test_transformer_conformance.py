"""The standard tests of a rule pack."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import RulePackTests


class TestTransformer(RulePackTests):
    plugin = "transformer"
    golden = Path(__file__).parent / "golden"
