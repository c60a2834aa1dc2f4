"""The standard tests of a rule pack."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import RulePackTests


class TestLayout(RulePackTests):
    plugin = "layout"
    golden = Path(__file__).parent / "golden"
    known_failures = {  # noqa: RUF012
        "test_never_worse[layout.lift_transpose]": "a Transpose before a node that narrows moves more bytes",
    }
