"""Jobs in child processes: whatever happens there, the parent goes on and knows what it was."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from autofusion.tools.child import Ended, run_job


def run(do: str, timeout: float = 30.0) -> Ended:
    root = str(Path(__file__).parents[3])
    environ = {"PYTHONPATH": os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)}
    return run_job("core.tests.tools.child_jobs:work", {"do": do, "x": [1, 2]}, timeout=timeout, environ=environ)


def test_a_result() -> None:
    ended = run("return")
    assert (ended.status, ended.result) == ("ok", {"given": [1, 2], "infinite": float("inf")})


def test_errors() -> None:
    ended = run("raise")
    assert (ended.status, ended.error, ended.detail) == ("error", "ValueError", "ValueError: no such thing")
    assert ended.result == {"half": True} and "Traceback" in ended.log
    ended = run("refuse")
    assert (ended.error, ended.detail, ended.log) == ("OptionError", "not like that", "")


@pytest.mark.parametrize(("do", "how"), [("crash", "died of SIGSEGV"), ("exit", "ended with code 7")])
def test_the_process_dies(do: str, how: str) -> None:
    ended = run(do)
    assert ended.status == "crash" and how in ended.detail
    assert ended.doing == f"doing {do}" and ended.result == {"half": True}


def test_a_hang_ends_with_all_that_it_started() -> None:
    start = time.monotonic()
    ended = run("hang", timeout=3.0)
    assert ended.status == "hang" and "nothing happened for 3 s" in ended.detail
    assert time.monotonic() - start < 20
    pid = int(ended.doing.removeprefix("started "))
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
            break
        time.sleep(0.1)
    else:
        pytest.fail("the process that the job started is still there")


def test_progress_counts_not_length() -> None:
    assert run("be slow", timeout=2.0).result == "done"
