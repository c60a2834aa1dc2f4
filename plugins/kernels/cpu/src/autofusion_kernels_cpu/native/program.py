"""What kernels hand over to be run natively, and the program that a list of them becomes.

A kernel binds to tensor views and yields `NativeStep`s; once the plan's memory exists, a `Program` turns them into one
table of int64 and runs it in one foreign call. Addresses of the caller's own arrays change with every run: the few
table slots that hold them are patched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autofusion.ir.mapped import resident
from autofusion.kernels import BufferKind, KernelError, Memory, NotFinite, TensorView
from autofusion_kernels_cpu.native.checks import Check
from autofusion_kernels_cpu.native.pool import Pool, clock_hertz

_MOST_STEPS = 4096
"""Steps of repeated runs in one foreign call."""


@dataclass(frozen=True, slots=True, eq=False)
class Ref:
    """A buffer of a step: a view's first element, or an array that the kernel owns (packed weights), plus bytes."""

    source: TensorView | np.ndarray
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class NativeStep:
    """One call of a kernel function on all threads.

    `function` is an address from the Jit; `buffers` and `params` (int64) are what the kernel's module declared, in
    that order. `barrier` makes all threads wait for each other afterwards; leave it out only if the next step
    touches nothing that another thread writes here. `workers` is how many threads, from the first, have anything
    to do (0: all): neighbours that only the first thread works on need no barrier between them.
    """

    function: int
    buffers: tuple[Ref, ...]
    params: np.ndarray
    barrier: bool = True
    name: str = ""
    workers: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class NativeKernel:
    """A bound kernel: what this pack's `bind` functions return and its `assemble` understands.

    `check` is called after each run and raises what machine code could only take note of (an index out of range).
    """

    steps: tuple[NativeStep, ...]
    check: Check | None = None


def independent(steps: Sequence[NativeStep]) -> tuple[NativeStep, ...]:
    """Steps of which none reads what another one writes: only the last ends with a barrier."""
    return tuple(replace(step, barrier=i == len(steps) - 1) for i, step in enumerate(steps))


class Program:
    """Bound kernels assembled for one memory: a `Segment`. Owns or references everything that its table points to."""

    def __init__(
        self, pool: Pool, kernels: Sequence[NativeKernel], memory: Memory, flush_denormals: bool = False
    ) -> None:
        self.steps = steps = [step for kernel in kernels for step in kernel.steps]
        # Waking the others would take longer than what they have to do. Alone, a program waits for no other one.
        alone = pool.threads == 1 or all(step.workers == 1 for step in steps)
        self._memory = memory
        self._copies: list[np.ndarray] = []
        """Of constants that are mapped from a file."""
        self.owners = np.repeat(np.arange(len(kernels)), [len(kernel.steps) for kernel in kernels])
        self.kernel_count = len(kernels)
        self.checks = [kernel.check for kernel in kernels if kernel.check is not None]
        buffers: list[int] = []
        patches: list[tuple[int, int, int]] = []
        table = np.zeros((len(steps), 4), np.int64)
        # Parameters of a step start on a cache line.
        sizes = [-(-len(step.params) // 8) * 8 for step in steps]
        self._params = np.zeros(sum(sizes) + 8, np.int64)
        start = -(self._params.ctypes.data // 8) % 8
        for row, step, size in zip(table, steps, sizes, strict=True):
            if step.params.dtype != np.int64:
                raise KernelError(f"step '{step.name}': expected params of int64, found {step.params.dtype}")
            row[0] = step.function
            row[1] = len(buffers)
            for ref in step.buffers:
                buffers.append(self._address(ref, len(buffers), memory, patches))
            self._params[start : start + len(step.params)] = step.params
            row[2] = self._params.ctypes.data + 8 * start
            row[3] = int(step.barrier)
            start += size
        _drop_idle_barriers(table, steps)
        if len(steps):
            # The caller may only go on when every thread has finished.
            table[-1, 3] = 1
        self._finish(table, np.array(buffers, np.int64), patches, Pool(1) if alone else pool, flush_denormals)

    def _finish(
        self,
        table: np.ndarray,
        buffers: np.ndarray,
        patches: list[tuple[int, int, int]],
        pool: Pool,
        flush_denormals: bool,
    ) -> None:
        """Take over the finished tables, but for the places of the buffers, which are counted in `table` so far.

        `patches` are (buffer, slot of the caller's, offset), see `_bind`.
        """
        self.pool, self._patches, self.flush_denormals = pool, patches, flush_denormals
        self._buffers = buffers if buffers.size else np.zeros(1, np.int64)
        table[:, 1] = self._buffers.ctypes.data + 8 * table[:, 1]
        self.table = table
        self._address_of_table = int(table.ctypes.data)
        self._slots = self._buffers.data
        self._last: tuple[int, ...] = ()
        self._repeated: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def _address(self, ref: Ref, position: int, memory: Memory, patches: list[tuple[int, int, int]]) -> int:
        if isinstance(ref.source, np.ndarray):
            array = resident(ref.source)
            if array is not ref.source:
                self._copies.append(array)
            return int(array.ctypes.data) + ref.offset
        view = ref.source
        if view.buffer.kind is BufferKind.EXTERNAL:
            patches.append((position, view.buffer.slot, view.offset * view.type.dtype.itemsize + ref.offset))
            return 0
        return memory.address(view) + ref.offset

    def _bind(self, external: Sequence[int]) -> None:
        addresses = tuple(external)
        if addresses != self._last:
            for position, slot, offset in self._patches:
                self._slots[position] = addresses[slot] + offset
            self._last = addresses

    def run(self, addresses: Sequence[int] = (), start: int = 0, stop: int | None = None) -> None:
        """Run the bound kernels from number `start` up to, not including, `stop` (None: to the last).

        `addresses` has the address of each of the caller's arrays, by slot.
        """
        table, address = self.table, self._address_of_table
        if start or stop is not None:
            low, high = np.searchsorted(self.owners, [start, self.kernel_count if stop is None else stop])
            table = table[low:high].copy()
            table[-1:, 3] = 1
            address = int(table.ctypes.data)
        pool = self.pool
        with pool.lock:
            self._bind(addresses)
            pool.run_locked(address, len(table), flush=self.flush_denormals)
            if self.checks:
                self._check()

    def repeat(self, addresses: np.ndarray) -> None:
        """Run all steps once for each row of `addresses`, int64 [runs, slots], in order: one foreign call for many."""
        steps, pool = len(self.table), self.pool
        with pool.lock:
            if self._repeated is None:
                # A table for each run of the call, and its buffers; only the caller's addresses differ.
                count = max(1, _MOST_STEPS // max(1, steps))
                buffers, tables = np.tile(self._buffers, (count, 1)), np.tile(self.table, (count, 1))
                moved = buffers.ctypes.data - self._buffers.ctypes.data + buffers.strides[0] * np.arange(count)
                tables[:, 1] += np.repeat(moved, steps)
                self._repeated = tables, buffers, np.array(self._patches, np.int64).reshape(-1, 3).T
            tables, buffers, (positions, slots, offsets) = self._repeated
            for first in range(0, len(addresses), len(buffers)):
                rows = addresses[first : first + len(buffers)]
                buffers[: len(rows), positions] = rows[:, slots] + offsets
                pool.run_locked(int(tables.ctypes.data), len(rows) * steps, flush=self.flush_denormals)
                if self.checks:
                    self._check()

    def _check(self) -> None:
        """Ask every kernel that has something to say, so that none of them remembers this run; raise the first."""
        raised = []
        for check in self.checks:
            try:
                check()
            except Exception as error:
                raised.append(error)
        if raised:
            raise min(raised, key=lambda error: isinstance(error, NotFinite))

    def run_timed(self, addresses: Sequence[int] = ()) -> Sequence[float]:
        """Run all steps; return the seconds of every bound kernel, as thread 0 saw them, barriers included."""
        return list(map(float, np.bincount(self.owners, self.time_steps(addresses), self.kernel_count)))

    def time_steps(self, addresses: Sequence[int] = ()) -> np.ndarray:
        """Run all steps; return the seconds of every native step."""
        times = np.zeros(len(self.table) + 1, np.int64)
        with self.pool.lock:
            self._bind(addresses)
            self.pool.run_locked(self._address_of_table, len(self.table), int(times.ctypes.data), self.flush_denormals)
            with contextlib.suppress(NotFinite):  # which takes as long
                self._check()
        return np.diff(times) / clock_hertz()


def _drop_idle_barriers(table: np.ndarray, steps: Sequence[NativeStep]) -> None:
    """Drop the barrier between two runs of steps that only the first thread works on.

    A run ends at its barrier: what stands in it without one may begin as soon as the run before it has ended, so that
    one step for several threads is enough to need the barriers on both of its sides.
    """
    idle = True
    before: np.ndarray | None = None
    for row, step in zip(table, steps, strict=True):
        idle &= step.workers == 1
        if step.barrier:
            if idle and before is not None:
                before[3] = 0
            before = row if idle else None
            idle = True
