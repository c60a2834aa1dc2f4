"""GELU from its pieces, in every spelling that exporters write.

Constants are compared tightly: a divisor of 1.4137 instead of the square root of two is another function.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from autofusion.ir.graph import Value
from autofusion.rules import Builder, Either, Match, Operand, RewriteRule, const, either, is_float, op, var

_X = var("x", where=is_float)
_HALF = const("half", 0.5)
_TWO = const("double", 2.0)


def _half_of_product(bracket: Operand) -> Either:
    """``0.5 * x * bracket``, however it is put together."""
    return Either(
        (
            op("Mul", op("Mul", _X, _HALF), bracket),
            op("Mul", op("Mul", _X, bracket), _HALF),
            op("Mul", _X, op("Mul", bracket, _HALF)),
            op("Mul", op("Div", _X, _TWO), bracket),
            op("Div", op("Mul", _X, bracket), _TWO),
            op("Mul", _X, op("Div", bracket, _TWO)),
        )
    )


def _scaled_x(factor: float) -> Operand:
    return either(op("Mul", _X, const("factor", factor)), op("Div", _X, const("divisor", 1 / factor)))


def _bracket_erf() -> Operand:
    """``1 + erf(x / sqrt(2))``, also written ``1 - erf(-x / sqrt(2))``."""
    root = math.sqrt(0.5)
    negative = either(
        op("Mul", op("Neg", _X), const("factor", root)),
        op("Div", op("Neg", _X), const("divisor", 1 / root)),
        op("Neg", _scaled_x(root)),
        _scaled_x(-root),
    )
    return either(
        op("Add", op("Erf", _scaled_x(root)), const("one", 1.0)),
        op("Sub", const("one", 1.0), op("Erf", negative)),
    )


def _bracket_tanh() -> Operand:
    """``1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))``, also with ``x`` taken out of the sum."""
    k, cubic = math.sqrt(2 / math.pi), const("cubic", 0.044715)
    square = either(op("Mul", _X, _X), op("Pow", _X, const("two", 2.0)))
    cube = either(
        op("Mul", cubic, either(op("Pow", _X, const("three", 3.0)), op("Mul", square, _X))),
        op("Mul", _X, op("Mul", square, cubic)),
        op("Mul", op("Mul", _X, cubic), square),
        op("Mul", _X, op("Mul", _X, op("Mul", _X, cubic))),
    )
    inner = either(
        op("Mul", op("Add", _X, cube), const("k", k)),
        op("Mul", op("Mul", _X, const("k", k)), op("Add", op("Mul", square, cubic), const("unit", 1.0))),
        op("Mul", _X, op("Add", op("Mul", square, const("k_cubic", k * 0.044715)), const("k", k))),
    )
    return op("Add", op("Tanh", inner), const("one", 1.0))


def _recompose(approximate: str) -> Callable[[Match, Builder], list[Value]]:
    def rewrite(match: Match, builder: Builder) -> list[Value]:
        return [builder.op("Gelu", match["x"], name=match.root.name, approximate=approximate)]

    return rewrite


GELU_ERF = RewriteRule(
    "pointwise.gelu_erf",
    _half_of_product(_bracket_erf()),
    _recompose("none"),
    priority=5,
    doc="""Recognise GELU.

    Before: %y = Mul(Mul(%x, 0.5), Add(Erf(Div(%x, 1.4142135)), 1))
    After:  %y = Gelu(%x)
    In any order; with Mul by 0.70710677, with 1 - Erf(-x), or divided by 2.
    Refuses when: a constant differs by more than rounding; a piece is used elsewhere.
    """,
)

GELU_TANH = RewriteRule(
    "pointwise.gelu_tanh",
    _half_of_product(_bracket_tanh()),
    _recompose("tanh"),
    priority=5,
    doc="""Recognise GELU in its approximation by tanh.

    Before: %y = Mul(Mul(%x, 0.5), Add(Tanh(Mul(Add(%x, Mul(Pow(%x, 3), 0.044715)), 0.7978846)), 1))
    After:  %y = Gelu(%x) {approximate = "tanh"}
    In any order; with x * x * x, or x taken out of the sum.
    Refuses when: a constant differs by more than rounding; a piece is used elsewhere.
    """,
)

RULES = (GELU_ERF, GELU_TANH)
