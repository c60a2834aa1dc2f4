"""What is told while something takes long: a line at a terminal, logging, and counters."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autofusion as af
from autofusion.ir.text import from_text
from autofusion.tools import status

GRAPH = """
graph @g(%x: f32[n, 8]) -> (f32[n, 8]) {
  %h = Exp(%x) : f32[n, 8]
  %y = Relu(%h) : f32[n, 8]
  return %y
}
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_is_shown_after_a_while_and_taken_away() -> None:
    stream = Terminal()
    with status.shown("compiling a model\nof two lines " + "x" * 100, stream, patience=0.0):
        while "compiling a model of two lines" not in stream.getvalue():
            time.sleep(0.01)
    text = stream.getvalue()
    assert text.endswith("\r\x1b[K") and "... (0 s)" in text
    assert max(len(part) for part in text.replace("\x1b[K", "").split("\r")) < 80


def test_nothing_is_shown_at_first_or_where_nobody_looks() -> None:
    quick, file = Terminal(), io.StringIO()
    with status.shown("quick", quick):
        pass
    with status.shown("to a file", file, patience=0.0):
        time.sleep(0.05)
    assert quick.getvalue() == file.getvalue() == ""


def test_plans_and_fallbacks_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "autofusion"):
        session = af.compile(from_text(GRAPH), threads=1)
        for rows in (3, 3, 4):
            session.run({"x": np.ones((rows, 8), np.float32)})
    told = [record.getMessage() for record in caplog.records if record.name == "autofusion.runtime"]
    assert sum("new plan of graph 'g'" in line for line in told) == 2
    found = session.statistics()
    assert (found.plans, found.hits, found.quarantined) == (2, 1, 0)


@pytest.mark.parametrize(
    ("flags", "seen", "unseen"),
    [
        ((), (), ("INFO", "DEBUG")),
        (("-v",), ("INFO autofusion.runtime: new plan",), ("DEBUG",)),
        (("-q",), (), ("INFO",)),
    ],
)
def test_the_command_line_logs_when_asked(
    tmp_path: Path, flags: tuple[str, ...], seen: tuple[str, ...], unseen: tuple[str, ...]
) -> None:
    model = tmp_path / "m.onnx"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(model))
    command = [sys.executable, "-m", "autofusion", "run", str(model), *flags]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=True)
    assert all(text in done.stderr for text in seen) and not any(text in done.stderr for text in unseen)
