"""Worker threads that run step tables: one pool for each number of threads, shared by all programs of the process, and
one for each program that runs on its caller's thread alone: such programs do not wait for each other.

Workers are Python threads inside one foreign call that never returns to Python until the pool closes, so they hold no
interpreter lock. They start at the first run, and again in a child process after a fork, where the parent's do not
exist.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np

from autofusion.kernels import OptionError, renew_after_fork
from autofusion_kernels_cpu.native import context

# About 50 us of spinning: longer than the gap between two runs in a loop, shorter than a scheduler's time slice.
_STEPS, _STEP_COUNT, _TIMES, _FLUSH = (
    each // 8 for each in (context.STEPS, context.STEP_COUNT, context.TIMES, context.FLUSH)
)
_SPINS = 4000 if platform.machine().lower() in ("aarch64", "arm64") else 1000
USES_FUTEX = sys.platform == "linux"
"""How threads sleep; see `interpreter`."""
# Pools with live workers. Strong references: the workers sleep on the pool's memory, so it must not go before they do.
_running: set[Pool] = set()


def _portable_sleep() -> tuple[int, int]:
    """Address of a C function void(i32), and its argument, that yields the processor for a moment."""
    if sys.platform == "win32":
        # Sleep(0) yields to any ready thread; 1 would be up to 15 ms.
        return ctypes.cast(ctypes.WinDLL("kernel32").Sleep, ctypes.c_void_p).value or 0, 0
    return ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value or 0, 50


class Pool:
    """`threads - 1` workers and the calling thread. Runs are serialised by a lock, so any Python thread may call.

    A pool that has run lives until `close` or the end of the process; `pool(threads)` gives the shared one.
    """

    def __init__(self, threads: int, futex: bool | None = None) -> None:
        if threads < 1:
            raise OptionError(f"option 'threads': expected at least 1, found {threads}")
        self.threads = threads
        self._futex = USES_FUTEX if futex is None else futex
        self._workers: list[threading.Thread] = []
        self._started = False
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """Start anew: in a child process neither the workers exist, nor the thread that may have held the lock."""
        self._lock = threading.Lock()
        self._forget()

    def _context(self) -> None:
        self._memory = np.zeros(context.CONTEXT_BYTES + 64, np.uint8)
        start = -self._memory.ctypes.data % 64
        self._words = self._memory[start : start + context.CONTEXT_BYTES].view(np.int64)
        self._address = self._memory.ctypes.data + start
        self._set(context.THREADS, self.threads)
        self._set(context.IDLE_SPINS, _SPINS)
        self._set(context.BARRIER_SPINS, _SPINS)
        if not self._futex:
            function, argument = _portable_sleep()
            self._set(context.SLEEP_FUNCTION, function)
            self._set(context.SLEEP_ARGUMENT, argument)

    def _set(self, offset: int, value: int) -> None:
        self._words[offset // 8] = value

    def _start(self) -> None:
        self._run, self._release, worker = _functions(self._futex)
        for number in range(1, self.threads):
            thread = threading.Thread(
                target=worker, args=(self._address, number), name=f"autofusion-{number}", daemon=True
            )
            thread.start()
            self._workers.append(thread)
        self._started = True
        if self._workers:
            _running.add(self)

    @property
    def lock(self) -> threading.Lock:
        """Held during a run; a program patches its tables under it."""
        return self._lock

    def run_locked(self, steps: int, count: int, times: int = 0, flush: bool = False) -> None:
        """Run a table, int64 [count, 4] at the address ``steps``, with the lock held; `flush` takes denormals for zero.

        `times`, the address of int64 [count + 1] or 0, receives the clock at the start and after each step.
        """
        if not count:
            return
        if not self._started:
            self._start()
        words = self._words
        words[_STEPS] = steps
        words[_STEP_COUNT] = count
        words[_TIMES] = times
        words[_FLUSH] = flush
        self._run(self._address)

    def close(self) -> None:
        """Stop and join the workers; a later run starts new ones."""
        with self._lock:
            if self._workers:
                self._set(context.STOP, 1)
                self._release(self._address)
                for thread in self._workers:
                    thread.join()
            self._forget()

    def _forget(self) -> None:
        self._workers, self._started = [], False
        _running.discard(self)
        self._context()


_provided: dict[str, int] = {}
"""Addresses of the interpreter's functions, if its code came from a file."""


def provide(functions: Mapping[str, int]) -> None:
    """Use these `run`, `release`, `worker` and `clock` of an interpreter that sleeps as `USES_FUTEX` says."""
    _provided.update(functions)


def _interpreter(futex: bool) -> Mapping[str, int]:
    if _provided and futex == USES_FUTEX:
        return _provided
    from autofusion_kernels_cpu.codegen.isa import host_isa
    from autofusion_kernels_cpu.native.interpreter import InterpreterModule
    from autofusion_kernels_cpu.native.jit import jit

    return jit().load(InterpreterModule(host_isa(), futex))


@functools.cache
def _functions(futex: bool) -> tuple[Callable[..., None], ...]:
    """`run`, `release` and `worker` of the context. The interpreter lock of Python is released around a call."""
    address = _interpreter(futex)
    one = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    two = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    return one(address["run"]), one(address["release"]), two(address["worker"])


@functools.cache
def pool(threads: int) -> Pool:
    """The pool of this process with that many threads."""
    return Pool(threads)


@functools.cache
def clock_hertz() -> float:
    """Ticks a second of the clock that `times` are in."""
    read = ctypes.CFUNCTYPE(ctypes.c_int64)(_interpreter(USES_FUTEX)["clock"])
    wall, ticks = time.perf_counter(), read()
    time.sleep(0.02)
    return float(read() - ticks) / (time.perf_counter() - wall)


@atexit.register
def _close_all() -> None:
    for each in list(_running):
        each.close()
