"""Options: every field is an argument, a key of settings and locks, a command-line option and a variable."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import autofusion as af
from autofusion.cli.switches import command
from autofusion.errors import OptionError
from autofusion.numerics import Numerics
from autofusion.options import SETTINGS, Options, from_environment, merge, plain, state, variable
from autofusion.plugins.lock import Lock, read, to_text
from autofusion.rules.level import Level
from autofusion.runtime.config import read_settings, write_settings

EXAMPLES: dict[str, tuple[Any, str]] = {
    "level": (Level.BASIC, "basic"),
    "threads": (3, "3"),
    "only": (frozenset({"conv", "layout"}), "conv, layout"),
    "disable": (frozenset({"conv"}), "conv"),
    "disable_sites": (frozenset({"conv1", "conv.epilogue:conv2"}), "conv1,conv.epilogue:conv2"),
    "only_sites": (frozenset({"conv1"}), "conv1"),
    "disable_kernels": (frozenset({"cpu:conv@conv1"}), "cpu:conv@conv1"),
    "priorities": ({"conv.activation": "early+5"}, "conv.activation=early+5"),
    "memory_budget": (64_000_000, "64M"),
    "numerics": (Numerics.EXACT, "exact"),
    "time_budget": (2.5, "2.5"),
}
"""Option -> a value, and how an environment variable states it."""


def test_every_option_has_an_example() -> None:
    assert [each.name for each in fields(Options)] == list(SETTINGS)
    assert set(EXAMPLES) <= set(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_option_is_known_everywhere(name: str, tmp_path: Path) -> None:
    default = getattr(Options(), name)
    value, text = EXAMPLES.get(name, (default, ""))
    assert Options.of({name: value}) == Options(**{name: value})
    # Settings files and locks say the same when read again.
    file = tmp_path / "x.toml"
    file.write_text(write_settings({name: value}))
    assert read_settings(file, []) == {name: value}
    lock = tmp_path / "x.lock"
    lock.write_text(to_text(Lock((), plain({name: value}))))
    assert state(read(lock).fusion) == {name: value}
    if text:
        assert from_environment({variable(name): text}) == {name: value}
    shown = CliRunner().invoke(command, ["--help"]).output
    assert (SETTINGS[name].flag or f"--{name.replace('_', '-')}") in shown


def test_layers() -> None:
    lock = state({"level": "basic", "threads": 2, "only": ["conv"], "disable": ["a"], "priorities": {"x": 1, "y": 1}})
    arguments = state({"level": "full", "disable": ["b"], "priorities": {"y": 2}, "threads": None})
    assert merge(lock, arguments) == {
        "level": Level.FULL,
        "threads": 2,
        "only": frozenset({"conv"}),
        "disable": frozenset({"a", "b"}),
        "priorities": {"x": 1, "y": 2},
    }


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("levle", "full", "option 'levle' is unknown; did you mean 'level'"),
        ("level", "ful", "option 'level' is 'ful', expected one of off, basic, full; did you mean 'full'"),
        ("threads", 0, "option 'threads' is 0, expected a whole number of at least 1 and at most 1024"),
        ("threads", True, "expected a whole number"),
        ("threads", "two", "expected a whole number"),
        ("disable", "conv", "option 'disable' is 'conv', expected a list of strings"),
        ("only_sites", [1], "expected a list of strings"),
        ("memory_budget", "many", "expected a number of bytes, as in 64M"),
        ("numerics", "exactt", "expected one of exact, reassociated, approximate; did you mean 'exact'"),
        ("time_budget", -1, "expected a number of seconds"),
        ("priorities", ["conv"], "expected RULE=BAND"),
        ("priorities", {"conv": "soon"}, "neither a number nor a band"),
        ("priorities", 3, "expected a table of rules and bands"),
    ],
)
def test_mistakes(name: str, value: object, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        state({name: value})


def test_mistakes_in_the_environment_name_the_variable() -> None:
    with pytest.raises(OptionError, match="environment variable AUTOFUSION_THREADS is 'x', expected a whole number"):
        from_environment({"AUTOFUSION_THREADS": "x"})


def test_the_environment_reaches_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    from autofusion.tools.demo.resnet import resnet18

    graph = resnet18()
    monkeypatch.setenv("AUTOFUSION_LEVEL", "off")
    monkeypatch.setenv("AUTOFUSION_DISABLE", "conv")
    session = af.compile(graph)
    assert session.context.options.level is Level.OFF and session.context.options.disable == {"conv"}
    assert af.compile(graph, level="basic").context.options.level is Level.BASIC
