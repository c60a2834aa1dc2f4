"""Control flow: If, Loop, Scan and SequenceMap, whose meaning is in body graphs.

Bodies see nothing of the graph around them: what they capture is an operand. The attribute ``captures`` counts those
trailing operands, and they are the trailing inputs of every body of the node:

- ``If(cond, *captures)``: both branches take the captures and give the results.
- ``Loop(trips?, cond?, *carried, *captures)``: the body takes (iteration, cond, *carried, *captures) and gives (cond,
  *carried, *scan results).
- ``Scan(*states, *sequences, *captures)``: the body takes (*states, *slices, *captures) and gives (*states, *slices).
- ``SequenceMap(sequence, *others, *captures)``: the body takes one element of each and gives one of each result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import FUSED, Graph, Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, attribute, register
from autofusion.ir.types import Dim, OptionalType, SequenceType, TensorType, Type

_SCALAR_BOOL = TensorType(BOOL, ())
_SCALAR_I64 = TensorType(I64, ())


def body_of(node: Node, name: str) -> Graph:
    """Body graph ``name`` of a control-flow node; ShapeError if the attribute is something else."""
    body = attribute(node, name)
    if not isinstance(body, Graph):
        shapes.fail(node, f"'{name}' must be a graph, found {type(body).__name__}")
    return body


def captures(node: Node) -> int:
    """Number of trailing operands that the bodies capture."""
    return int(attribute(node, "captures"))


def common_type(a: Type | None, b: Type | None) -> Type | None:
    """The most certain type that holds both ``a`` and ``b``; None if there is none."""
    if a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype:
        return TensorType(a.dtype, shapes.common(a.shape, b.shape))
    if isinstance(a, SequenceType) and isinstance(b, SequenceType):
        element = common_type(a.element, b.element)
        return None if element is None else SequenceType(element)
    return None


def body_input_types(node: Node) -> dict[str, list[Type | None]]:
    """Types of the inputs of every body of the node, as its operands give them (by attribute name).

    Carried values and states get the type of their initial value; see ``carried``.
    """
    operands = [None if v is None else v.type for v in node.inputs]
    split = len(operands) - captures(node) if node.op != FUSED else 0
    captured = operands[split:]
    if node.op == FUSED:
        return {"body": operands}
    if node.op == "If":
        return {"then_branch": captured, "else_branch": captured}
    if node.op == "Loop":
        return {"body": [_SCALAR_I64, _SCALAR_BOOL, *operands[2:split], *captured]}
    if node.op == "Scan":
        states = split - attribute(node, "num_scan_inputs")
        slices = [_slice_type(node, states, i) for i in range(split - states)]
        return {"body": [*operands[:states], *slices, *captured]}
    elements = [t.element if isinstance(t, SequenceType) else t for t in operands[:split]]
    return {"body": [*elements, *captured]}


def carried(node: Node) -> list[tuple[int, int]]:
    """(body output, body input) pairs that hand a value to the next iteration."""
    explicit = len(node.inputs) - (captures(node) if node.op in ("Loop", "Scan") else 0)
    if node.op == "Loop":
        return [(0, 1), *((1 + i, 2 + i) for i in range(explicit - 2))]
    if node.op == "Scan":
        return [(i, i) for i in range(explicit - attribute(node, "num_scan_inputs"))]
    return []


def without_symbols(type_: Type | None, keep: Collection[str] = ()) -> Type | None:
    """The type with every symbol that is not in ``keep`` replaced by an unknown dim."""
    if isinstance(type_, TensorType) and type_.shape is not None:
        return type_.with_shape(tuple(None if isinstance(d, str) and d not in keep else d for d in type_.shape))
    if isinstance(type_, SequenceType | OptionalType):
        element = without_symbols(type_.element, keep)
        assert element is not None
        return type(type_)(element)
    return type_


def _symbols(type_: Type | None) -> set[str]:
    if isinstance(type_, TensorType):
        return {d for d in type_.shape or () if isinstance(d, str)}
    return set() if type_ is None else _symbols(type_.element)


def _body_outputs(node: Node, name: str, expected: int) -> list[Type | None]:
    """Types of the body's outputs. Symbols of its own mean nothing outside: two iterations may differ in them."""
    body = body_of(node, name)
    if len(body.outputs) != expected:
        shapes.fail(node, f"'{name}' must have {expected} outputs, found {len(body.outputs)}")
    outer = {s for v in node.inputs if v is not None for s in _symbols(v.type)}
    return [without_symbols(v.type, outer) for v in body.outputs]


def _infer_if(node: Node) -> Sequence[Type | None]:
    then, other = (_body_outputs(node, name, len(node.outputs)) for name in ("then_branch", "else_branch"))
    for index, (a, b) in enumerate(zip(then, other, strict=True)):
        if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype != b.dtype:
            shapes.fail(node, f"output {index} must have one element type in both branches, found {a} and {b}")
    return [common_type(a, b) for a, b in zip(then, other, strict=True)]


def _infer_loop(node: Node) -> Sequence[Type | None]:
    count = len(node.inputs) - 2 - captures(node)
    types = _body_outputs(node, "body", 1 + len(node.outputs))[1:]
    initial = [None if v is None else v.type for v in node.inputs[2 : 2 + count]]
    # After no iteration at all the result is the initial value.
    results = [common_type(a, b) for a, b in zip(initial, types[:count], strict=True)]
    return [*results, *(_stacked(node, t, None, 0) for t in types[count:])]


def _infer_scan(node: Node) -> Sequence[Type | None]:
    explicit = len(node.inputs) - captures(node)
    states = explicit - attribute(node, "num_scan_inputs")
    if states < 0:
        shapes.fail(node, f"'num_scan_inputs' must be at most {explicit}, the number of operands")
    types = _body_outputs(node, "body", len(node.outputs))
    axes = attribute(node, "scan_output_axes") or [0] * (len(types) - states)
    length = _scan_length(node, states, explicit)
    return [*types[:states], *(_stacked(node, t, length, axes[i]) for i, t in enumerate(types[states:]))]


def _infer_sequence_map(node: Node) -> Sequence[Type | None]:
    types = _body_outputs(node, "body", len(node.outputs))
    return [None if t is None else SequenceType(t) for t in types]


def _scan_axis(node: Node, index: int, rank: int) -> int:
    axes = attribute(node, "scan_input_axes") or ()
    return shapes.axis_of(node, axes[index] if index < len(axes) else 0, rank)


def _slice_type(node: Node, states: int, index: int) -> Type | None:
    whole = shapes.tensor(node, states + index)
    if whole is None or whole.shape is None:
        return whole
    axis = _scan_axis(node, index, len(whole.shape))
    return whole.with_shape(whole.shape[:axis] + whole.shape[axis + 1 :])


def _scan_length(node: Node, states: int, explicit: int) -> Dim:
    length: Dim = None
    for index in range(explicit - states):
        dims = shapes.shape(node, states + index)
        if dims is not None:
            own = dims[_scan_axis(node, index, len(dims))]
            length = shapes.agree(node, length, own, "the lengths of the scanned operands")
    return length


def _stacked(node: Node, element: Type | None, length: Dim, axis: int) -> Type | None:
    if not isinstance(element, TensorType) or element.shape is None:
        return element
    axis = shapes.axis_of(node, axis, len(element.shape) + 1)
    return element.with_shape((*element.shape[:axis], length, *element.shape[axis:]))


def _register() -> None:
    opaque = OpClass.OPAQUE
    branches = ("then_branch", "else_branch")
    for operator in (
        Operator(
            "If",
            opaque,
            _infer_if,
            1,
            None,
            outputs=1,
            max_outputs=None,
            attributes={"captures": 0, **dict.fromkeys(branches, REQUIRED)},
            subgraphs=branches,
        ),
        Operator(
            "Loop",
            opaque,
            _infer_loop,
            2,
            None,
            outputs=1,
            max_outputs=None,
            attributes={"captures": 0, "body": REQUIRED},
            subgraphs=("body",),
        ),
        Operator(
            "Scan",
            opaque,
            _infer_scan,
            1,
            None,
            outputs=1,
            max_outputs=None,
            attributes={
                "body": REQUIRED,
                "captures": 0,
                "num_scan_inputs": REQUIRED,
                "scan_input_axes": None,
                "scan_input_directions": None,
                "scan_output_axes": None,
                "scan_output_directions": None,
            },
            subgraphs=("body",),
        ),
        Operator(
            "SequenceMap",
            opaque,
            _infer_sequence_map,
            1,
            None,
            outputs=1,
            max_outputs=None,
            attributes={"captures": 0, "body": REQUIRED},
            subgraphs=("body",),
        ),
    ):
        register(operator)


_register()
