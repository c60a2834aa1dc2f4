"""Look-ups: by name, by file, by machine; and registries made from explicit lists."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from autofusion.errors import ModelError, OptionError, PluginError
from autofusion.ir.graph import Graph
from autofusion.plugins.discovery import Installed, without_conflicts
from autofusion.plugins.records import PluginRecord
from autofusion.plugins.registry import Registry
from autofusion.plugins.reserved import trespass
from autofusion.refusal import Refusal
from autofusion.rules.pattern import op, var
from autofusion.rules.rule import RewriteRule, RulePack
from core.tests.plugins.fakes import TARGET, FakeFrontend, FakePack

A = FakeFrontend("a", (".a", ".both"), b"AAAA")
B = FakeFrontend("b", (".b", ".both"), b"BBBB")
GREEDY = FakeFrontend("greedy", (".g",), b"")
CHOKES = FakeFrontend("chokes", (".c",))

RULE = RewriteRule("demo.identity", op("Identity", var("x")), lambda match, builder: [match["x"]])


def _file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_content_decides_before_the_suffix(tmp_path: Path) -> None:
    registry = Registry.of([A, B])
    assert registry.frontend_for(_file(tmp_path, "model.b", b"AAAA...")) is A
    assert registry.frontend_for(_file(tmp_path, "model.both", b"BBBB...")) is B


def test_the_suffix_decides_where_the_content_does_not(tmp_path: Path) -> None:
    registry = Registry.of([A, B, GREEDY])
    assert registry.frontend_for(_file(tmp_path, "model.a", b"AAAA")) is A, "two recognise it, one has the suffix"
    registry = Registry.of([A, B, CHOKES])
    assert registry.frontend_for(_file(tmp_path, "model.A", b"damaged")) is A, "its own error tells more than ours"
    assert registry.frontend_for(_file(tmp_path, "model.c", b"?")) is CHOKES


def test_a_model_that_two_frontends_claim_is_an_error(tmp_path: Path) -> None:
    registry = Registry.of([A, GREEDY])
    with pytest.raises(ModelError, match=r"looks like a model of a and greedy"):
        registry.frontend_for(_file(tmp_path, "model.xyz", b"AAAA"))
    with pytest.raises(ModelError, match=r"neither by a nor b"):
        Registry.of([A, B]).frontend_for(_file(tmp_path, "model.both", b"?"))


def test_no_such_file() -> None:
    with pytest.raises(ModelError, match=r"there is no model 'nowhere/model\.onnx'"):
        Registry.of([A]).frontend_for(Path("nowhere/model.onnx"))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("m.onnx", "install autofusion-frontend-onnx"),
        ("m.pb", "install autofusion-frontend-onnx or autofusion-frontend-tensorflow"),
        ("m.pbtxt", "install autofusion-frontend-tensorflow"),
        ("m.MINDIR", "install autofusion-frontend-mindspore"),
        ("m.tflite", r"a '\.tflite' file\); it is a text file\. Loaded frontends: a \(\.a \.both\)"),
        ("m", "a file without a suffix"),
    ],
)
def test_an_unknown_kind_names_what_is_loaded_and_what_to_install(tmp_path: Path, name: str, advice: str) -> None:
    with pytest.raises(ModelError, match=advice) as error:
        Registry.of([A]).frontend_for(_file(tmp_path, name, b"?"))
    assert "Loaded frontends: a (.a .both)" in str(error.value)


def test_what_a_frontend_knows_about_other_files_is_said(tmp_path: Path) -> None:
    class Advising(FakeFrontend):
        def advise(self, path: Path) -> str | None:
            if path.suffix == ".broken":
                raise RuntimeError("boom")
            return "a weights file: export the model" if path.suffix == ".h5" else None

    registry = Registry.of([A, Advising("adviser", (".adv",), b"VVVV")])
    with pytest.raises(ModelError, match="cannot be read: it is a weights file: export the model"):
        registry.frontend_for(_file(tmp_path, "m.h5", b"\x89HDF"))
    with pytest.raises(ModelError, match="it is an HDF5 file"):
        registry.frontend_for(_file(tmp_path, "m.other", b"\x89HDF"))
    with pytest.raises(ModelError, match="it is an HDF5 file"):
        registry.frontend_for(_file(tmp_path, "m.broken", b"\x89HDF"))


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"which has no 'saved_model\.pb'"):
        Registry.of([A]).frontend_for(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(ModelError, match="install autofusion-frontend-tensorflow"):
        Registry.of().frontend_for(tmp_path)


def test_rules_by_name() -> None:
    registry = Registry.of(rule_packs=[RulePack("demo", "1", (RULE,))])
    assert registry.rule("demo.identity") is RULE
    with pytest.raises(OptionError, match=r"unknown rule 'demo\.identiy'; did you mean 'demo\.identity'\?"):
        registry.rule("demo.identiy")


def test_frontends_by_name() -> None:
    assert Registry.of([A, B]).frontend("b") is B
    with pytest.raises(PluginError, match=r"no frontend 'onnx' is loaded; install autofusion-frontend-onnx"):
        Registry.of([A]).frontend("onnx")


def test_the_oracle_is_the_pack_that_says_so() -> None:
    fast, book = FakePack("fast"), FakePack("book", is_reference=True)
    assert Registry.of(kernel_packs=[fast, book]).reference_pack(TARGET) is book
    with pytest.raises(PluginError, match="install autofusion-kernels-reference"):
        Registry.of(kernel_packs=[fast]).reference_pack(TARGET)


def test_reference_kernels_are_asked_operator_by_operator_our_own_first() -> None:
    class Knows(FakePack):
        def __init__(self, name: str, *ops: str) -> None:
            super().__init__(name, is_reference=True)
            self._ops = ops

        def offer(self, node: Any, target: Any) -> Any:
            return [self.name] if node.op in self._ops else Refusal("no")

    first, own = Knows("a", "Exp", "theirs::Own"), Knows("reference", "Exp")
    book = Registry.of(kernel_packs=[first, own]).reference_pack(TARGET)
    graph = Graph("g")
    given = [book.offer(graph.node(op, []), TARGET) for op in ("Exp", "theirs::Own", "Nobody")]
    assert given[:2] == [["reference"], ["a"]]
    assert "no ('reference'); no ('a')" in str(given[2])


@pytest.mark.parametrize(("group", "name"), [("autofusion.kernels", "cpu"), ("autofusion.rules", "conv")])
def test_names_of_the_project_are_its_own(group: str, name: str) -> None:
    point = importlib.metadata.EntryPoint(name, "m", group)
    ours = Installed(group, name, f"autofusion-{group[11:]}-{name}", "1", (), point)
    theirs = Installed(group, name, "aaa-evil", "1", (), point)
    records: list[PluginRecord] = []
    assert without_conflicts([theirs, ours], records) == [ours]
    assert "belongs to autofusion-" in records[0].detail
    assert trespass(group, "aaa-evil", ["fine", name])
    assert not trespass(group, "aaa-evil", ["fine"])


def test_explicit_lists_are_checked_like_plugins() -> None:
    with pytest.raises(PluginError, match=r"two of autofusion\.kernels have the name 'twin'"):
        Registry.of(kernel_packs=[FakePack("twin"), FakePack("twin")])
    with pytest.raises(PluginError, match="an object of type int has no 'name', expected a text"):
        Registry.of([1])  # type: ignore[list-item]
    with pytest.raises(PluginError, match=r"rule 'identity' must have a name that begins with 'demo\.'"):
        Registry.of(rule_packs=[RulePack("demo", "1", (RewriteRule("identity", RULE.pattern, RULE.rewrite),))])


def test_explicit_registries_look_at_no_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autofusion.plugins.registry.discover", lambda *_: pytest.fail("looked for plugins"))
    registry = Registry.of([A])
    assert registry.frontends == [A]
    assert (registry.rule_packs, registry.kernel_packs(TARGET), registry.records) == ([], [], [])


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every reading of the entry points of all distributions from now on."""
    read: list[str] = []
    whole = importlib.metadata.entry_points

    def entry_points(**selection: str) -> importlib.metadata.EntryPoints:
        read.append(str(selection))
        return whole(**selection)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return read


def test_metadata_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(environ={})
    first = registry.records
    read = _counted(monkeypatch)
    assert registry.records == first
    assert registry.provided("autofusion.rules", "no_such_plugin") == []
    assert read == []


def test_the_kit_looks_for_a_plugin_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from autofusion.testing import KernelPackTests

    cls = type("TestIt", (KernelPackTests,), {"plugin": "reference"})
    pack = cls.kernel_pack()
    read = _counted(monkeypatch)
    assert cls.kernel_pack() is pack and read == []


def test_lists_are_the_callers_own() -> None:
    registry = Registry.of([A])
    registry.frontends.clear()
    assert registry.frontends == [A]
