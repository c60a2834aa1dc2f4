"""What the distributions' READMEs list is what they bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofusion.plugins.registry import default_registry

PACKS = Path(__file__).parents[2] / "plugins" / "rules"


@pytest.mark.parametrize("name", sorted(path.name for path in PACKS.iterdir() if (path / "README.md").exists()))
def test_every_rule_is_listed(name: str) -> None:
    readme = (PACKS / name / "README.md").read_text()
    (pack,) = [pack for pack in default_registry().rule_packs if pack.name == name]
    assert [rule.name for rule in pack.rules if f"`{rule.name}`" not in readme] == []
