"""Reports as evidence: what they were made with, JSON that any reader takes, and exit codes that tell cases apart."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofusion
from autofusion import cli
from autofusion.tools.provenance import dumps


def strict(text: str) -> Any:
    """``text`` as JSON by the standard, which has no NaN and no Infinity."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_are_not_finite() -> None:
    data = {"a": math.inf, "b": [np.float32("nan"), -math.inf], "c": np.array([1.5, np.inf]), "d": {np.int64(3)}}
    found = strict(dumps(data))
    assert found == {"a": "Infinity", "b": ["NaN", "-Infinity"], "c": [1.5, "Infinity"], "d": [3]}
    assert float(found["a"]) == math.inf


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["autofusion", *arguments])
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.parametrize(
    "arguments", [("run",), ("explain",), ("verify", "--no-speed", "--repeats", "1", "--seed", "3"), ("profile",)]
)
def test_reports_say_what_they_were_made_with(
    arguments: tuple[str, ...], blocks_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (*arguments, str(blocks_model), "--shape", "x:1,24,20,20", "--threads", "2", "--json")
    assert command(monkeypatch, *given) == 0
    data = strict(capsys.readouterr().out)
    made = data["provenance"]
    assert data["format"] == 1 and made["core"] == autofusion.__version__
    assert made["packs"]["autofusion-kernels-cpu"] and made["isa"] and made["machine"] and made["date"]
    assert len(made["model"]["sha256"]) == 64 and made["options"]["threads"] == made["threads"] == 2
    assert "--seed" not in arguments or made["seed"] == 3


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (MemoryError(), 3),
        (UnicodeEncodeError("cp1252", "x", 0, 1, "no such character"), 3),
        (OSError(errno.ENOSPC, "No space left on device", "report.json"), 3),
        (OSError(errno.ENOENT, "No such file", "x.npz"), 2),
        (autofusion.errors.OptionError("no"), 2),
    ],
)
def test_failures_of_the_tool_are_no_findings(
    raised: Exception, code: int, blocks_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **more: Any) -> None:
        raise raised

    monkeypatch.setattr("autofusion.tools.verify.verify", fail)
    assert command(monkeypatch, "verify", str(blocks_model)) == code


def test_a_finding(blocks_model: Path, faults: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in faults(dropped_residual="block1.relu2").items():
        monkeypatch.setenv(name, value)
    given = ("--shape", "x:1,24,20,20", "--no-speed", "--repeats", "1", "--json")
    assert command(monkeypatch, "verify", str(blocks_model), *given) == 1
