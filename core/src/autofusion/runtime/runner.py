"""Run a plan: bind its kernels to an arena, assemble native neighbours into segments, and loop over what remains."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion.errors import KernelError
from autofusion.ir.graph import FUSED, Node
from autofusion.ir.mapped import resident
from autofusion.ir.types import TensorType, Type
from autofusion.kernels.contract import (
    BindContext,
    BoundStep,
    BufferKind,
    KernelPack,
    PythonKernel,
    TensorView,
)
from autofusion.lowering.plan import Plan, Step
from autofusion.runtime.arena import Arena

if TYPE_CHECKING:
    from autofusion.offers.guard import GuardedSegment

STAGED_BYTES = 1 << 14
"""Smaller arrays of the caller are copied: finding out where one lies takes longer than copying so few bytes."""

NODE_BYTES = 3000
"""A node with its values and types, on average."""
STEP_BYTES = 6000
"""A bound step with its views, offer and parameters, on average; long tables say themselves how long they are."""


class _Run:
    """The arrays outside the arena, their addresses, and the objects of one run."""

    __slots__ = ("addresses", "arrays", "objects")

    def __init__(self, arrays: list[np.ndarray], addresses: list[int], objects: dict[str, Any]) -> None:
        self.arrays = arrays
        self.addresses = addresses
        self.objects = objects


Watch = Callable[[int, Step, list[Any], list[Any]], None]
"""Called with a step's number, the step, and copies of its operands and results in their logical shapes."""


class PlanRunner:
    """A bound plan. Runs of plans in the same ``arena`` take turns: it holds one run's values."""

    def __init__(
        self,
        plan: Plan,
        context: BindContext | None,
        arena: Arena | None = None,
        segments: Sequence[GuardedSegment] = (),
    ) -> None:
        """Bind the steps of ``plan`` with ``context``; without one, ``segments`` are all that it runs."""
        self.plan = plan
        self.arena = arena or Arena(plan.arena_bytes)
        self._staged = [_staging(t) for t in plan.external]
        """Memory for the small ones of the caller's arrays, by slot; None for those that are used where they lie."""
        self._addresses = [0 if a is None else int(a.ctypes.data) for a in self._staged]
        self._names = [value.name for value in plan.lowered.inputs]
        self._parts: Sequence[_PythonPart | _SegmentPart] = (
            [_SegmentPart([], segment) for segment in segments] if context is None else self._bind(context)
        )
        self.nbytes = (
            NODE_BYTES * sum(map(_size, plan.lowered.nodes))
            + STEP_BYTES * len(plan.lowered_steps)
            + sum(a.nbytes for a in self._staged if a is not None)
            + sum(part.nbytes for part in self._parts)
        )
        """Estimated bytes of the plan and what is bound to it; activations are not counted."""

    def _bind(self, context: BindContext) -> list[_PythonPart | _SegmentPart]:
        parts: list[_PythonPart | _SegmentPart] = []
        group: list[tuple[Step, BoundStep]] = []

        def flush() -> None:
            if not group:
                return
            from autofusion.offers.guard import guarded

            segment = guarded(group[0][0].pack).assemble([b for _, b in group], self.arena, context.target)
            parts.append(_SegmentPart([s for s, _ in group], segment))
            group.clear()

        for step in self.plan.lowered_steps:
            own = context if step.scratch is None else replace(context, scratch=step.scratch)
            kernel = step.offer.bind(own, step.inputs, step.outputs)
            if callable(kernel):
                flush()
                parts.append(_PythonPart(step, kernel, self.arena))
                continue
            if step.results:
                raise KernelError(f"kernel '{step.kernel}' cannot make results of run-time shape for {step.node.label}")
            if group and group[0][0].pack is not step.pack:
                flush()
            group.append((step, BoundStep(step.node, kernel, step.inputs, step.outputs)))
        flush()
        return parts

    @property
    def segments(self) -> list[tuple[KernelPack, GuardedSegment]] | None:
        """The segments in order, with their packs; None if some step runs as a Python callable."""
        found = [(part.steps[0].pack, part.segment) for part in self._parts if isinstance(part, _SegmentPart)]
        return found if len(found) == len(self._parts) else None

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on the graph's inputs, in order; return its outputs. Output arrays are new at each run."""
        with self.arena.lock:
            self.arena.hold(self.plan)
            run = self._start(inputs)
            for part in self._parts:
                part.run(run)
            return self._results(run)

    @property
    def is_native(self) -> bool:
        """True if all steps run in one native call."""
        return len(self._parts) == 1 and isinstance(self._parts[0], _SegmentPart)

    def repeat(self, chunks: Iterable[np.ndarray]) -> None:
        """Run a native plan once for each row of the arrays, int64 [runs, slots]: addresses of the caller's arrays."""
        (part,) = self._parts
        assert isinstance(part, _SegmentPart)
        with self.arena.lock:
            self.arena.hold(self.plan)
            for addresses in chunks:
                part.repeat(addresses)

    def run_timed(self, inputs: Sequence[Any]) -> tuple[list[Any], list[tuple[Step, float]]]:
        """Like ``run``; also return the seconds of every step, in order."""
        times: list[tuple[Step, float]] = []
        self.plan.settle()
        with self.arena.lock:
            self.arena.hold(self.plan)
            run = self._start(inputs)
            for part in self._parts:
                times += part.run_timed(run)
            return self._results(run), times

    def run_watched(self, inputs: Sequence[Any], wanted: Collection[int], watch: Watch) -> list[Any]:
        """Like ``run``; call ``watch`` with the operands and results of the steps numbered ``wanted``, as they pass.

        The same kernels run on the same memory, so the outputs are the same to the last bit.
        """
        first = 0
        self.plan.settle()
        with self.arena.lock:
            self.arena.hold(self.plan)
            run = self._start(inputs)
            for part in self._parts:
                part.run_watched(run, self.arena, first, wanted, watch)
                first += len(part.steps)
            return self._results(run)

    def _start(self, inputs: Sequence[Any]) -> _Run:
        """The arrays of a run, with the lock held: small inputs are copied, and memory for the outputs is found."""
        objects: dict[str, Any] = {}
        arrays: list[Any] = self._staged.copy()
        addresses = self._addresses.copy()
        for name, slot, given in zip(self._names, self.plan.input_slots, inputs, strict=True):
            if slot < 0:
                objects[name] = given
            elif arrays[slot] is None:
                arrays[slot] = array = np.require(given, requirements=("C", "A"))
                addresses[slot] = array.ctypes.data
            else:
                arrays[slot][...] = given
        for slot, array in enumerate(arrays):
            if array is None:
                arrays[slot] = array = _empty(self.plan.external[slot])
                addresses[slot] = array.ctypes.data
        return _Run(arrays, addresses, objects)

    def _results(self, run: _Run) -> list[Any]:
        results: list[Any] = []
        for spec in self.plan.outputs:
            if spec.constant is not None:
                results.append(resident(spec.constant).copy())
            elif spec.slot < 0:
                results.append(run.objects[spec.result])
            else:
                array = run.arrays[spec.slot]
                results.append(array if self._staged[spec.slot] is None else array.copy())
        return results


def _staging(type_: Type) -> np.ndarray | None:
    assert isinstance(type_, TensorType)
    return _empty(type_) if type_.nbytes <= STAGED_BYTES else None


def _empty(type_: Type) -> np.ndarray:
    assert isinstance(type_, TensorType)
    try:
        return np.empty(type_.static_shape, type_.dtype)
    except (MemoryError, ValueError) as error:
        raise KernelError(f"a result is a tensor {type_}, for which there is no memory: {error}") from error


def _size(node: Node) -> int:
    return 1 + len(node.body) if node.op == FUSED else 1


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


class _SegmentPart:
    """Native steps in one call."""

    def __init__(self, steps: list[Step], segment: GuardedSegment) -> None:
        self.steps, self.segment = steps, segment
        self.nbytes = int(getattr(segment, "nbytes", 0))

    def run(self, run: _Run) -> None:
        self.segment.run(run.addresses)

    def repeat(self, addresses: np.ndarray) -> None:
        self.segment.repeat(addresses)

    def run_watched(self, run: _Run, arena: Arena, first: int, wanted: Collection[int], watch: Watch) -> None:
        done = 0
        for index, step in enumerate(self.steps):
            if first + index not in wanted:
                continue
            self.segment.run(run.addresses, done, index)
            operands = [None if v is None else arena.read(v, run.arrays) for v in step.inputs]
            self.segment.run(run.addresses, index, index + 1)
            watch(first + index, step, operands, [arena.read(v, run.arrays) for v in step.outputs])
            done = index + 1
        self.segment.run(run.addresses, done, len(self.steps))

    def run_timed(self, run: _Run) -> Iterable[tuple[Step, float]]:
        return zip(self.steps, self.segment.run_timed(run.addresses), strict=True)


class _PythonPart:
    """One step as a Python callable. Arrays over the arena are made once; those over the caller's memory at each
    run. Operands are read-only: a kernel that works in place would change what others read.
    """

    nbytes = 0

    def __init__(self, step: Step, kernel: PythonKernel, arena: Arena) -> None:
        self.step, self.steps = step, [step]
        self._kernel, self._arena = kernel, arena
        self._inputs = [self._reader(v, read_only=True) for v in step.inputs]
        self._outputs = [self._reader(v) for v in step.outputs]

    def _reader(self, view: TensorView | None, read_only: bool = False) -> Callable[[_Run], Any]:
        """What finds the array of a view in a run."""
        if view is None:
            return lambda run: None
        if view.buffer.kind is not BufferKind.EXTERNAL:
            fixed = self._arena.array(view, ())
            if read_only:
                fixed = _read_only(fixed)
            return lambda run: fixed
        slot, shape, arena = view.buffer.slot, view.shape, self._arena
        is_whole = view.is_dense and view.offset == 0

        def find(run: _Run) -> np.ndarray:
            array = run.arrays[slot]
            if not is_whole or array.shape != shape:
                array = arena.array(view, run.arrays)
            return _read_only(array) if read_only else array

        return find

    def operands(self, run: _Run) -> list[Any]:
        """The operand arrays and objects."""
        operands: list[Any] = [read(run) for read in self._inputs]
        for index, name in self.step.objects:
            operands[index] = run.objects[name]
        return operands

    def run(self, run: _Run) -> None:
        results = self._kernel(self.operands(run))
        step = self.step
        wanted = len(step.results) or len(step.outputs)
        if not isinstance(results, list | tuple) or len(results) != wanted:
            count = len(results) if isinstance(results, list | tuple) else type(results).__name__
            raise self._failure(f"returned {count} results, expected {wanted}")
        if step.results:
            run.objects.update(zip(step.results, results, strict=True))
            return
        for find, result in zip(self._outputs, results, strict=True):
            target = find(run)
            if not isinstance(result, np.ndarray) or target.shape != result.shape or target.dtype != result.dtype:
                is_array = isinstance(result, np.ndarray)
                found = f"{result.dtype}{list(result.shape)}" if is_array else type(result).__name__
                raise self._failure(f"returned {found}, expected {target.dtype}{list(target.shape)}")
            target[...] = result

    def _failure(self, what: str) -> KernelError:
        from autofusion.offers.guard import guarded

        step = self.step
        return guarded(step.pack).failure(step.offer.kernel, step.node.label, what)

    def run_timed(self, run: _Run) -> Iterable[tuple[Step, float]]:
        start = time.perf_counter()
        self.run(run)
        return [(self.step, time.perf_counter() - start)]

    def run_watched(self, run: _Run, arena: Arena, first: int, wanted: Collection[int], watch: Watch) -> None:
        if first not in wanted:
            self.run(run)
            return
        operands = self._logical(self.step.inputs, run)
        for index, name in self.step.objects:
            operands[index] = run.objects[name]
        self.run(run)
        results = [run.objects[name] for name in self.step.results] or self._logical(self.step.outputs, run)
        watch(first, self.step, operands, results)

    def _logical(self, views: Sequence[TensorView | None], run: _Run) -> list[Any]:
        return [None if view is None else self._arena.read(view, run.arrays) for view in views]
