"""Operator converters of other packages: found by operator name, loaded when needed, every failure told."""

from __future__ import annotations

import sys
import types
from importlib.metadata import EntryPoint

import pytest

from autofusion.plugins import converters
from autofusion.plugins.converters import InstalledConverters
from autofusion.plugins.discovery import Installed
from autofusion.plugins.records import Status

GROUP = "autofusion.converters.demo"
GOOD = ("autofusion>=0.1",)


def point(name: str, value: str, dist: str = "good", requires: tuple[str, ...] = GOOD) -> Installed:
    return Installed(GROUP, name, dist, "1.0", requires, EntryPoint(name, value, GROUP))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("made_for_test")
    made.convert = lambda call: call  # type: ignore[attr-defined]
    made.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def found(
    monkeypatch: pytest.MonkeyPatch,
    *points: Installed,
    environ: dict[str, str] | None = None,
    pins: dict[str, str] | None = None,
) -> InstalledConverters:
    monkeypatch.setattr(converters, "installed", lambda groups: [p for p in points if p.group in groups])
    return InstalledConverters("demo", environ or {}, pins)


def test_found_by_operator(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType) -> None:
    extra = found(monkeypatch, point("Fancy", "made_for_test:convert"))
    assert extra.names == ["Fancy"]
    assert extra.find("Fancy") is module.convert
    assert extra.find("Other") is None
    assert [r.status for r in extra.records] == [Status.LOADED]


def test_nothing_is_imported_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = found(monkeypatch, point("Fancy", "no_such_module:convert"))
    assert extra.names == ["Fancy"]
    assert extra.find("Fancy") is None
    assert extra.find("Fancy") is None
    (record,) = extra.records
    assert record.status is Status.FAILED and "no_such_module" in record.detail
    assert "no_such_module" in extra.failure("Fancy")


@pytest.mark.parametrize("value", ["made_for_test:number", "made_for_test:missing"])
def test_what_is_no_function_fails(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType, value: str) -> None:
    extra = found(monkeypatch, point("Fancy", value))
    assert extra.find("Fancy") is None
    assert [r.status for r in extra.records] == [Status.FAILED]


def test_of_two_neither_is_used(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType) -> None:
    points = [point("Fancy", "made_for_test:convert", dist) for dist in ("one", "two")]
    extra = found(monkeypatch, *points, point("Plain", "made_for_test:convert"))
    assert extra.names == ["Plain"]
    assert extra.find("Fancy") is None
    assert "one and two" in extra.failure("Fancy") and not extra.failure("Plain")


@pytest.mark.parametrize("requires", [("autofusion>=9",), ()])
def test_other_versions_of_core(monkeypatch: pytest.MonkeyPatch, requires: tuple[str, ...]) -> None:
    extra = found(monkeypatch, point("Fancy", "no_such_module:convert", requires=requires))
    assert extra.names == []
    assert [r.status for r in extra.records] == [Status.INCOMPATIBLE]


def test_selected_by_the_environment(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType) -> None:
    points = [point("Fancy", "made_for_test:convert", "one"), point("Plain", "made_for_test:convert", "two")]
    assert found(monkeypatch, *points, environ={"AUTOFUSION_PLUGINS": "two"}).names == ["Plain"]
    assert found(monkeypatch, *points, environ={"AUTOFUSION_PLUGINS": ""}).names == []


def test_pinned_by_a_lock(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType) -> None:
    points = [point("Fancy", "made_for_test:convert", dist) for dist in ("one", "two")]
    extra = found(monkeypatch, *points, pins={"two": "1.0"})
    assert extra.find("Fancy") is module.convert
    assert found(monkeypatch, *points, pins={"two": "1.1"}).names == []
    nothing = found(monkeypatch, *points, pins={})
    assert nothing.names == []
    assert {r.status for r in nothing.records} == {Status.UNPINNED}
