"""Matrix products with the pointwise operators behind them.

``transformer.matmul_activation`` is the short form (bias or residual and one activation) and
``transformer.matmul_epilogue`` everything longer. Together they propose each region once, and
``transformer.matmul_operands`` those with something before the product: the kernels read a factor in any order of its
axes, and a number that a factor is multiplied by can as well multiply the product.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofusion.ir.graph import Node
from autofusion.rules import MATMUL, FuseRule, Level, Refusal, Region, any_broadcast, follow, is_short, why_alone
from autofusion_rules_transformer.factors import taken_in


def _activation(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, any_broadcast)
    if epilogue is not None:
        yield from epilogue.regions(is_short)
        yield from why_alone(epilogue)


def _epilogue(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, any_broadcast)
    if epilogue is not None:
        yield from epilogue.regions(lambda chain: not is_short(chain))


def _operands(anchor: Node) -> Iterator[Region | Refusal]:
    epilogue = follow(anchor, any_broadcast)
    if epilogue is None:
        return
    a, b = (taken_in(anchor, index, moves=("Transpose",)) for index in (0, 1))
    for before in dict.fromkeys(((*a, *b), b, a)):
        if before:
            for chain in (*reversed(epilogue.growth.chains), ()):
                yield Region((*before, anchor, *chain), anchor)


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

OPERANDS = FuseRule(
    "transformer.matmul_operands",
    MATMUL,
    _operands,
    frozenset({"MatMul"}),
    doc="""Run a matrix product with the Transposes of its factors, and the numbers that these are multiplied by.

    Before: %y = MatMul(Mul(%q, 0.125), Transpose(%k) {perm = [0, 1, 3, 2]})
    After:  %y = Fused(%q, %k) {kind = "matmul"}
    With the pointwise operators behind it, as transformer.matmul_epilogue. Any Transpose.
    Refuses when: a factor is used elsewhere too, before or after it is transposed or multiplied.
    """,
)

RULES = (ACTIVATION, EPILOGUE, OPERANDS)
