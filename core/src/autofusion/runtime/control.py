"""Control flow: If, Loop and Scan run their bodies through executors of their own, so bodies are fused like any graph.

Offered as a kernel pack of core's: a control-flow node is a step like any other to the rest of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from autofusion.errors import InputError, KernelError
from autofusion.ir.graph import Graph, Node
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType, Type, of_array
from autofusion.kernels.contract import BoundStep, Memory, Offer, Operand, Segment
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind
from autofusion.numerics import Numerics
from autofusion.refusal import Refusal
from autofusion.runtime.context import Body, Context
from autofusion.runtime.repeat import RUNS, Loop

if TYPE_CHECKING:
    from autofusion.runtime.executor import Executor

Run = Callable[[Sequence[Any]], Sequence[Any]]


class Runner(Protocol):
    """Runs one body."""

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The results for ``inputs``."""
        ...

    def repeat(self, inputs: Sequence[Any], loop: Loop) -> list[Any] | None:
        """All runs of ``loop``, the first on ``inputs``; None if the body has to be run one by one."""
        ...


class ControlPack:
    """Runs If, Loop and Scan."""

    name = "control"
    version = "1"
    kinds: Sequence[FusedKind] = ()
    is_reference = False
    has_time_limit = False  # a loop takes as long as it takes
    replaceable = False  # nobody else runs control flow
    blocks: Sequence[int] = ()
    launch_seconds = 20e-6

    def __init__(self, context: Context) -> None:
        self._context = context

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """One offer for a control-flow node; the pack refuses everything else."""
        if node.op not in MAKERS:
            return Refusal("it is not control flow")
        operands = tuple(None if v is None else Operand() for v in node.inputs)
        results = tuple(Operand() for _ in node.outputs)

        def bind(*_: object) -> Run:
            return MAKERS[node.op](node, self._executor)

        # Whatever runs inside keeps to the numerics asked for on its own.
        return [Offer(node.op.lower(), operands, results, bind, numerics=Numerics.EXACT)]

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """Core copies nothing itself."""
        return None

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment | None:
        """Bodies are run from Python."""
        return None

    def _executor(self, body: Graph) -> Executor:
        from autofusion.runtime.executor import Executor

        bodies = self._context.bodies
        with self._context.lock:
            if id(body) not in bodies:
                prepared, ledger = self._context.prepare(body)
                # The body is kept with its executor, so that its id stays its own.
                bodies[id(body)] = Body(body, Executor(prepared, self._context), ledger)
            return bodies[id(body)].executor


def _make_if(node: Node, executor: Callable[[Graph], Runner]) -> Run:
    then, other = executor(node.attrs["then_branch"]), executor(node.attrs["else_branch"])

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        return (then if _truth(inputs[0], node) else other).run(inputs[1:])

    return run


def _make_loop(node: Node, executor: Callable[[Graph], Runner]) -> Run:
    body: Graph = node.attrs["body"]
    captures = int(node.attrs.get("captures", 0))
    carried = len(body.inputs) - 2 - captures
    step = executor(body)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        limit = None if inputs[0] is None else int(_single(inputs[0], node, "number of iterations"))
        going = True if inputs[1] is None else _truth(inputs[1], node)
        state, outer = list(inputs[2 : 2 + carried]), list(inputs[2 + carried :])
        number, true = 0, np.array(True)
        if going and limit is not None and limit in RUNS:
            loop = Loop(limit, {0: np.arange(limit)}, {1 + i: 2 + i for i in range(carried)}, (1, 0))
            whole = step.repeat([np.array(number), true, *state, *outer], loop)
            if whole is not None:
                return whole[1:]
        scanned: list[list[np.ndarray]] = [[] for _ in range(len(body.outputs) - 1 - carried)]
        while going and (limit is None or number < limit):
            results = step.run([np.array(number, np.int64), true, *state, *outer])
            going = _truth(results[0], node)
            state = list(results[1 : 1 + carried])
            for made, result in zip(scanned, results[1 + carried :], strict=True):
                made.append(result)
            number += 1
        types = [v.type for v in body.outputs[1 + carried :]]
        if not number and not all(isinstance(t, TensorType) and t.is_static for t in types):
            types = _types(body, [np.array(0, np.int64), np.array(True), *state, *outer])[1 + carried :]
        return [*(_fresh(s) for s in state), *(_stack(m, t, node) for m, t in zip(scanned, types, strict=True))]

    return run


def _make_scan(node: Node, executor: Callable[[Graph], Runner]) -> Run:
    body: Graph = node.attrs["body"]
    captures = int(node.attrs.get("captures", 0))
    scans = int(node.attrs["num_scan_inputs"])
    states = len(node.inputs) - captures - scans
    made_count = len(body.outputs) - states
    in_axes = node.attrs.get("scan_input_axes") or [0] * scans
    in_back = node.attrs.get("scan_input_directions") or [0] * scans
    out_axes = node.attrs.get("scan_output_axes") or [0] * made_count
    out_back = node.attrs.get("scan_output_directions") or [0] * made_count
    step = executor(body)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        state, outer = list(inputs[:states]), list(inputs[states + scans :])
        rows = [np.moveaxis(x, a, 0) if a else x for x, a in zip(inputs[states : states + scans], in_axes, strict=True)]
        # In order in memory, so that no row has to be copied on its own.
        rows = [
            np.require(r[::-1] if back else r, requirements=("C", "A")) for r, back in zip(rows, in_back, strict=True)
        ]
        lengths = {len(r) for r in rows}
        if len(lengths) != 1:
            raise InputError(f"{node.label}: its scan inputs have different lengths {sorted(lengths)}")
        length = lengths.pop()
        made = None
        if length in RUNS:
            loop = Loop(length, {states + i: r for i, r in enumerate(rows)}, {i: i for i in range(states)})
            made = step.repeat([*state, *[r[0, ...] for r in rows], *outer], loop)
        if made is None:
            scanned: list[list[np.ndarray]] = [[] for _ in range(made_count)]
            for number in range(length):
                results = step.run([*state, *[r[number, ...] for r in rows], *outer])
                state = list(results[:states])
                for column, result in zip(scanned, results[states:], strict=True):
                    column.append(result)
            types = [value.type for value in body.outputs[states:]]
            stacks = [_stack(column, type_, node) for column, type_ in zip(scanned, types, strict=True)]
            made = [*map(_fresh, state), *stacks]
        stacked = [
            np.ascontiguousarray(np.moveaxis(whole[::-1] if back else whole, 0, axis)) if axis or back else whole
            for whole, axis, back in zip(made[states:], out_axes, out_back, strict=True)
        ]
        return [*made[:states], *stacked]

    return run


def _truth(value: Any, node: Node) -> bool:
    return bool(_single(value, node, "condition"))


def _single(value: Any, node: Node, what: str) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value[()]
    array = np.asarray(value)
    if array.size != 1:
        raise InputError(f"{node.label}: expected a {what} with one element, found shape {list(array.shape)}")
    return array.reshape(())[()]


def _fresh(value: Any) -> Any:
    """A carried value that may be an operand itself (no iteration ran): results are never views of operands."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _types(body: Graph, inputs: Sequence[Any]) -> list[Type | None]:
    """The types of a body's results for these inputs: an empty stack of them has their shape, though none was made."""
    copy = body.copy()
    for value, given in zip(copy.inputs, inputs, strict=True):
        if isinstance(given, np.ndarray):
            value.type = of_array(given)
    infer_graph(copy)
    return [value.type for value in copy.outputs]


def _stack(made: list[np.ndarray], type_: Any, node: Node) -> np.ndarray:
    """What the iterations made along a new first axis; raise KernelError if the shapes differ."""
    if made:
        number = next((i for i, array in enumerate(made) if array.shape != made[0].shape), None)
        if number is not None:
            raise KernelError(
                f"{node.label}: what its iterations make is stacked and must have one shape, found "
                f"{list(made[0].shape)} in iteration 0 and {list(made[number].shape)} in iteration {number}; make it "
                "the same in all iterations, or collect the parts in a sequence"
            )
        return np.stack(made)
    shape = type_.shape or () if isinstance(type_, TensorType) else ()
    dtype = type_.dtype if isinstance(type_, TensorType) else np.float32
    return np.empty((0, *(d if isinstance(d, int) else 0 for d in shape)), dtype)


MAKERS: Mapping[str, Callable[[Node, Callable[[Graph], Runner]], Run]] = {
    "If": _make_if,
    "Loop": _make_loop,
    "Scan": _make_scan,
}
"""Operator -> what makes the function that runs a node of it, given what runs its bodies."""
