"""What a distribution's metadata must say before anything of it is imported."""

from __future__ import annotations

import pytest

from autofusion.plugins.discovery import incompatible


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
    assert incompatible(requires, "1.2.0") is None


def test_prereleases_of_core_count() -> None:
    assert incompatible(["autofusion>=1"], "1.3.0.dev1") is None


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
def test_incompatible(requires: list[str], reason: str) -> None:
    refusal = incompatible(requires, "1.2.0")
    assert refusal is not None and reason in refusal.reason
