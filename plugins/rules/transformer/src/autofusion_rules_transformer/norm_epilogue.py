"""Normalisations with the residual Add before and the pointwise operators behind them.

The sum is often needed again, by the next residual: it then is a second result. That cannot close a loop, since all
other operands of such a region are constants.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofusion.fusion.epilogue import Epilogue, follow
from autofusion.fusion.rule import FuseRule, Refusal, Region
from autofusion.ir.graph import Node
from autofusion_rules_transformer.layer_norm_affine import NORMS
from autofusion_rules_transformer.matmul import along_last


def _residual(anchor: Node) -> Node | None:
    """The Add of two tensors that the normalisation reads."""
    x = anchor.inputs[0]
    add = None if x is None else x.producer
    if add is None or add.op != "Add":
        return None
    same = all(v is not None and (v.type == add.output.type or v.const is not None) for v in add.inputs)
    return add if same and add.output.type == anchor.output.type else None


def _norm(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, along_last)
    if epilogue is None:
        return
    add = _residual(anchor)
    if add is not None:
        yield from _with_residual(epilogue, add)
    yield from epilogue.regions(lambda chain: True)


def _with_residual(epilogue: Epilogue, add: Node) -> Iterator[Region]:
    anchor, total = epilogue.anchor, add.output
    alone = total.use_count == sum(v is total for v in anchor.inputs)
    for chain in (*reversed(epilogue.growth.chains), ()):
        inside = {add, anchor, *chain}
        outside = [v for node in chain for v in node.inputs if v is not None and v.producer not in inside]
        if alone or all(v.const is not None for v in outside):
            yield Region((add, anchor, *chain), anchor, multiple_results=not alone)


NORM_EPILOGUE = FuseRule(
    "transformer.norm_epilogue",
    "layer_norm",
    _norm,
    frozenset(NORMS),
    doc="""Run a normalisation with the residual Add before it and the pointwise operators behind it.

    Before: %s = Add(%x, %residual); %y = LayerNormalization(%s, %scale, %shift)
    After:  %y, %s = Fused(%x, %residual, %scale, %shift) {kind = "layer_norm"}
    The sum stays a result where it is used again.
    Refuses when: another intermediate is used elsewhere or is a graph output; an operand is broadcast otherwise than
    along the last axis.
    """,
)

RULES = (NORM_EPILOGUE,)
