"""What hooks return is checked attribute by attribute."""

from __future__ import annotations

from typing import Any

import pytest

from autofusion.plugins.contents import faults
from autofusion.rules.rule import RulePack
from core.tests.plugins.fakes import FakeFrontend, FakePack

GOOD: dict[str, Any] = {
    "autofusion.frontends": FakeFrontend("f", (".f",)),
    "autofusion.rules": RulePack("r", "1", ()),
    "autofusion.kernels": FakePack("k"),
}
EXPECTED = {
    "autofusion.frontends": ["name", "version", "suffixes", "recognises", "load", "reference"],
    "autofusion.rules": ["name", "version", "rules"],
    "autofusion.kernels": [
        "name", "version", "kinds", "is_reference", "blocks", "launch_seconds", "offer", "reorder", "assemble",
    ],
}  # fmt: skip


class _With:
    """``item`` with one attribute replaced, or taken away."""

    def __init__(self, item: Any, attribute: str, *value: Any) -> None:
        self._item, self._attribute, self._value = item, attribute, value

    def __getattr__(self, name: str) -> Any:
        if name == self._attribute:
            if not self._value:
                raise AttributeError(name)
            return self._value[0]
        return getattr(self._item, name)


@pytest.mark.parametrize("group", GOOD)
def test_good(group: str) -> None:
    assert faults(group, [GOOD[group]]) == []
    assert faults(group, ()) == []


@pytest.mark.parametrize("group", GOOD)
@pytest.mark.parametrize("returned", [None, "pack", {"pack": 1}, 3])
def test_not_a_list(group: str, returned: Any) -> None:
    assert faults(group, returned) == [f"the hook returned {type(returned).__name__}, expected a list"]


@pytest.mark.parametrize(("group", "attribute"), [(g, a) for g, names in EXPECTED.items() for a in names])
def test_each_attribute_is_needed(group: str, attribute: str) -> None:
    (missing,) = faults(group, [_With(GOOD[group], attribute)])
    assert f"has no '{attribute}', expected a" in missing or f"has no '{attribute}', expected True" in missing
    (wrong,) = faults(group, [_With(GOOD[group], attribute, None)])
    assert "is of type NoneType" in wrong
    assert f"'{attribute}'" in wrong


def test_protocols_have_no_attribute_that_is_not_checked() -> None:
    from autofusion.frontends.contract import Frontend
    from autofusion.kernels.contract import KernelPack

    for group, protocol in (("autofusion.frontends", Frontend), ("autofusion.kernels", KernelPack)):
        public = {n for n in (*protocol.__annotations__, *vars(protocol)) if not n.startswith("_")}
        assert public == set(EXPECTED[group])
