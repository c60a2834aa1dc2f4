"""Arithmetic that changes nothing, for every number, infinity and NaN, and a square that need not be a power.

What is only true of real numbers is not here: ``x * 0`` keeps NaN, ``x + 0`` turns -0 into 0, ``(x / 3) * 3`` truncates
integers, and sums are never reassociated.
"""

from __future__ import annotations

from autofusion.ir.graph import Node, Value
from autofusion.rules import Builder, Match, RewriteRule, const, is_float, op, var


def _operand(match: Match, builder: Builder) -> list[Value]:
    return [match["x"]]


def _keeps_integers(node: Node) -> bool:
    return node.output.dtype is not None and node.output.dtype.kind in "iu"


def _same_type(node: Node) -> bool:
    """The exponent of a Pow may have another element type than the base."""
    return all(v is not None and v.dtype == node.output.dtype for v in node.inputs)


MUL_ONE = RewriteRule(
    "pointwise.mul_one",
    op("Mul", var("x"), const("one", 1.0)),
    _operand,
    priority=10,
    doc="""Drop a multiplication by one.

    Before: %y = Mul(%x, 1)
    After:  %x
    Exact for every element type and value. Refuses when: the constant may enlarge the result.
    """,
)

DIV_ONE = RewriteRule(
    "pointwise.div_one",
    op(("Div", "Pow"), var("x"), const("one", 1.0), where=_same_type),
    _operand,
    priority=10,
    doc="""Drop a division by one, and a power of one.

    Before: %y = Div(%x, 1)
    After:  %x
    Exact for every element type and value. Refuses when: the constant may enlarge the result.
    """,
)

SUB_ZERO = RewriteRule(
    "pointwise.sub_zero",
    op("Sub", var("x"), const("zero", 0.0)),
    _operand,
    priority=10,
    doc="""Drop a subtraction of zero.

    Before: %y = Sub(%x, 0)
    After:  %x
    Exact for every element type and value (-0 - 0 is -0). Refuses when: the constant may enlarge the result.
    """,
)

ADD_ZERO = RewriteRule(
    "pointwise.add_zero",
    op("Add", var("x"), const("zero", 0.0), where=_keeps_integers),
    _operand,
    priority=10,
    doc="""Drop an addition of zero to integers.

    Before: %y = Add(%x, 0)
    After:  %x
    Integers only: adding zero to a floating-point -0 gives 0. Refuses when: the constant may enlarge the result.
    """,
)

RELU_TWICE = RewriteRule(
    "pointwise.relu_twice",
    op("Relu", op("Relu", var("x"), name="inner", shared=True)),
    lambda match, builder: [match.node("inner").output],
    priority=10,
    doc="""Drop the second of two Relus.

    Before: %y = Relu(Relu(%x))
    After:  %y = Relu(%x)
    Refuses when: never.
    """,
)

SQUARE = RewriteRule(
    "pointwise.square",
    op("Pow", var("x", where=is_float), const("two", 2.0), where=_same_type),
    lambda match, builder: [builder.op("Mul", match["x"], match["x"], name=match.root.name)],
    priority=-10,
    doc="""Multiply instead of taking a power of two.

    Before: %y = Pow(%x, 2)
    After:  %y = Mul(%x, %x)
    Floating-point types. Refuses when: the exponent may enlarge the result.
    """,
)

RULES = (MUL_ONE, DIV_ONE, SUB_ZERO, ADD_ZERO, RELU_TWICE, SQUARE)
