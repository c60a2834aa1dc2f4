"""Jobs in child processes: whatever happens there, the parent goes on and knows what it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autofusion.tools.child import Ended, run_job


def run(do: str, timeout: float = 30.0) -> Ended:
    root = str(Path(__file__).parents[3])
    environ = {"PYTHONPATH": os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)}
    return run_job("core.tests.tools.child_jobs:work", {"do": do, "x": [1, 2]}, timeout=timeout, environ=environ)


def is_gone(pid: int) -> bool:
    """True once the process has ended, within some seconds."""
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or "Z" in stat.read_text().split(")")[1][:3]:
            return True
        time.sleep(0.1)
    return False


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
    assert is_gone(int(ended.doing.removeprefix("started ")))


def test_progress_counts_not_length() -> None:
    assert run("be slow", timeout=2.0).result == "done"


PARENT = """
import sys
from core.tests.tools.test_child import run
sys.stdout.write("ready\\n")
sys.stdout.flush()
run("hang", timeout=600.0)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_ends_with_the_process_that_started_it(tmp_path: Path, how: signal.Signals) -> None:
    root = Path(__file__).parents[3]
    environ = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=environ, cwd=root, stdout=subprocess.PIPE)
    pid = 0
    for _ in range(300):
        (progress, *_) = [*tmp_path.glob("autofusion-*/progress.txt"), None]
        lines = progress.read_text("utf-8").splitlines() if progress is not None else []
        if lines and lines[-1].startswith("started "):
            pid = int(lines[-1].removeprefix("started "))
            break
        time.sleep(0.1)
    assert pid, "the job did not begin"
    parent.send_signal(how)
    parent.wait()
    assert is_gone(pid)


def test_modules_of_the_current_folder_do_not_take_the_place_of_installed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "onnx", "click", "numpy", "autofusion"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the current folder')", "utf-8")
    (tmp_path / "own_metric.py").write_text("import numpy, onnx\ndef work(request, progress): return 5", "utf-8")
    monkeypatch.chdir(tmp_path)
    ended = run_job("own_metric:work", {}, timeout=60.0)
    assert (ended.status, ended.result) == ("ok", 5), ended
