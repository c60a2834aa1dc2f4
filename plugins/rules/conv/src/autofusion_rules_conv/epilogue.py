"""Convolutions with the pointwise operators behind them: one pass over the result instead of many.

``conv.activation`` is the well-known short form (a residual or bias Add and one activation); ``conv.epilogue`` is any
other chain, however long, also one that branches and meets again. Together they propose each region once.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofusion.ir.graph import Node
from autofusion.rules import CONV, FuseRule, Level, Refusal, Region, by_channel, follow, is_short, why_alone


def _activation(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, by_channel)
    if epilogue is not None:
        yield from epilogue.regions(is_short)
        yield from why_alone(epilogue)


def _epilogue(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, by_channel)
    if epilogue is not None:
        yield from epilogue.regions(lambda chain: not is_short(chain))


ACTIVATION = FuseRule(
    "conv.activation",
    CONV,
    _activation,
    frozenset(CONV.anchors),
    level=Level.BASIC,
    doc="""Run a convolution with its residual Add and its activation.

    Before: %y = Relu(Add(Conv(%x, %w, %b), %residual))
    After:  %y = Fused(%x, %w, %b, %residual) {kind = "conv"}
    Any activation; with or without the Add, which may come before or after.
    Refuses when: an intermediate is used elsewhere or is a graph output; an operand is broadcast along other axes than
    batch and channel, or enlarges the result.
    """,
)

EPILOGUE = FuseRule(
    "conv.epilogue",
    CONV,
    _epilogue,
    frozenset(CONV.anchors),
    doc="""Run a convolution with all pointwise operators behind it.

    Before: %y = Mul(%c, Sigmoid(%c)) with %c = Conv(%x, %w, %b), and whatever pointwise operators follow
    After:  %y = Fused(%x, %w, %b) {kind = "conv"}
    Chains of any length; branches that meet again; residual tensors, channel vectors and gates, numbers.
    Refuses when: as conv.activation.
    """,
)

RULES = (ACTIVATION, EPILOGUE)
