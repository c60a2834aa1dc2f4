"""A service in small: see ``service.py``, which also runs for as long as one likes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from autofusion.forks import RenewedLock
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
from autofusion.runtime.plans import Turns
from autofusion_kernels_reference.evaluate import evaluate

ROOT = Path(__file__).parents[2]
needs_alarms = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms here")


class Timeout(Exception):
    pass


@pytest.mark.slow
@needs_alarms
def test_a_service_gives_the_same_bits_loses_no_exception_and_does_not_grow() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.runtime.service", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 17, done.stderr[-4000:]  # what its handler of SIGTERM exits with
    found = json.loads(done.stdout)
    assert not found["problems"]
    assert found["runs"] > 100 and found["timeouts"] > 10 and found["forks"] > 1
    assert found["memory"][-1] < 1.1 * found["memory"][0]


@needs_alarms
def test_an_alarm_within_a_reference_kernel_is_not_taken_for_its_fault() -> None:
    def stop(number: int, frame: object) -> None:
        raise Timeout

    graph = Graph("g")
    node = graph.node("NonZero", [graph.add_input("x", TensorType(np.dtype(np.float32), (8,)))])
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(20):
            with pytest.raises(Timeout):
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                while True:
                    evaluate(node, [np.ones(8, np.float32)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@needs_alarms
def test_no_lock_stays_held_when_an_alarm_ends_its_holder() -> None:
    def stop(number: int, frame: object) -> None:
        raise Timeout

    lock, turns, held = RenewedLock(), Turns(), []

    def take_both() -> None:
        with lock:
            held.append("lock")
        try:
            held.append(turns.take("key", lambda: False))
        finally:
            turns.done("key")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(100):
            with pytest.raises(Timeout):
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                while True:
                    take_both()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    held.clear()
    other = threading.Thread(target=take_both, daemon=True)
    other.start()
    other.join(20)
    assert held == ["lock", True]
