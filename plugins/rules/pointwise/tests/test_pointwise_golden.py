"""The golden cases of the pack: text, numbers and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofusion.testing.golden import GoldenCase, check_golden, golden_cases
from autofusion_kernels_reference.evaluate import run_graph
from autofusion_rules_pointwise.pack import PACK

CASES = golden_cases(*sorted((Path(__file__).parent / "golden").glob("*.ir")))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden(case: GoldenCase) -> None:
    check_golden(case, [PACK], run_graph)


def test_pack_has_no_faults() -> None:
    assert PACK.problems() == []
    for rule in PACK.rules:
        assert all(part in rule.doc for part in ("Before:", "After:", "Refuses when:")), rule.name


def test_readme_lists_every_rule() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    assert [rule.name for rule in PACK.rules if f"`{rule.name}`" not in readme] == []
