"""What stands before a product and can be done while its operand is read: movement, and multiplication by a number."""

from __future__ import annotations

from autofusion.ir.graph import Node, Value
from autofusion.rules import MOVES, scaled

_LONGEST = 8
_NO_COPY = frozenset({"Reshape", "Squeeze", "Unsqueeze"})


def only_consumer(value: Value) -> Node | None:
    """The one node that reads the value, if nobody else sees it."""
    return value.consumers[0] if len(value.consumers) == 1 and not value.is_output else None


def taken_in(product: Node, index: int, *, scales: bool = True, moves: tuple[str, ...] = MOVES) -> tuple[Node, ...]:
    """The nodes that make operand ``index`` of ``product`` by movement and scaling, and that nobody else needs.

    In the order of the graph. A Reshape at the far end copies nothing where it is, and stays.
    """
    found: list[Node] = []
    value, reader = product.inputs[index], product
    while value is not None and len(found) < _LONGEST:
        node = value.producer
        if node is None or only_consumer(value) is not reader:
            break
        number = scaled(node) if scales else None
        if number is not None:
            source: Value | None = number[0]
        elif node.op in moves:
            source = node.inputs[0]
        else:
            break
        if source is None or source.const is not None:
            break
        found.append(node)
        value, reader = source, node
    while found and found[-1].op in _NO_COPY:
        found.pop()
    return tuple(reversed(found))
