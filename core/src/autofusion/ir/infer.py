"""Type inference: operator schemas applied along the graph.

Inferred types are merged with those that the values already have, because a frontend may know more than the schemas
(a model may state the size of a data-dependent result); a contradiction is an error that names both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from autofusion.errors import GraphError, ShapeError
from autofusion.ir.graph import FUSED, Graph, Node
from autofusion.ir.operators import control, schema
from autofusion.ir.types import Dim, OptionalType, SequenceType, Shape, TensorType, Type


def merge_types(a: Type | None, b: Type | None) -> Type | None:
    """The type that says what ``a`` and ``b`` say together; ShapeError naming both if they contradict.

    An integer wins over a symbol, a symbol over an unknown dim, and of two symbols that of ``a``.
    """
    if a is None or b is None or a == b:
        return b if a is None else a
    if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype:
        return a.with_shape(_merge_shapes(a, b))
    if isinstance(a, SequenceType) and isinstance(b, SequenceType):
        return SequenceType(_known(merge_types(a.element, b.element)))
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        return OptionalType(_known(merge_types(a.element, b.element)))
    raise ShapeError(f"types {a} and {b} contradict")


def _merge_shapes(a: TensorType, b: TensorType) -> Shape | None:
    if a.shape is None or b.shape is None:
        return b.shape if a.shape is None else a.shape
    if len(a.shape) != len(b.shape):
        raise ShapeError(f"types {a} and {b} contradict: their ranks differ")
    dims: list[Dim] = []
    for axis, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)):
        if isinstance(x, int) and isinstance(y, int) and x != y:
            raise ShapeError(f"types {a} and {b} contradict on axis {axis}")
        dims.append(x if isinstance(x, int) or y is None else y if isinstance(y, int) or x is None else x)
    return tuple(dims)


def _known(type_: Type | None) -> Type:
    assert type_ is not None
    return type_


def inferred_types(node: Node) -> Sequence[Type | None]:
    """Types of the node's results from its operands alone, as many as there are; None where nothing is known.

    Raise ShapeError (or GraphError) if the operands or attributes do not fit the operator.
    """
    if node.op == FUSED:
        types: Sequence[Type | None] = [v.type for v in node.body.outputs]
    else:
        operator = schema.find(node.op)
        if operator is None:
            return [None] * len(node.outputs)
        problem = schema.arity_problem(node, operator)
        if problem is not None:
            raise ShapeError(f"{node.label}: {problem}")
        types = operator.infer(node)
    if len(types) < len(node.outputs):
        raise GraphError(f"{node.label}: expected {len(types)} results, found {len(node.outputs)}")
    return types[: len(node.outputs)]


def infer_node(node: Node, *, bodies: bool = False, keep_bodies: bool = False) -> None:
    """Set the types of the node's results; an operator without a schema leaves them as they are.

    ``bodies=True`` first infers the bodies of fused and control-flow nodes again from the operand types. The node then
    gets new body graphs (bodies are shared between copies of a graph, and those may have other shapes), unless
    ``keep_bodies`` says that only the result types are wanted.
    """
    before = node.attrs.copy() if keep_bodies else node.attrs
    try:
        if bodies:
            infer_bodies(node)
        types = inferred_types(node)
    finally:
        node.attrs = before
    for value, inferred in zip(node.outputs, types, strict=True):
        try:
            value.type = merge_types(inferred, value.type)
        except ShapeError as error:
            raise ShapeError(
                f"{node.label}: result '{value.name}' was given as {value.type} and inferred as {inferred}: {error}"
            ) from None


def infer_graph(graph: Graph, *, bodies: bool = False) -> None:
    """Infer every node in topological order (the graph is sorted); see ``infer_node``."""
    graph.sort()
    for node in graph.nodes:
        infer_node(node, bodies=bodies)


def infer_bodies(node: Node) -> None:
    """Give the node bodies whose types follow from its operands; nothing to do for a node without bodies.

    Raise ShapeError if the body of a fused node does not fit, or any body has the wrong number of inputs.
    """
    operator = schema.find(node.op)
    if node.op != FUSED and (operator is None or not operator.subgraphs):
        return
    if node.op == FUSED:
        node.attrs["body"] = _inferred_body(node, "body", node.body, control.body_input_types(node)["body"])
        return
    for name, types in control.body_input_types(node).items():
        body = control.body_of(node, name)
        if len(body.inputs) != len(types):
            raise ShapeError(f"{node.label}: '{name}' must have {len(types)} inputs, found {len(body.inputs)}")
        # A body that does not fit these operands is one that no run takes (a branch for other sizes, a loop of no
        # trips): it stays as it is, and whoever runs it all the same gets the error.
        with contextlib.suppress(ShapeError):
            node.attrs[name] = _inferred_body(node, name, body, types)


def _inferred_body(node: Node, name: str, body: Graph, types: list[Type | None]) -> Graph:
    """A copy of ``body`` inferred for these input types. Carried values get the type that holds in every iteration."""
    if len(body.inputs) != len(types):
        raise ShapeError(f"{node.label}: '{name}' must have {len(types)} inputs, found {len(body.inputs)}")
    pairs = control.carried(node)
    while True:
        new = body.copy()
        if node.op != FUSED:
            # Symbols that the model states in a body say nothing about sizes outside, nor in other iterations.
            for value in new.values():
                value.type = control.without_symbols(value.type)
        for value, given in zip(new.inputs, types, strict=True):
            value.type = merge_types(given, value.type)
        infer_graph(new, bodies=True)
        settled = True
        for result, operand in pairs:
            general = control.common_type(types[operand], new.outputs[result].type)
            if types[operand] is not None and general != types[operand]:
                types[operand], settled = general, False
        if settled:
            return new
