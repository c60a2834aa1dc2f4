"""Normalisations with the pointwise operators before and behind them.

What is normalised is often needed again, as the residual of the next block: it then is a second result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autofusion.ir.graph import Node
from autofusion.rules import LAYER_NORM, FuseRule, Joins, Refusal, Region, any_broadcast, backward, follow


def _norm(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, any_broadcast)
    if epilogue is None:
        return
    chains = (*reversed(epilogue.growth.chains), ())
    before = backward([anchor.inputs[0]], [anchor], epilogue.joins)
    for chain in chains:
        # A gate is computed on the way, where nobody else needs it.
        aside = backward([v for node in chain for v in node.inputs], [anchor, *chain], epilogue.joins)
        if len(aside) > len(before) or not set(aside) <= set(before):
            yield Region((*dict.fromkeys((*before, *aside)), anchor, *chain), anchor)
    if before:
        for chain in chains:
            yield Region((*before, anchor, *chain), anchor)
    else:
        yield from _with_residual(anchor, epilogue.joins, chains)
    yield from epilogue.regions(lambda chain: True)


def _with_residual(anchor: Node, joins: Joins, chains: Sequence[tuple[Node, ...]]) -> Iterator[Region]:
    """The producer of a value that others read too; it stays a result."""
    x = anchor.inputs[0]
    node = None if x is None else x.producer
    if node is None or not joins(node):
        return
    before = (*backward(node.inputs, [node, anchor], joins), node)
    for chain in chains:
        yield Region((*before, anchor, *chain), anchor, multiple_results=True)


NORM_EPILOGUE = FuseRule(
    "transformer.norm_epilogue",
    LAYER_NORM,
    _norm,
    frozenset(LAYER_NORM.anchors),
    doc="""Run a normalisation with the pointwise operators before it, such as a residual Add, and those behind it.

    Before: %s = Add(%x, %residual); %y = LayerNormalization(%s, %scale, %shift)
    After:  %s, %y = Fused(%x, %residual, %scale, %shift) {kind = "layer_norm"}
    What is normalised stays a result where it is used again. Any of the normalisation operators.
    Refuses when: another intermediate is used elsewhere or is a graph output; an operand enlarges the result.
    """,
)

RULES = (NORM_EPILOGUE,)
