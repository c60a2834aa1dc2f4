"""Compute the same thing once.

Two nodes are the same if operator, attributes and operands are: the same values, or equal constants. Operators that
draw random numbers or hold subgraphs are left alone.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.operators import is_commutative, names
from autofusion.rules import Builder, Match, RewriteRule, Stage, op

_MOST_COMPARED = 64
"""Consumers of a value that each of them is compared with, the first ones, so that matching stays linear."""
_LARGEST_COMPARED = 4096
"""Larger constants (elements) are only the same if they are the same array."""


def _twin(node: Node) -> Node | None:
    """Another node that computes the same, or None."""
    computed = [v for v in node.inputs if v is not None and v.const is None]
    if not computed:
        return None
    fewest = min(computed, key=lambda v: len(v._uses))
    for other, _ in itertools.islice(fewest._uses, _MOST_COMPARED):
        if other is not node and other.op == node.op and _same(node, other):
            return other
    return None


def _same(a: Node, b: Node) -> bool:
    return (
        len(a.inputs) == len(b.inputs)
        and len(a.outputs) == len(b.outputs)
        and _same_operands(a, b)
        and a.attrs.keys() == b.attrs.keys()
        and all(_same_attribute(a.attrs[k], b.attrs[k]) for k in a.attrs)
    )


def _same_operands(a: Node, b: Node) -> bool:
    if all(_same_value(x, y) for x, y in zip(a.inputs, b.inputs, strict=True)):
        return True
    if not is_commutative(a.op) or len(a.inputs) != 2:
        return False
    return all(_same_value(x, y) for x, y in zip(a.inputs, reversed(b.inputs), strict=True))


def _same_value(a: Value | None, b: Value | None) -> bool:
    if a is b:
        return True
    if a is None or b is None or a.const is None or b.const is None:
        return False
    x, y = a.const, b.const
    if x is y:
        return True
    # Bit for bit: NaN is the same as itself, and -0 is not 0.
    return x.dtype == y.dtype and x.shape == y.shape and x.size <= _LARGEST_COMPARED and _bits(x) == _bits(y)


def _bits(data: np.ndarray) -> Any:
    return data.tolist() if data.dtype.kind == "O" else data.tobytes()


def _same_attribute(a: Any, b: Any) -> bool:
    if isinstance(a, Graph) or isinstance(b, Graph):
        return False
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return list(a) == list(b)
    return type(a) is type(b) and bool(a == b)


def _operators() -> tuple[str, ...]:
    """Every operator that always gives the same for the same operands."""
    return names(lambda schema: schema.deterministic and not schema.subgraphs and schema.name != FUSED)


def _use_twin(match: Match, builder: Builder) -> list[Value]:
    twin = _twin(match.root)
    assert twin is not None
    return list(twin.outputs)


COMMON_SUBEXPRESSION = RewriteRule(
    "pointwise.common_subexpression",
    op(_operators(), open_inputs=True, where=lambda node: _twin(node) is not None),
    _use_twin,
    stage=Stage.CANONICALISE,
    priority=30,
    doc="""Compute the same thing once.

    Before: %a = Sigmoid(%x); %b = Sigmoid(%x)
    After:  %a = Sigmoid(%x), used in both places
    Any deterministic operator with the same attributes and operands (constants compared bit for bit), also in the
    other order where the operator is commutative.
    Refuses when: the operator draws random numbers or holds subgraphs.
    """,
)

RULES = (COMMON_SUBEXPRESSION,)
