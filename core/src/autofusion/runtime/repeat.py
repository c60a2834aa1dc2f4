"""Run the body of a loop many times in one native call, where its plan is native and its sizes stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion.ir.types import TensorType
from autofusion.lowering.plan import Plan

if TYPE_CHECKING:
    from autofusion.runtime.executor import Stage

RUNS = range(8, 1 << 20)
"""How many runs are worth it: a few take less from Python, and what a loop without an end would stack has no room."""
_CHUNK = 256
"""Runs whose addresses are made together."""


@dataclass(frozen=True, slots=True)
class Loop:
    """``count`` runs of a body.

    ``rows`` (input number -> array) are the inputs that change, ``row[i]`` for run ``i``, in order in memory.
    ``states`` (output number -> input number) are the outputs that are an input of the next run. ``condition`` is the
    number of an input and of an output that must be that input, or always true; all other outputs are stacked.
    """

    count: int
    rows: Mapping[int, np.ndarray]
    states: Mapping[int, int]
    condition: tuple[int, int] | None = None

    def run(self, stage: Stage, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs of all runs: of states the last ones, of the condition anything. None if the body has to be run
        from Python, step by step. ``inputs`` are those of the first run.
        """
        plan = stage.runner.plan
        if stage.tail is not None or not stage.runner.is_native or not self._fits(plan, inputs):
            return None
        columns = [(0, 0, 0)] * len(plan.external)
        """Of each slot: the address in the first run, in the second, and how far it moves every two runs."""
        held = [np.require(given, requirements=("C", "A")) for given in inputs]
        for number, (slot, array) in enumerate(zip(plan.input_slots, held, strict=True)):
            row = self.rows.get(number)
            columns[slot] = _moving(row) if row is not None else _fixed(array)
        results: list[Any] = []
        for number, spec in enumerate(plan.outputs):
            is_condition = self.condition is not None and number == self.condition[1]
            if is_condition and spec.constant is not None:
                results.append(None)
                continue
            type_ = plan.external[spec.slot]
            assert isinstance(type_, TensorType)
            if is_condition:
                results.append(np.empty(type_.static_shape, type_.dtype))
                columns[spec.slot] = _fixed(results[-1])
                continue
            source = self.states.get(number)
            if source is None:
                made = np.empty((self.count, *type_.static_shape), type_.dtype)
                columns[spec.slot] = _moving(made)
                results.append(made)
                continue
            # Written in turns: a run reads what the one before has written, the first what it was given.
            made = np.empty((2, *type_.static_shape), type_.dtype)
            columns[spec.slot] = _turns(made[0], made[1])
            columns[plan.input_slots[source]] = _turns(made[1], made[0])
            results.append(made[(self.count - 1) % 2])
        first = {plan.input_slots[source]: _address(held[source]) for source in self.states.values()}
        stage.runner.repeat(self._rows(np.array(columns, np.int64), first))
        return results

    def _fits(self, plan: Plan, inputs: Sequence[Any]) -> bool:
        if min(plan.input_slots, default=-1) < 0 or not all(isinstance(given, np.ndarray) for given in inputs):
            return False
        used = set(plan.input_slots)
        for number, spec in enumerate(plan.outputs):
            if self.condition is not None and number == self.condition[1]:
                is_true = spec.constant is not None and bool(spec.constant.all())
                if not is_true and plan.graph.outputs[number] is not plan.graph.inputs[self.condition[0]]:
                    return False
                continue
            if spec.constant is not None or spec.slot in used or spec.slot < 0:
                return False
            used.add(spec.slot)
            source = self.states.get(number)
            if source is not None and plan.external[spec.slot] != plan.external[plan.input_slots[source]]:
                return False
        return all(isinstance(type_, TensorType) and type_.dtype.kind != "O" for type_ in plan.external)

    def _rows(self, columns: np.ndarray, first: Mapping[int, int]) -> Iterator[np.ndarray]:
        """Addresses [runs, slots], some runs at a time; ``first`` (slot -> address) holds in the first run."""
        for start in range(0, self.count, _CHUNK):
            runs = np.arange(start, min(start + _CHUNK, self.count))
            rows = np.where((runs % 2)[:, None], columns[:, 1], columns[:, 0]) + (runs // 2)[:, None] * columns[:, 2]
            if start == 0:
                for slot, address in first.items():
                    rows[0, slot] = address
            yield rows


def _address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def _fixed(array: np.ndarray) -> tuple[int, int, int]:
    return _address(array), _address(array), 0


def _moving(rows: np.ndarray) -> tuple[int, int, int]:
    step = rows.strides[0]
    return _address(rows), _address(rows) + step, 2 * step


def _turns(even: np.ndarray, odd: np.ndarray) -> tuple[int, int, int]:
    return _address(even), _address(odd), 0
