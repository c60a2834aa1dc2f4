"""What a distribution's metadata must say before anything of it is imported."""

from __future__ import annotations

import pytest

from autofusion.plugins.discovery import unmet


@pytest.mark.parametrize(
    "requires",
    [
        ["autofusion>=1,<2"],
        ["numpy>=2", "AutoFusion ~= 1.2"],
        ["autofusion"],
        ["autofusion>=2; python_version < '3'", "autofusion>=1"],
        ["autofusion>=9; extra == 'future'", "autofusion>=1"],
    ],
)
def test_met(requires: list[str]) -> None:
    assert unmet(requires, "1.2.0") == ""


def test_prereleases_of_core_count() -> None:
    assert unmet(["autofusion>=1"], "1.3.0.dev1") == ""


@pytest.mark.parametrize(
    ("requires", "reason"),
    [
        (["autofusion>=99"], "needs autofusion>=99, found 1.2.0"),
        (["autofusion<1"], "needs autofusion<1, found 1.2.0"),
        (["autofusion>=1", "autofusion!=1.2.0"], "needs autofusion!=1.2.0, found 1.2.0"),
        (["numpy>=2"], "does not say which autofusion it needs"),
        ([], "does not say which autofusion it needs"),
        (["autofusion>=1; extra == 'all'"], "does not say which autofusion it needs"),
        (["autofusion >=> 1"], "cannot be read"),
    ],
)
def test_unmet(requires: list[str], reason: str) -> None:
    assert reason in unmet(requires, "1.2.0")
