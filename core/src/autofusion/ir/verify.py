"""The verifier: every invariant of a graph, checked after frontends and rules so that a mistake shows where it is made.

The structure is checked first (order, uses both ways, names), then operators and attributes against their schemas, then
types against inference. Bodies of fused and control-flow nodes are graphs of their own and are verified as such.
"""

from __future__ import annotations

from collections.abc import Iterable

from autofusion.errors import GraphError, ShapeError, nearest
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.infer import inferred_types, merge_types
from autofusion.ir.operators import control, schema
from autofusion.ir.types import Type, of_array

_KINDS: tuple[tuple[type, tuple[type, ...], str], ...] = (
    (float, (float, int), "a number"),
    (int, (int,), "an integer"),
    (str, (str,), "a string"),
)


def verify(graph: Graph, *, types: bool = True) -> None:
    """Raise GraphError for the first broken invariant: it names the node, what was expected and what was found.

    ``types=False`` leaves out operators, attributes and types, and checks the structure alone.
    """
    _unique(graph.output_names, f"graph '{graph.name}': output name")
    _verify(graph, types)


def _verify(graph: Graph, types: bool) -> None:
    verify_structure(graph)
    for node in graph.nodes:
        bodies = {k: v for k, v in node.attrs.items() if isinstance(v, Graph)}
        for name, body in bodies.items():
            try:
                _verify(body, types)
            except GraphError as error:
                raise GraphError(f"in '{name}' of {node.label}: {error}") from None
        if types:
            _verify_operator(node)
            if bodies:
                _verify_bodies(node)
            _verify_types(node)


# ---- structure ---------------------------------------------------------------------------------------------


def verify_structure(graph: Graph) -> None:
    """Order, membership, uses both ways, and names; not the bodies, nor the output names (nobody sees a body's)."""
    where = f"graph '{graph.name}'"
    known: set[Value] = set()
    for value in graph.inputs:
        if value.producer is not None or value.const is not None:
            raise GraphError(f"{where}: input '{value.name}' must be no constant and have no producer")
        known.add(value)
    _unique((v.name for v in graph.inputs), f"{where}: input name")
    if len(graph.outputs) != len(graph.output_names):
        raise GraphError(f"{where} has {len(graph.outputs)} outputs, but {len(graph.output_names)} output names")
    nodes = graph.nodes
    members = set(nodes)
    constants: dict[Value, None] = {}
    for node in nodes:
        if node.graph is not graph:
            raise GraphError(f"{node.label} is listed in {where}, but belongs to {_graph_name(node)}")
        for index, operand in enumerate(node.inputs):
            if operand is None:
                continue
            if (node, index) not in operand._uses:
                raise GraphError(f"{node.label} has operand {index} '{operand.name}', which does not list that use")
            if operand.const is not None:
                constants[operand] = None
            elif operand not in known:
                raise GraphError(f"{node.label}: operand {index} {_stranger(operand, members, where)}")
        for index, value in enumerate(node.outputs):
            if value.producer is not node or value.index != index or value.const is not None:
                raise GraphError(
                    f"{node.label}: result {index} '{value.name}' must have this node as its producer and be no "
                    f"constant, found {value.producer!r} and index {value.index}"
                )
            known.add(value)
    _unique((n.name for n in nodes), f"{where}: node name")
    _unique((v.name for v in known), f"{where}: value name")
    _verify_outputs(graph, known, members, where)
    for value in (*known, *constants):
        for user, index in value._uses:
            if user not in members:
                raise GraphError(f"'{value.name}' of {where} is used by {user.label} of {_graph_name(user)}")
            if index >= len(user.inputs) or user.inputs[index] is not value:
                raise GraphError(f"'{value.name}' lists {user.label} as a user, but is not its operand {index}")


def _verify_outputs(graph: Graph, known: set[Value], members: set[Node], where: str) -> None:
    counts: dict[Value, int] = dict.fromkeys(known, 0)
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        if value not in known and value.const is None:
            raise GraphError(f"{where}: output '{name}' {_stranger(value, members, where)}")
        counts[value] = counts.get(value, 0) + 1
    for value, count in counts.items():
        if value._graph_outputs != count:
            raise GraphError(
                f"{where}: '{value.name}' says that it is {value._graph_outputs} graph outputs, found {count}"
            )


def _stranger(value: Value, members: set[Node], where: str) -> str:
    """Why a value is not known where it is used."""
    if value.producer is None:
        return f"'{value.name}' is neither a constant nor an input of {where}"
    if value.producer in members:
        return f"'{value.name}' is computed later, by {value.producer.label}; call sort()"
    return f"'{value.name}' is computed by {value.producer.label}, which is not in {where}"


def _graph_name(node: Node) -> str:
    return "no graph" if node.graph is None else f"graph '{node.graph.name}'"


def _unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphError(f"{what} '{name}' is not unique")
        seen.add(name)


# ---- operators ---------------------------------------------------------------------------------------------


def _verify_operator(node: Node) -> None:
    if node.op == FUSED:
        for name, kind in (("kind", str), ("rule", str), ("body", Graph)):
            if not isinstance(node.attrs.get(name), kind):
                raise GraphError(
                    f"{node.label}: attribute '{name}' must be a {kind.__name__}, found {node.attr(name)!r}"
                )
        return
    operator = schema.find(node.op)
    if operator is None:
        return
    problem = schema.arity_problem(node, operator)
    if problem is not None:
        raise GraphError(f"{node.label}: {problem}")
    for name, value in node.attrs.items():
        if name not in operator.attributes:
            raise GraphError(f"{node.label}: '{node.op}' has no attribute '{name}'{nearest(name, operator.attributes)}")
        expected = _wrong_kind(name, value, operator)
        if expected is not None:
            raise GraphError(f"{node.label}: attribute '{name}' must be {expected}, found {value!r}")
    for name, default in operator.attributes.items():
        if default is schema.REQUIRED and node.attrs.get(name) is None:
            raise GraphError(f"{node.label} must state attribute '{name}'")


def _wrong_kind(name: str, value: object, operator: schema.Operator) -> str | None:
    """What the attribute must be, if it is something else. Lists are left to inference, which knows their length."""
    if name in operator.subgraphs:
        return None if isinstance(value, Graph) else "a graph"
    if name in schema.DTYPE_ATTRIBUTES:
        return None if value is None or hasattr(value, "itemsize") else "an element type"
    default = operator.attributes[name]
    for kind, allowed, text in _KINDS:
        if isinstance(default, kind):
            return None if isinstance(value, allowed) else text
    return None


def _verify_bodies(node: Node) -> None:
    """Inputs and outputs of the bodies agree with the node in number, and in type where both are known."""
    operator = schema.find(node.op)
    if node.op != FUSED and (operator is None or not operator.subgraphs):
        return
    # A carried value may be more general in the body than its first value is.
    carried = {operand for _, operand in control.carried(node)}
    for name, types in control.body_input_types(node).items():
        body = control.body_of(node, name) if node.op != FUSED else node.body
        if len(body.inputs) != len(types):
            raise GraphError(f"{node.label}: '{name}' must have {len(types)} inputs, found {len(body.inputs)}")
        for index, (value, type_) in enumerate(zip(body.inputs, types, strict=True)):
            if index not in carried:
                _agree(node, f"input '{value.name}' of '{name}'", value.type, "the operand", type_)
    if node.op == FUSED:
        if len(node.body.outputs) != len(node.outputs):
            raise GraphError(
                f"{node.label}: its body must have {len(node.outputs)} outputs, found {len(node.body.outputs)}"
            )
        for value, inner in zip(node.outputs, node.body.outputs, strict=True):
            _agree(node, f"result '{value.name}'", value.type, "the output of the body", inner.type)


def _verify_types(node: Node) -> None:
    for operand in node.inputs:
        if operand is not None and operand.const is not None and operand.type != of_array(operand.const):
            raise GraphError(
                f"constant '{operand.name}' has type {operand.type}, but its data is {of_array(operand.const)}"
            )
    for value, inferred in zip(node.outputs, inferred_types(node), strict=True):
        _agree(node, f"result '{value.name}'", value.type, "inference", inferred)


def _agree(node: Node, what: str, found: Type | None, source: str, expected: Type | None) -> None:
    try:
        merge_types(expected, found)
    except ShapeError:
        raise GraphError(f"{node.label}: {what} has type {found}, but {source} says {expected}") from None
