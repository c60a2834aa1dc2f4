"""Matrix products with the pointwise operators behind them.

``transformer.matmul_activation`` is the short form (bias or residual and one activation) and
``transformer.matmul_epilogue`` everything longer. Together they propose each region once.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofusion.ir.graph import Node
from autofusion.rules import MATMUL, FuseRule, Level, Refusal, Region, any_broadcast, follow, is_short, why_alone


def _activation(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, any_broadcast)
    if epilogue is not None:
        yield from epilogue.regions(is_short)
        yield from why_alone(epilogue)


def _epilogue(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, any_broadcast)
    if epilogue is not None:
        yield from epilogue.regions(lambda chain: not is_short(chain))


ACTIVATION = FuseRule(
    "transformer.matmul_activation",
    MATMUL,
    _activation,
    frozenset(MATMUL.anchors),
    level=Level.BASIC,
    doc="""Run a matrix product with its bias and its activation.

    Before: %y = Relu(Add(MatMul(%x, %w), %bias))
    After:  %y = Fused(%x, %w, %bias) {kind = "matmul"}
    Any activation; MatMul of any rank, or Gemm.
    Refuses when: an intermediate is used elsewhere or is a graph output; an operand enlarges the result.
    """,
)

EPILOGUE = FuseRule(
    "transformer.matmul_epilogue",
    MATMUL,
    _epilogue,
    frozenset(MATMUL.anchors),
    doc="""Run a matrix product with all pointwise operators behind it.

    Before: %y = Add(Gelu(Add(MatMul(%x, %w), %bias)), %residual)
    After:  %y = Fused(%x, %w, %bias, %residual) {kind = "matmul"}
    Refuses when: as transformer.matmul_activation.
    """,
)

RULES = (ACTIVATION, EPILOGUE)
