"""Every function that docs/from-file-to-output.md names exists under that name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "from-file-to-output.md").read_text()
NAMED = sorted(set(re.findall(r"`(autofusion[a-z_.]*:[A-Za-z_.]+)`", PAGE)))


def test_the_page_names_a_function_for_each_step() -> None:
    rows = [
        line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| step", "| question"))
    ]
    assert len(rows) > 20 and all(re.search(r"`autofusion[a-z_.]*:", row) for row in rows)


@pytest.mark.parametrize("named", NAMED)
def test_it_exists(named: str) -> None:
    module, _, path = named.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)
