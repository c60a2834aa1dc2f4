"""A matrix product as a kernel sees it.

Which value is A, B, C, what follows, and how the operands move along each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.kernels import MATMUL, Factor, Refusal, factor_of
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.nest import Axis
from autofusion_kernels_cpu.codegen.region import Region, body_of, make_region, operand_constant


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """An anchor and its epilogue inside a node.

    ``a`` and ``b`` are operand indices; ``constant`` is B's data if known. ``a_perm`` and ``b_perm`` are the orders of
    the operands' axes in which the anchor sees them.
    """

    anchor: Node
    region: Region
    a: int
    b: int | None
    constant: np.ndarray | None
    transposed_a: bool = False
    transposed_b: bool = False
    alpha: float = 1.0
    beta: float = 1.0
    c: Value | None = None
    a_perm: tuple[int, ...] = ()
    b_perm: tuple[int, ...] = ()

    @property
    def a_shape(self) -> tuple[int, ...]:
        """A's shape, [..., M, K] after transposition."""
        return _oriented(self.anchor.inputs[0], self.transposed_a)

    @property
    def b_shape(self) -> tuple[int, ...]:
        """B's shape, [..., K, N] after transposition."""
        return _oriented(self.anchor.inputs[1], self.transposed_b)

    @property
    def space(self) -> tuple[int, ...]:
        """Shape of the product."""
        return self.anchor.output.tensor.static_shape

    @property
    def k(self) -> int:
        """Products summed for each element."""
        return self.a_shape[-1]

    @property
    def rows(self) -> int:
        """M, 1 for a vector."""
        return self.a_shape[-2] if len(self.a_shape) > 1 else 1

    @property
    def columns(self) -> int:
        """N, 1 for a vector."""
        return self.b_shape[-1] if len(self.b_shape) > 1 else 1

    @property
    def batch(self) -> tuple[int, ...]:
        """Batch axes."""
        return np.broadcast_shapes(self.a_shape[:-2], self.b_shape[:-2])

    def of_a(self, strides: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
        """A's strides over (batch, rows, k)."""
        own = _swapped([strides[i] for i in self.a_perm], self.transposed_a)
        row = own[-2] if len(own) > 1 else 0
        return nest.broadcast_strides(self.a_shape[:-2], own[:-2], len(self.batch)), row, own[-1]

    def of_b(self, strides: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
        """B's strides over (batch, k, columns)."""
        own = _swapped([strides[i] for i in self.b_perm], self.transposed_b)
        batch = nest.broadcast_strides(self.b_shape[:-2], own[:-2], len(self.batch))
        return (batch, own[-2], own[-1]) if len(own) > 1 else (batch, own[-1], 0)

    def of_result(self, shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
        """Strides over (batch, rows, columns) of a result, or of what broadcasts to it."""
        own = list(nest.broadcast_strides(shape, strides, len(self.space)))
        column = own.pop() if len(self.b_shape) > 1 else 0
        row = own.pop() if len(self.a_shape) > 1 else 0
        return tuple(own), row, column


def _oriented(value: Value | None, transposed: bool) -> tuple[int, ...]:
    assert value is not None
    return tuple(_swapped(value.tensor.static_shape, transposed))


def _swapped(numbers: Sequence[int], transposed: bool) -> tuple[int, ...]:
    return (*numbers[:-2], numbers[-1], numbers[-2]) if transposed else tuple(numbers)


def product_of(node: Node) -> Product | Refusal:
    """The product in a MatMul, a Gemm or a fused node around one, or why there is none."""
    nodes, operands, results = body_of(node)
    anchor = MATMUL.anchor(node)
    if isinstance(anchor, Refusal):
        return anchor
    for value in (*anchor.inputs[:2], anchor.output):
        assert value is not None
        if value.tensor.dtype != np.float32:
            return Refusal(f"it multiplies {value.tensor.dtype}, only float32 is supported")
    assert anchor.inputs[0] is not None and anchor.inputs[1] is not None
    taken = {anchor}
    first, second = (factor_of(value, operands.keys(), taken) for value in anchor.inputs[:2] if value is not None)
    a, b = first.source, second.source
    constant = b.const if b not in operands else operand_constant(node, operands[b])
    if a not in operands or (b not in operands and constant is None):
        return Refusal("a factor is computed inside the node")
    if constant is not None and second.moves:
        return Refusal("its constant factor is transposed inside the node")
    perms = [_permutation(factor) for factor in (first, second)]
    if None in perms:
        return Refusal("a factor is moved by more than a Transpose")
    a_perm, b_perm = (perm or () for perm in perms)
    if second.moves and len(b_perm) - 1 not in b_perm[-2:]:
        return Refusal("neither rows nor columns of its second factor are adjacent")
    gemm = anchor.op == "Gemm"
    c = anchor.operand(2) if gemm else None
    others = [n for n in nodes if n not in taken]
    region = make_region(node, others, operands, results, given=[anchor.output], reads=[] if c is None else [(c, None)])
    if isinstance(region, Refusal):
        return region
    if c is not None and c not in operands and c.const is None:
        return Refusal("operand C of Gemm is computed inside the node")
    for value in region.results:
        if value.tensor.static_shape != anchor.output.tensor.static_shape:
            return Refusal(f"result '{value.name}' is {list(value.tensor.static_shape)}, not as large as the product")
    return Product(
        anchor,
        region,
        operands[a],
        operands.get(b),
        constant,
        transposed_a=gemm and bool(attribute(anchor, "transA")),
        transposed_b=gemm and bool(attribute(anchor, "transB")),
        alpha=first.number * second.number * (float(attribute(anchor, "alpha")) if gemm else 1.0),
        beta=float(attribute(anchor, "beta")) if gemm else 1.0,
        c=c,
        a_perm=a_perm,
        b_perm=b_perm,
    )


def _permutation(factor: Factor) -> tuple[int, ...] | None:
    """The order of the source's axes that the factor's moves come to; None if they are not all Transposes."""
    order = tuple(range(len(factor.source.tensor.static_shape)))
    for node in factor.moves:
        if node.op != "Transpose":
            return None
        perm = attribute(node, "perm") or range(len(order))[::-1]
        order = tuple(order[i] for i in perm)
    return order


def split_axes(
    product: Product,
    moves: Sequence[tuple[tuple[int, ...], int, int]],
) -> tuple[list[Axis], Axis]:
    """(batch axes, row axis) for operands that move by (batch, rows, ...): A first, B second, whose row stride is 0.

    Batch axes join the rows where every operand allows it: then more rows share B's panels.
    """
    strides = [(*batch, 0 if i == 1 else row) for i, (batch, row, _) in enumerate(moves)]
    axes = nest.collapse((*product.batch, product.rows), strides)
    if axes and axes[-1].strides[1] == 0:
        return axes[:-1], axes[-1]
    return axes, Axis(1, (0,) * len(moves))
