"""A service as a script: threads, sessions, shapes, timeouts by signals, forked helpers and, at the end, SIGTERM.

    python -m tests.runtime.service [SECONDS]

Four workers run twelve sessions of six networks on thirty shapes. The main thread runs as well, under timeouts that
SIGALRM raises at any point of a run or a compilation, and forks helpers that run what they inherit. Every result is
compared with the first one of its network and shape, bit for bit. At the end the process sends itself SIGTERM, whose
handler exits. Prints a line of JSON: runs, timeouts, forks, wrong results, lost exceptions, memory at one and at all
fifths of the time.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import autofusion as af
from autofusion.ir.text import from_text

WORKERS, SESSIONS, SHAPES = 4, 12, 30
LOCK = threading.Lock()

NETWORKS = {
    "chain": """
graph @chain(%x: f32[n, 16]) -> (f32[n, 16]) {
  %h = Exp(%x) : f32[n, 16]
  %r = Relu(%h) : f32[n, 16]
  %y = Sigmoid(%r) : f32[n, 16]
  return %y
}""",
    "softmax": """
graph @softmax(%x: f32[n, 16]) -> (f32[n, 16]) {
  %h = Softmax(%x) {axis = -1} : f32[n, 16]
  %y = Sqrt(%h) : f32[n, 16]
  return %y
}""",
    "rows": """
graph @rows(%x: f32[n, 16]) -> (f32[?]) {
  %mask = Relu(%x) : f32[n, 16]
  %where = NonZero(%mask) : i64[2, ?]
  %0 = constant dense<0> : i64[]
  %rows = Gather(%where, %0) {axis = 0} : i64[?]
  %y = Cast(%rows) {to = f32} : f32[?]
  return %y
}""",
}


class Timeout(Exception):
    """Raised by the alarm."""


class Service:
    """Sessions, what they gave first, and what went wrong."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        kinds = list(NETWORKS) * 2
        threads = [1, 1, 1, 2, 2, 2]
        self.makers = [(kinds[i % 6], threads[i % 6]) for i in range(SESSIONS)]
        self.sessions = [self.compiled(number) for number in range(SESSIONS)]
        self.expected: dict[tuple[str, int], np.ndarray] = {}
        self.counts = dict.fromkeys(("runs", "timeouts", "forks", "compiled"), 0)
        self.problems: list[str] = []
        for number in range(SESSIONS):  # what is imported and compiled at the first run counts for nobody
            self.run(number, 1)
        self.end = time.monotonic() + seconds
        self.memory: list[int] = []

    def compiled(self, number: int) -> af.Session:
        kind, threads = self.makers[number]
        return af.compile(from_text(NETWORKS[kind]), threads=threads, plan_limit=20)

    def feeds(self, rows: int) -> dict[str, np.ndarray]:
        return {"x": np.random.default_rng(rows).standard_normal((rows, 16)).astype(np.float32)}

    def run(self, number: int, rows: int) -> None:
        """Run a session and compare."""
        (got,) = self.sessions[number].run(self.feeds(rows)).values()
        key = (self.makers[number][0], rows)
        with LOCK:
            self.counts["runs"] += 1
            expected = self.expected.setdefault(key, got)
        if not np.array_equal(got, expected):
            self.problems.append(f"session {number} ({key}) gave another result")

    def work(self, seed: int) -> None:
        """A worker: any session, any shape, until the end."""
        chosen = random.Random(seed)
        try:
            while time.monotonic() < self.end:
                self.run(chosen.randrange(SESSIONS), 1 + chosen.randrange(SHAPES))
        except BaseException as error:
            self.problems.append(f"a worker ended with {type(error).__name__}: {error}")

    def under_alarm(self, chosen: random.Random) -> None:
        """Runs and compilations of the main thread, one of which the alarm ends: it must arrive."""
        done = False
        signal.setitimer(signal.ITIMER_REAL, chosen.uniform(0.0005, 0.05))
        try:
            for _ in itertools.count():
                self.run(chosen.randrange(SESSIONS), 1 + chosen.randrange(SHAPES))
                if chosen.random() < 0.1:
                    number = chosen.randrange(SESSIONS)
                    self.sessions[number] = self.compiled(number)
                    self.counts["compiled"] += 1
                if time.monotonic() > self.end + 20:
                    done = True
                    break
        except Timeout:
            self.counts["timeouts"] += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if done:
            self.problems.append("an alarm was lost")

    def fork(self, chosen: random.Random) -> None:
        """A helper that runs what it inherits and compiles; it must come to its end."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                self.problems.clear()
                self.sessions[0] = self.compiled(0)
                for _ in range(3):
                    self.run(chosen.randrange(SESSIONS), 1 + chosen.randrange(SHAPES))
                code = 3 if self.problems else 0
            finally:
                os._exit(code)
        deadline = time.monotonic() + 60
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self.problems.append("a helper hangs")
                return
            time.sleep(0.005)
        if os.waitstatus_to_exitcode(status) != 0:
            self.problems.append(f"a helper ended with {os.waitstatus_to_exitcode(status)}")
        self.counts["forks"] += 1

    def main(self) -> None:
        """All of it, for the time that was asked for."""
        workers = [threading.Thread(target=self.work, args=(seed,)) for seed in range(WORKERS)]
        for worker in workers:
            worker.start()
        chosen = random.Random(99)
        fifths = [self.end - self.seconds * (4 - i) / 5 for i in range(5)]
        while time.monotonic() < self.end:
            for _ in range(20):
                self.under_alarm(chosen)
            self.fork(chosen)
            if fifths and time.monotonic() > fifths[0]:
                fifths.pop(0)
                gc.collect()
                self.memory.append(resident())
        for worker in workers:
            worker.join()
        if any(session.statistics().quarantined for session in self.sessions):
            self.problems.append("a kernel was put aside")

    def report(self) -> dict[str, Any]:
        """What is printed."""
        return {**self.counts, "problems": self.problems[:20], "memory": self.memory}


def resident() -> int:
    """Kilobytes of this process's memory."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))


def _alarm(number: int, frame: object) -> None:
    raise Timeout


def _term(number: int, frame: object) -> None:
    sys.exit(17)


def main(seconds: float) -> None:
    """Run the service, print the report, and end by SIGTERM in the middle of a run: exit code 17."""
    faulthandler.dump_traceback_later(seconds + 120, exit=True)  # whatever hangs is to be seen
    signal.signal(signal.SIGALRM, _alarm)
    signal.signal(signal.SIGTERM, _term)
    service = Service(seconds)
    service.main()
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(service.report()), flush=True)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    for number in itertools.cycle(range(SESSIONS)):
        service.run(number, 1 + number)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0)
