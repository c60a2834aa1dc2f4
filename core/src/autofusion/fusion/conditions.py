"""The small questions that matching asks of values and attributes, and how a failed one is put into words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autofusion.errors import GraphError
from autofusion.fusion.prepare import one_of
from autofusion.ir import operators
from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass


def is_uniform(data: np.ndarray, wanted: float, rtol: float) -> bool:
    """True if every element of ``data`` is ``wanted``, rounded to the element type or within ``rtol``."""
    if data.size == 0 or data.dtype.kind not in "fiubV":
        return False
    first = data.reshape(-1)[0]
    found = float(first)
    rounded = float(np.asarray(wanted).astype(data.dtype)) if data.dtype.kind in "fV" else wanted
    if found != rounded and not abs(found - wanted) <= rtol * abs(wanted):
        return False
    return data.size == 1 or bool((data == first).all())


def enlarges(node: Node, index: int) -> bool:
    """True unless constant operand ``index`` of a pointwise node surely leaves the result's shape to the others."""
    value = node.inputs[index]
    if value is None or value.const is None or value.const.ndim == 0:
        return False
    if operators.op_class(node) is not OpClass.POINTWISE:
        return False
    shape = node.output.shape
    others = [v.shape for i, v in enumerate(node.inputs) if i != index and v is not None]
    if value.const.size == 1:
        return all(other is None or len(other) < value.const.ndim for other in others)
    return shape is None or None in shape or shape not in others


def equal_constants(left: Value | None, right: Value | None) -> bool:
    """True if both are constants of the same type and content."""
    if left is None or right is None or left.const is None or right.const is None:
        return False
    a, b = left.const, right.const
    return a is b or (a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all()))


def attribute_of(node: Node, name: str) -> Any:
    """The attribute with the schema's default filled in; None if there is neither."""
    try:
        return operators.attribute(node, name)
    except GraphError:  # no default, or no schema: the attribute is not there
        return None


def fits(found: Any, wanted: Any) -> bool:
    """True if an attribute is what a pattern wants: a value (floats within single precision) or a predicate."""
    if callable(wanted) and not isinstance(wanted, type):
        return bool(wanted(found))
    if isinstance(found, float) and isinstance(wanted, (int, float)):
        return found == wanted or abs(found - wanted) <= 2e-6 * abs(wanted)
    if isinstance(found, (list, tuple, np.ndarray)) or isinstance(wanted, (list, tuple, np.ndarray)):
        if found is None or wanted is None:
            return False
        return bool(np.array_equal(np.asarray(found), np.asarray(wanted)))
    return bool(found == wanted)


def not_a_root(node: Node, roots: Iterable[str]) -> str:
    """Why no match can start at ``node``."""
    return f"{node.label} is not {one_of(sorted(roots))}"


def shown(value: Value | None) -> str:
    """The value's name."""
    return "(absent)" if value is None else value.name


def where_from(value: Value | None) -> str:
    """Where the value comes from, as a sentence."""
    if value is None:
        return "the operand is absent"
    if value.const is not None:
        return f"'{value.name}' is constant"
    if value.producer is None:
        return f"'{value.name}' is a graph input"
    return f"'{value.name}' comes from {value.producer.label}"


def why_not_constant(value: Value) -> str:
    """Why the value is none of the constants that patterns mean."""
    if value.default is not None:
        return f"'{value.name}' is an input with a stored value that the caller may override"
    return f"{where_from(value)}, expected a constant"


def shown_data(data: np.ndarray) -> str:
    """The number that a constant holds, or its type and shape."""
    if data.size == 1 and data.dtype.kind in "fiu":
        return f"{data.reshape(-1)[0]:g}"
    return f"{data.dtype}{list(data.shape)}"


def attribute_reason(node: Node, name: str, found: Any, wanted: Any) -> str:
    """Why an attribute does not fit."""
    expected = "which the rule does not take" if callable(wanted) else f"expected {wanted!r}"
    return f"{node.label} has {name}={found!r}, {expected}"
