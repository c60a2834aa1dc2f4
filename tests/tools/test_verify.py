"""``verify`` as a command: reports in three forms, exit codes, wrong questions, other references."""

from __future__ import annotations

import html.parser
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autofusion.errors import InputError, OptionError
from autofusion.ir.text import from_text
from autofusion.tools.bisect import bisect
from autofusion.tools.verify import verify
from tests.support.network import write
from tests.zoo import zoo

Faults = Callable[..., dict[str, str]]


def command(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autofusion", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class _Tags(html.parser.HTMLParser):
    """What a page refers to, and whether its tags are closed."""

    OPTIONAL = frozenset({"p", "td", "th", "tr", "meta", "link", "input", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [v for k, v in attrs if k in ("src", "href") and v]
        if tag not in self.OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.OPTIONAL:
            assert self.open.pop() == tag


def test_reports(blocks_model: Path, faults: Faults, tmp_path: Path) -> None:
    out = tmp_path / "report"
    environ = faults(one_channel="block1.conv1")
    done = command(
        environ, "verify", str(blocks_model), "--shape", "x:1,24,20,20", "--report", str(out), "--no-speed",
        "--threads", "2",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "NOT verified" in done.stdout and "faulty:conv.one_channel" in done.stdout
    assert "what does it: autofusion bisect, with the same model and options" in done.stdout
    assert (out / "report.txt").read_text() == done.stdout.split("report: ")[0]
    data = json.loads((out / "report.json").read_text())
    assert not data["ok"] and data["problems"][0]["step"] == "sites" and data["problems"][0]["where"] == "block1.conv1"
    page = (out / "report.html").read_text()
    tags = _Tags()
    tags.feed(page)
    assert not tags.open and tags.links == ["data:,"], "the page needs nothing else"
    assert not re.search(r"url\(|@import|fetch\(|https?:", page)
    assert page.count("<tr class=wrong>") >= 2 and "faulty:conv.one_channel" in page


def test_a_tolerance_may_be_stated(blocks_model: Path, faults: Faults) -> None:
    environ = faults(one_channel="block1.conv1")
    report = verify(
        blocks_model, shapes={"x": (1, 24, 20, 20)}, tolerances={"f32": 1e-3}, speed=False, environ=environ, threads=2
    )
    assert report.ok, report.problems


def test_a_crash_is_reported_with_what_was_verified_before(blocks_model: Path, faults: Faults, tmp_path: Path) -> None:
    environ = faults(crash="block2.conv1")
    done = command(environ, "verify", str(blocks_model), "--shape", "x:1,24,20,20", "--report", str(tmp_path))
    assert done.returncode == 1
    assert "running faulty:conv.crash at 'block2.conv1'" in done.stdout and "SIGSEGV" in done.stdout
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["status"] == "crash" and "Fatal Python error" in data["log"]
    assert f"{blocks_model}, level full, " in done.stdout and data["against"] == "level-off"


def test_wrong_questions_are_errors(blocks_model: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot verify against 'levl-off'.*did you mean 'level-off'"):
        verify(blocks_model, shapes={"x": (1, 24, 20, 20)}, against="levl-off")
    with pytest.raises(InputError, match="open dims"):
        verify(blocks_model)
    with pytest.raises(OptionError, match=r"'conv.activatio' is not the name of a rule"):
        verify(blocks_model, shapes={"x": (1, 24, 20, 20)}, disable=["conv.activatio"])
    with pytest.raises(OptionError, match="needs a data set"):
        verify(blocks_model, shapes={"x": (1, 24, 20, 20)}, metrics=["top1"])
    np.savez(tmp_path / "a.npz", y=np.zeros(3))
    with pytest.raises(InputError, match=r"has none of the inputs 'x'; found 'y'"):
        verify(blocks_model, data=tmp_path / "a.npz")
    with pytest.raises(InputError, match="the model has no input 'X'; did you mean 'x'\\?; it has x"):
        verify(blocks_model, shapes={"X": (1, 24, 20, 20)})
    for name, value in (("samples", 0), ("repeats", 0), ("timeout", -1.0), ("slower", 0.0)):
        with pytest.raises(OptionError, match=f"'{name}' must be"):
            verify(blocks_model, shapes={"x": (1, 24, 20, 20)}, **{name: value})
        with pytest.raises(OptionError, match=f"'{name}' must be"):
            bisect(blocks_model, shapes={"x": (1, 24, 20, 20)}, **{name: value})


def test_wrong_data_and_metrics_are_errors_not_findings(blocks_model: Path, tmp_path: Path) -> None:
    """Whoever asks the wrong question must not be told that the model is wrong."""
    right = np.ones((1, 24, 20, 20), np.float32)
    (tmp_path / "a.npz").write_bytes(b"")
    with pytest.raises(InputError, match=r"a\.npz' is no \.npz file"):
        verify(blocks_model, data=tmp_path / "a.npz", exact=False, speed=False)
    np.savez(tmp_path / "a.npz", x=right)
    np.savez(tmp_path / "b.npz", x=right[:, :3])
    with pytest.raises(InputError, match=r"sample 'b' of .* does not suit the model: input 'x' has the wrong shape"):
        verify(blocks_model, data=tmp_path, exact=False, speed=False)
    for metric, message in (
        ("top7", "unknown metric 'top7'"),
        ("characters", "needs the classes"),
        ("top1", "needs an array 'label'"),
        ("json:nothing", "cannot load 'json:nothing'"),
        ("json:dumps", r"metric 'json:dumps' failed: TypeError"),
    ):
        with pytest.raises(OptionError, match=message):
            verify(blocks_model, data=tmp_path / "a.npz", exact=False, speed=False, repeats=1, metrics=[metric])


def test_a_check_that_is_neither_a_metric_nor_a_command(blocks_model: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot run the command 'topp' \(exit code 127\); did you mean 'top"):
        bisect(blocks_model, shapes={"x": (1, 24, 20, 20)}, check="topp")


def test_nothing_to_compare_is_said(blocks_model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.full((1, 24, 20, 20), np.nan, np.float32))
    report = verify(blocks_model, data=tmp_path / "a.npz", exact=False, speed=False, repeats=1)
    assert {(p.step, p.where) for p in report.problems} == {("outputs", "y")}
    assert all("nowhere finite" in p.what for p in report.problems)


def test_made_up_inputs_that_the_model_does_not_take(tmp_path: Path) -> None:
    graph = from_text(
        """
graph @pairs(%x: f32[n, 3]) -> (y: f32[?, ?]) {
  %shape = constant dense<[5, 2]> : i64[2]
  %y = Reshape(%x, %shape)
  return %y
}
"""
    )
    model = write(graph, tmp_path / "pairs.onnx")
    with pytest.raises(InputError, match=r"made-up inputs do not suit the model .*; state others with --data"):
        verify(model, shapes={"x": (4, 3)})


@pytest.mark.parametrize("against", ["framework", "reference"])
def test_other_references(blocks_model: Path, against: str) -> None:
    report = verify(
        blocks_model, shapes={"x": (1, 24, 20, 20)}, against=against, speed=False, all_steps=True, threads=2
    )
    assert report.ok, report.problems
    assert any(not row["kind"] for row in report.data["sites"]), "ordinary steps were judged as well"


def _zoo() -> list[object]:
    cases = [(n, c) for n, m in zoo.MODELS.items() if m.group != "tensorflow" for c in range(len(m.cases))]
    return [pytest.param(n, c, marks=pytest.mark.slow, id=f"{n}-{c}") for n, c in cases]


@pytest.mark.parametrize(("name", "case"), _zoo())
def test_every_model_of_the_zoo(name: str, case: int, tmp_path: Path) -> None:
    data = tmp_path / "inputs.npz"
    np.savez(data, **zoo.inputs(name, case))
    report = verify(zoo.model_path(name), data=data, threads=2, speed=False)
    assert report.ok, "\n".join(f"{p.step} {p.where}: {p.what}" for p in report.problems)
