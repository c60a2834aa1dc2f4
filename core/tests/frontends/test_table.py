"""The table of converters: versions, what packages add, and the error for all that is unknown."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autofusion.errors import UnsupportedOperatorError
from autofusion.frontends import Call, ConverterTable


def old(call: Call) -> Any: ...
def new(call: Call) -> Any: ...


class Added:
    """Two converters: one that works, and one whose package is broken."""

    names = ("Extra", "Broken", "Relu")

    def find(self, operator: str) -> Callable[[Any], Any] | None:
        return new if operator in ("Extra", "Relu") else None

    def failure(self, operator: str) -> str:
        return "its package raised RuntimeError: boom" if operator == "Broken" else ""


def table() -> ConverterTable:
    made = ConverterTable("demo")
    made.converter("Relu", "Softmax")(old)
    return made


def test_versions() -> None:
    made = ConverterTable("demo")
    made.register("Resize", old, since=10, before=11)
    made.register("Resize", new, since=13)
    assert [made.find("Resize", v) for v in (9, 10, 11, 12, 13, 99)] == [None, old, None, None, new, new]


def test_what_packages_add_never_changes_what_is_known() -> None:
    made = table().extended(Added())
    assert made.find("Relu") is old and made.find("Extra") is new and made.find("Other") is None
    assert made.is_added("Extra") and not made.is_added("Relu") and "Broken" in made
    assert "Extra" not in table()


def test_names_of_results() -> None:
    made = table()
    made.converter("Split", outputs=("first", "second"))(old)
    assert made.output_names("Split") == ("first", "second") and made.output_names("Relu") is None


def test_all_that_is_unknown_is_named_at_once() -> None:
    error = table().extended(Added()).unknown([("Relv", "a"), ("Strange", "b"), ("Broken", "c"), ("Strange", "d")])
    assert isinstance(error, UnsupportedOperatorError)
    message = str(error)
    for part in ("Relv ('a'; did you mean 'Relu'?)", "Strange ('b' and 1 more)", "Broken ('c'; its package raised"):
        assert part in message
    assert "autofusion.converters.demo" in message


def test_one_that_is_unknown() -> None:
    message = str(table().unknown([("Relv", "block/a")], "Cut it off"))
    assert message.startswith(
        "node 'block/a' is of operator 'Relv', which the demo frontend does not know; did you mean"
    )
    assert message.endswith(". Cut it off")


def test_a_broken_converter_is_not_called_unknown() -> None:
    message = str(table().extended(Added()).unknown([("Broken", "n")]))
    assert "whose converter cannot be used: its package raised RuntimeError: boom" in message
    assert "does not know" not in message and "To add one" not in message


def test_modules_are_imported_when_the_table_is_first_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "made_converters"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").touch()
    text = "from holder_of_table import TABLE\n@TABLE.converter({!r})\ndef convert(call): ...\n"
    (package / "one.py").write_text(text.format("One"))
    (package / "inner" / "two.py").write_text(text.format("Two"))
    monkeypatch.syspath_prepend(tmp_path)
    holder = types.ModuleType("holder_of_table")
    holder.TABLE = made = ConverterTable("demo", "made_converters")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "holder_of_table", holder)
    assert "made_converters" not in sys.modules
    assert made.find("Two") is not None and "One" in made.extended(None)
