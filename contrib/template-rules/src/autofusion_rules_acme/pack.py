"""Two small rules: one that rewrites, one that fuses. They say what is legal; whether it pays is not their business."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.rules import (
    POINTWISE,
    Builder,
    FuseRule,
    Match,
    Refusal,
    Region,
    RewriteRule,
    RulePack,
    const,
    op,
    var,
)


def _is_power_of_two(divisor: np.ndarray) -> bool:
    return divisor.dtype.kind == "f" and divisor.size == 1 and abs(np.frexp(np.float64(divisor.flat[0]))[0]) == 0.5


def _multiply(match: Match, builder: Builder) -> list[Value] | Refusal:
    divisor = match["divisor"]
    factor = (1 / match.array("divisor").astype(np.float64)).astype(divisor.dtype)
    if not np.isfinite(factor).all():
        return Refusal(f"{match.root.label}: one over '{divisor.name}' is not finite", divisor)
    return [builder.op("Mul", match["x"], builder.constant(factor), name=match.root.name)]


DIVIDE = RewriteRule(
    "acme.divide_by_power_of_two",
    op("Div", var("x"), const("divisor", where=_is_power_of_two)),
    _multiply,
    doc="""Multiply by one over the divisor where that is exact: a multiplication is faster than a division.

    Before: %y = Div(%x, 4.0)
    After:  %y = Mul(%x, 0.25)
    Refuses when: one over the divisor is not finite. Other divisors are left alone.
    """,
)


def _gate(anchor: Node) -> Iterator[Region | Refusal]:
    """The Mul whose other operand is what the Sigmoid reads; the region's one result is that of the Mul."""
    x, gate = anchor.inputs[0], anchor.output
    for user in gate.consumers:
        if user.op == "Mul" and x in user.inputs:
            if len(gate.consumers) == 1 and not gate.is_output:
                yield Region((anchor, user), user)
            else:
                yield Refusal(f"'{gate.name}' is also used elsewhere", gate)


GATE = FuseRule(
    "acme.gate",
    POINTWISE,  # a kind that other packs have kernels for; a FusedKind of your own needs a kernel of your own
    _gate,
    roots=frozenset({"Sigmoid"}),
    doc="""Run a value with its own gate.

    Before: %y = Mul(%x, Sigmoid(%x))
    After:  %y = Fused(%x) {kind = "pointwise"}
    Refuses when: the gate is used elsewhere, or is a graph output.
    """,
)

PACK = RulePack("acme", version("autofusion-rules-acme"), (DIVIDE, GATE))
