"""Forks wait for what must not be torn, and children start with locks that nobody holds."""

from __future__ import annotations

import os
import threading
import time

import pytest

from autofusion import forks
from autofusion.forks import RenewedLock, forks_wait

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def child(act: object) -> int:
    """The exit code of a child that calls ``act`` and must come to its end within some seconds."""
    pid = os.fork()
    if pid == 0:
        os._exit(act() if callable(act) else 1)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


def test_a_lock_that_another_thread_holds_is_free_in_the_child() -> None:
    lock, held, done = RenewedLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    def take() -> int:
        with lock, lock:
            return 7

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        assert child(take) == 7
    finally:
        done.set()
        thread.join()


def test_a_fork_waits_for_the_others_but_not_for_itself_nor_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, torn = threading.Event(), [False]

    def work() -> None:
        with forks_wait(), forks_wait():
            torn[0] = True
            inside.set()
            time.sleep(0.2)
            torn[0] = False

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(60)
    assert child(lambda: 3 if torn[0] else 4) == 4
    thread.join()
    with forks_wait():
        assert child(lambda: child(lambda: 5)) == 5
    assert not forks._inside
    monkeypatch.setattr(forks, "PATIENCE", 0.05)
    done = threading.Event()

    def keep() -> None:
        with forks_wait():
            inside.set()
            done.wait(60)

    inside.clear()
    thread = threading.Thread(target=keep)
    thread.start()
    inside.wait(60)
    assert child(lambda: 6) == 6
    done.set()
    thread.join()
