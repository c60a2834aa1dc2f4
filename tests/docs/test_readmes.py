"""What the distributions' READMEs list is what they bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofusion.kinds import STANDARD, table
from autofusion.plugins.registry import default_registry

PACKS = Path(__file__).parents[2] / "plugins" / "rules"


@pytest.mark.parametrize("name", sorted(path.name for path in PACKS.iterdir() if (path / "README.md").exists()))
def test_every_rule_is_listed(name: str) -> None:
    readme = (PACKS / name / "README.md").read_text()
    (pack,) = [pack for pack in default_registry().rule_packs if pack.name == name]
    assert [rule.name for rule in pack.rules if f"`{rule.name}`" not in readme] == []


def test_the_table_of_kinds_is_printed_from_them() -> None:
    page = (PACKS.parents[1] / "docs" / "ir-and-fused-kinds.md").read_text()
    assert table(STANDARD) in page, "put the output of `autofusion rules --kinds` into docs/ir-and-fused-kinds.md"
