"""Operands of products as fused bodies may have them: scaled by numbers, moved, repeated over heads."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from autofusion.ir.graph import Node, Value

MOVES = ("Transpose", "Expand", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that say where elements are, and compute nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """An operand of a product, ``value``: ``source``, moved by ``moves``, the innermost first, times ``number``.

    ``value`` has the shape that the product sees. A product of numbers and movement in any order comes to this.
    """

    value: Value
    source: Value
    moves: tuple[Node, ...]
    number: float


def factor_of(value: Value, inputs: Collection[Value], taken: set[Node]) -> Factor:
    """``value`` followed back to one of ``inputs``, or to what is neither scaling nor movement; the nodes join
    ``taken``.
    """
    source, number, moves = value, 1.0, []
    while source not in inputs and source.producer is not None:
        node = source.producer
        found = scaled(node)
        if found is not None:
            source, factor = found
            number *= factor
        elif node.op in MOVES and node.inputs[0] is not None:
            source = node.inputs[0]
            moves.append(node)
        else:
            break
        taken.add(node)
    return Factor(value, source, tuple(reversed(moves)), number)


def scaled(node: Node) -> tuple[Value, float] | None:
    """What ``node`` multiplies or divides by one constant number, and the factor; None for any other node."""
    if node.op not in ("Mul", "Div"):
        return None
    a, b = node.inputs
    if node.op == "Mul" and a is not None and a.const is not None and a.const.size == 1:
        a, b = b, a
    if a is None or b is None or b.const is None or b.const.size != 1 or a.type != node.output.type:
        return None
    number = float(b.const.reshape(()))
    return a, number if node.op == "Mul" else 1 / number if number else math.inf
