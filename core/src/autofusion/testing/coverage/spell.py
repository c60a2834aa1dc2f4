"""The same graph, written otherwise: what exporters and their versions do differently, applied to any graph.

Every spelling computes what the graph computes (a reciprocal may differ in the last bit). They are made from the graph
itself, so that the sites of any pack's rules have them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.operators import OpClass, is_commutative, op_class
from autofusion.ir.types import Dim, TensorType
from autofusion.ir.verify import verify
from autofusion.testing.graphs import Named, Rebuild

_BROADCASTING = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})


def respelled(graph: Graph) -> Iterator[Named]:
    """Every spelling that changes something, by name; the graph itself is not among them."""
    for name, edit in _EDITS.items():
        copy = graph.copy()
        if sum([edit(copy, node) for node in copy.nodes]) and (made := _checked(copy)) is not None:
            yield name, made
    for name, is_open in (("open batch", _is_batch), ("open sizes", _is_size)):
        opened = _Opened(is_open).of(graph)
        if opened is not None and any(not v.tensor.is_static for v in opened.inputs):
            yield name, opened


def _checked(graph: Graph) -> Graph | None:
    try:
        graph.prune()
        graph.sort()
        infer_graph(graph)
        verify(graph)
    except AutofusionError:
        return None
    return graph


def _number(value: Value | None) -> np.ndarray | None:
    """The data of a floating-point constant with one element."""
    data = None if value is None else value.const
    return data if data is not None and data.size == 1 and data.dtype.kind == "f" else None


def _replace(graph: Graph, node: Node, op: str, *operands: Value | None) -> bool:
    new = graph.node(op, operands, name=node.name, origin=node.origin, outputs=[node.output.type])
    graph.replace_uses(node.output, new.output)
    graph.remove(node)
    return True


def _swap(graph: Graph, node: Node) -> bool:
    if not is_commutative(node.op) or len(node.inputs) != 2:
        return False
    a, b = node.inputs
    node.set_input(0, b)
    node.set_input(1, a)
    return True


def _with_numbers(shape: Callable[[int], tuple[int, ...]]) -> Callable[[Graph, Node], bool]:
    """Single numbers in another shape, which depends on the rank of the result."""

    def edit(graph: Graph, node: Node) -> bool:
        changed = False
        if node.op in _BROADCASTING and op_class(node) is OpClass.POINTWISE and node.output.shape:
            for index, value in enumerate(node.inputs):
                data, wanted = _number(value), shape(len(node.output.shape))
                if data is not None and data.shape != wanted:
                    node.set_input(index, graph.constant(data.reshape(wanted), "s"))
                    changed = True
        return changed

    return edit


def _through_identity(graph: Graph, node: Node) -> bool:
    """Constants as results of a node, as an exporter has them that writes Constant nodes."""
    changed = False
    for index, value in enumerate(node.inputs):
        if value is not None and value.const is not None and node.op in _BROADCASTING:
            made = graph.node("Identity", [value], origin=("constant",), outputs=[value.type])
            node.set_input(index, made.output)
            changed = True
    return changed


def _by_inverse(op: str, other: str, inverse: Callable[[np.ndarray], np.ndarray]) -> Callable[[Graph, Node], bool]:
    """``x op c`` as ``x other inverse(c)`` for a number c."""

    def edit(graph: Graph, node: Node) -> bool:
        if node.op != op:
            return False
        a, b = node.inputs
        if _number(b) is None and is_commutative(op):
            a, b = b, a
        data = _number(b)
        if data is None or _number(a) is not None or not np.all(np.isfinite(data)):
            return False
        with np.errstate(all="ignore"):
            turned = inverse(data.astype(np.float64)).astype(data.dtype)
        if not np.all(np.isfinite(turned)):
            return False
        return _replace(graph, node, other, a, graph.constant(turned, "inverse"))

    return edit


def _square(graph: Graph, node: Node) -> bool:
    power = _number(node.operand(1)) if node.op == "Pow" else None
    if power is None or power.item() != 2.0:
        return False
    return _replace(graph, node, "Mul", node.inputs[0], node.inputs[0])


def _power(graph: Graph, node: Node) -> bool:
    if node.op != "Mul" or node.inputs[0] is not node.inputs[1]:
        return False
    return _replace(graph, node, "Pow", node.inputs[0], graph.constant(np.asarray(2.0, np.float32), "two"))


def _expanded_relu(graph: Graph, node: Node) -> bool:
    if node.op != "Relu":
        return False
    return _replace(graph, node, "Max", node.inputs[0], graph.constant(np.asarray(0.0, np.float32), "zero"))


_EDITS: dict[str, Callable[[Graph, Node], bool]] = {
    "operands swapped": _swap,
    "numbers as [1]": _with_numbers(lambda rank: (1,)),
    "numbers of full rank": _with_numbers(lambda rank: (1,) * rank),
    "numbers as scalars": _with_numbers(lambda rank: ()),
    "constants by nodes": _through_identity,
    "Div for Mul": _by_inverse("Mul", "Div", lambda c: 1 / c),
    "Mul for Div": _by_inverse("Div", "Mul", lambda c: 1 / c),
    "Sub for Add": _by_inverse("Add", "Sub", lambda c: -c),
    "Add for Sub": _by_inverse("Sub", "Add", lambda c: -c),
    "Mul for Pow": _square,
    "Pow for Mul": _power,
    "Max for Relu": _expanded_relu,
}


class _Opened(Rebuild):
    """Inputs whose dims are symbols where ``is_open`` says so; equal sizes of one axis have one symbol."""

    def __init__(self, is_open: Callable[[int, int], bool]) -> None:
        self._is_open = is_open

    def input(self, value: Value) -> tuple[TensorType | None, np.ndarray | None]:
        """The type with symbols."""
        type_ = value.tensor
        rank = len(type_.static_shape)
        dims: list[Dim] = [
            f"d{axis}_{size}" if size > 1 and self._is_open(axis, rank) else size
            for axis, size in enumerate(type_.static_shape)
        ]
        if self._is_open is _is_batch and rank and type_.static_shape[0] == 1:
            dims[0] = "d0_1"
        return type_.with_shape(tuple(dims)), value.default


def _is_batch(axis: int, rank: int) -> bool:
    return axis == 0 and rank > 1


def _is_size(axis: int, rank: int) -> bool:
    """Spatial axes of images, and of other tensors all but the first and the last."""
    return axis >= 2 if rank >= 4 else 0 < axis < rank - 1
