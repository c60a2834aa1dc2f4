"""Give a specialised graph other sizes in place: the same nodes, inferred again, and the same constants, folded again.

That is possible as long as nothing but sizes changes: what was folded can be folded, the same branch of every If is
taken, and a dim of 0 or 1 (which is empty, or broadcasts) stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.ir import operators
from autofusion.ir.graph import Graph, Node, Value, read_only
from autofusion.ir.infer import merge_types
from autofusion.ir.operators import OpClass
from autofusion.ir.types import TensorType, Type

Evaluate = Callable[[Node, Sequence[np.ndarray | None]], Sequence[np.ndarray]]
"""Runs one node on constant operands (the reference kernels do)."""

FOLD_BYTES = 1 << 24
"""A constant result larger than this, and larger than what it is made from, is computed at run time instead."""


KNOWN = 4096
"""Inferred types that are kept for other sizes to come."""


class OtherStructure(AutofusionError):
    """With these sizes the specialised graph is another one; the message says where."""


def may_fold(node: Node) -> bool:
    """True if the results of ``node`` are known when it is specialised, unless they are too large."""
    operator = operators.find(node.op)
    if operator is None or not operator.deterministic or operator.subgraphs:
        return False
    if node.op in ("Shape", "Size"):
        return True
    given = [v for v in node.inputs if v is not None]
    if not given or any(v.const is None for v in given):
        return False
    return all(isinstance(v.type, TensorType) for v in node.outputs)


def shape_of(node: Node) -> list[np.ndarray] | None:
    """The result of a Shape or a Size if the dims that it tells are known."""
    operand = node.inputs[0]
    if operand is None or operand.shape is None:
        return None
    dims = operand.shape
    if node.op == "Shape":
        rank = len(dims)
        low, high = _clamp(node.attr("start", 0), rank), _clamp(node.attr("end", rank), rank)
        dims = dims[low : max(low, high)]
    if not all(isinstance(d, int) for d in dims):
        return None
    data = np.array(dims, np.int64)
    return [data if node.op == "Shape" else np.array(np.prod(data), np.int64)]


def _clamp(axis: int, rank: int) -> int:
    return min(max(axis + rank if axis < 0 else axis, 0), rank)


def same_but_for_sizes(before: Type | None, after: Type | None) -> bool:
    """True if the types differ in dims above 1 only."""
    if before is after:
        return True
    if not isinstance(before, TensorType) or not isinstance(after, TensorType) or before.dtype != after.dtype:
        return before == after
    old, new = before.shape, after.shape
    if old == new:
        return True
    if old is None or new is None or len(old) != len(new):
        return False
    for a, b in zip(old, new, strict=True):
        if a != b and not (isinstance(a, int) and isinstance(b, int) and a > 1 and b > 1):
            return False
    return True


@dataclass(slots=True, eq=False)
class _Step:
    """A node as it was when its turn came: its operands then, and what was known of its results before."""

    node: Node
    infer: Callable[[Node], Sequence[Type | None]]
    stated: list[tuple[Type, tuple[tuple[int, int], ...]] | None]
    """Types of the results that were known before, each with its sizes (axis, size); None where none was."""
    constants: list[tuple[int, Value]] | None
    """(number of the result, constant that takes its place) if it was folded."""
    kind: int
    """Equal for nodes whose results follow from the operands' types in the same way; 0 if more is looked at."""


class Trace:
    """How a graph was specialised: every node that depends on sizes, in order."""

    def __init__(self) -> None:
        self.problem = ""
        """Why it cannot be done again in place, if it cannot."""
        self._inputs: list[Value] = []
        self._varying: set[Value] = set()
        self._steps: list[_Step | tuple[Value, bool]] = []
        self._budget = 0
        self._kinds: dict[tuple[str, str], int] = {}
        self._known: dict[tuple[object, ...], Sequence[Type | None]] = {}
        """What was inferred for a kind of node and types of operands."""

    def start(self, inputs: Sequence[Value], budget: int) -> None:
        """Before the first node: inputs with the types that the model states, and the bytes that folding may make."""
        self._inputs, self._budget = list(inputs), budget
        self._varying = {v for v in inputs if not (isinstance(v.type, TensorType) and v.type.is_static)}

    def note(
        self,
        node: Node,
        stated: list[Type | None],
        constants: list[tuple[int, Value]] | None,
        *,
        unfolded: bool = False,
    ) -> None:
        """Take down a node that has been inferred, with what was known of its results before, and folded or not
        (``unfolded``: whatever its sizes are).
        """
        if self.problem or self._varying.isdisjoint(node.inputs):
            return
        operator = operators.find(node.op)
        if operator is None or any(isinstance(a, Graph) for a in node.attrs.values()):
            self.problem = f"{node.label} has no schema or has a body"
        elif constants is None and not unfolded and may_fold(node):
            self.problem = f"{node.label} is not folded for its size"
        else:
            # A node of its own with the operands of now: the graph's node may be pruned, or get others.
            own = Node(node.graph, node.op, node.attrs, node.name, node.origin)  # type: ignore[arg-type]
            own.inputs, own.outputs = list(node.inputs), list(node.outputs)
            known = [None if t is None else (t, _sizes(t)) for t in stated]
            kind = 0
            if operator.op_class in (OpClass.POINTWISE, OpClass.CONTRACTION):
                kind = self._kinds.setdefault((node.op, repr(sorted(node.attrs.items()))), len(self._kinds) + 1)
            self._steps.append(_Step(own, operator.infer, known, constants, kind))
            self._varying.update(node.outputs)
            self._varying.update(constant for _, constant in constants or ())

    def note_branch(self, condition: Value) -> None:
        """Take down that an If was replaced by the branch that its condition chose."""
        if condition in self._varying and condition.const is not None:
            self._steps.append((condition, bool(np.all(condition.const))))

    @property
    def varying(self) -> set[Value]:
        """The values, constants among them, that depend on the sizes of the inputs."""
        return self._varying

    def retype(self, input_types: Mapping[str, Type], evaluate: Evaluate) -> None:
        """Give the graph the sizes that follow from ``input_types``, in place.

        Raises OtherStructure where more than sizes would change, or ShapeError where the types do not fit; the graph is
        then in between, and good for nothing but another call.
        """
        for value in self._inputs:
            wanted = input_types.get(value.name, value.type)
            if not same_but_for_sizes(value.type, wanted):
                raise OtherStructure(f"input '{value.name}' has other dims of 0 or 1")
            value.type = wanted
        left, known = self._budget, self._known
        if len(known) > KNOWN:
            known.clear()
        for step in self._steps:
            if not isinstance(step, _Step):
                condition, taken = step
                if condition.const is None or bool(np.all(condition.const)) != taken:
                    raise OtherStructure(f"'{condition.name}' chooses another branch")
                continue
            node = step.node
            if step.kind:
                given = (step.kind, *[None if v is None else v.type for v in node.inputs])
                types = known.get(given)
                if types is None:
                    types = known[given] = step.infer(node)
            else:
                types = step.infer(node)
            for value, new, stated in zip(node.outputs, types, step.stated, strict=False):
                if stated is not None:
                    new = _merged(new, *stated)
                if not same_but_for_sizes(value.type, new):
                    raise OtherStructure(f"results of {node.label} have other dims of 0 or 1")
                value.type = new
            if step.constants is not None:
                left -= self._fold(step, left, evaluate)

    def _fold(self, step: _Step, left: int, evaluate: Evaluate) -> int:
        """Compute the constants of a folded node again; the bytes that they have."""
        node, constants = step.node, step.constants
        assert constants is not None
        data: Sequence[np.ndarray] | None = None
        if node.op in ("Shape", "Size"):
            data = shape_of(node)
        elif sum(v.type.nbytes for v in node.outputs if isinstance(v.type, TensorType)) <= min(FOLD_BYTES, left):
            data = evaluate(node, [None if v is None else v.const for v in node.inputs])
        if data is None:
            raise OtherStructure(f"{node.label} is not folded")
        for index, constant in constants:
            array = constant.const = read_only(data[index])
            constant.type = TensorType(array.dtype, array.shape)
        return sum(array.nbytes for array in data)


def _sizes(stated: Type) -> tuple[tuple[int, int], ...]:
    shape = stated.shape if isinstance(stated, TensorType) else None
    return tuple([(axis, dim) for axis, dim in enumerate(shape or ()) if isinstance(dim, int)])


def _merged(inferred: Type | None, stated: Type, sizes: Sequence[tuple[int, int]]) -> Type | None:
    """As ``merge_types``, at once where the inferred type says everything."""
    if isinstance(inferred, TensorType) and inferred.is_static and isinstance(stated, TensorType):
        shape = inferred.static_shape
        same_rank = stated.shape is None or len(stated.shape) == len(shape)
        if same_rank and inferred.dtype == stated.dtype and all(shape[axis] == size for axis, size in sizes):
            return inferred
    return merge_types(inferred, stated)
