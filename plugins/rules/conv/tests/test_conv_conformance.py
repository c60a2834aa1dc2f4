"""The standard tests of a rule pack."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import RulePackTests


class TestConv(RulePackTests):
    plugin = "conv"
    golden = Path(__file__).parent / "golden"
    known_failures = {  # noqa: RUF012
        "test_special_numbers[conv.fold_scale]": "weights that would be denormal become 0, and 0 times infinity is NaN",
    }
