"""Scaled dot-product attention as a kernel sees it: Q, K, V, the factor, and what happens to the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.kernels import ATTENTION, Factor, Refusal, dense_strides
from autofusion_kernels_cpu.codegen.region import Region, body_of, make_region
from autofusion_kernels_cpu.codegen.strided import Axis, axes_of, moved, stride_of


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """An operand of a product: its number among the node's operands, and how its elements are walked over."""

    operand: int
    factor: Factor

    def axes(self, strides: Sequence[int]) -> list[Axis]:
        """The axes that the product sees, of an operand with these strides."""
        found = moved(axes_of(self.factor.source.tensor.static_shape, strides), self.factor.moves)
        assert found is not None
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the product sees."""
        return self.factor.value.tensor.static_shape

    def gapped_axes(self) -> list[Axis] | None:
        """The axes of an operand with gaps, or None if it cannot be walked over as it is moved.

        With gaps only what is sure to be adjacent is.
        """
        shape = self.factor.source.tensor.static_shape
        strides = [2 * stride for stride in dense_strides(shape)]
        if strides:
            strides[-1] = 1
        return moved(axes_of(shape, strides), self.factor.moves)


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Guard(Softmax(region(Q K^T * factor))) V, its axes in the order of ``perm``.

    ``scores`` is the product that ``region`` reads, ``probabilities`` what ``guard`` reads.
    """

    q: Source
    k: Source
    v: Source
    factor: float
    region: Region
    guard: Region
    scores: Value
    probabilities: Value
    product: Value
    perm: tuple[int, ...]

    @property
    def space(self) -> tuple[int, ...]:
        """Shape of the scores, [..., queries, keys]."""
        return self.scores.tensor.static_shape

    @property
    def batch(self) -> tuple[int, ...]:
        """Batch axes of the product with V."""
        return self.product.tensor.static_shape[:-2]

    @property
    def queries(self) -> int:
        """Rows of the scores."""
        return self.space[-2]

    @property
    def keys(self) -> int:
        """Columns of the scores."""
        return self.space[-1]

    @property
    def depth(self) -> int:
        """Length of a query."""
        return self.q.shape[-1]

    @property
    def width(self) -> int:
        """Length of a value."""
        return self.v.shape[-1]

    @property
    def v_columns(self) -> bool:
        """True if V lies as [width, keys]."""
        axes = self.v.gapped_axes()
        return axes is not None and self.width > 1 and stride_of(axes[-1]) != 1

    def over_batch(self, axes: Sequence[Axis]) -> list[Axis]:
        """The axes of what broadcasts to [batch, rows, columns], all of them."""
        return [()] * (len(self.batch) + 2 - len(axes)) + list(axes)

    def of_result(self, shape: Sequence[int], strides: Sequence[int]) -> list[Axis]:
        """The axes of the result in the order of the product."""
        axes = axes_of(shape, strides)
        return [axes[self.perm.index(i)] for i in range(len(self.perm))]


def attention_of(node: Node) -> Attention | Refusal:
    """The attention in a fused node, or why these kernels do not run it."""
    parts = ATTENTION.read(node)
    if isinstance(parts, Refusal):
        return parts
    _, operands, results = body_of(node)
    product, probabilities = parts.second.output, parts.softmax.output
    factors = [Source(operands[f.source], f) for f in (parts.q, parts.k, parts.v)]
    for value in (*(f.factor.source for f in factors), parts.scores, probabilities, product, results[0]):
        if value.tensor.dtype != np.float32:
            return Refusal(f"it multiplies {value.tensor.dtype}, only float32 is supported")
    x, p = parts.softmax.inputs[0], parts.second.inputs[0]
    assert x is not None and p is not None
    region = make_region(node, parts.masking, operands, [x], given=[parts.scores])
    guard = make_region(node, parts.guarding, operands, [p], given=[probabilities])
    space = parts.scores.tensor.static_shape
    for made, value, what in ((region, x, "scores"), (guard, p, "probabilities")):
        if isinstance(made, Refusal):
            return made
        if value.tensor.static_shape != space or value.tensor.dtype != np.float32:
            return Refusal(f"a mask changes the type or the shape of the {what}")
        for leaf in made.leaves:
            if leaf.operand is None and leaf.constant is None:
                return Refusal(f"'{leaf.value.name}' is computed inside the node")
            if np.broadcast_shapes(leaf.shape, space) != space:
                return Refusal(f"'{leaf.value.name}' {list(leaf.shape)} is larger than the scores {list(space)}")
    assert not isinstance(region, Refusal) and not isinstance(guard, Refusal)
    if product.tensor.static_shape[:-2] != space[:-2]:
        return Refusal("V has batch axes that the scores have not")
    if 0 in (space[-1], factors[0].shape[-1]):
        return Refusal("there are no keys, or they are empty")
    if min(len(f.shape) for f in factors) < 2:
        return Refusal("Q, K or V is a vector")
    no = _unwalkable(factors, 0 in product.tensor.static_shape)
    if no is not None:
        return no
    rank = len(product.tensor.static_shape)
    perm = tuple(range(rank))
    if parts.transpose is not None:
        perm = tuple(attribute(parts.transpose, "perm") or perm[::-1])
    q, k, v = factors
    return Attention(q, k, v, parts.factor, region, guard, parts.scores, probabilities, product, perm)


def _unwalkable(factors: Sequence[Source], nothing: bool) -> Refusal | None:
    """Why Q, K or V cannot be read where it lies."""
    for name, factor in zip("QKV", factors, strict=True):
        axes = factor.gapped_axes()
        if axes is None:
            return Refusal(f"{name} is moved in a way that needs a copy")
        last = [stride_of(axis) for axis in axes[-2:]]
        if None in last:
            return Refusal(f"the rows or columns of {name} do not lie evenly")
        adjacent = [stride == 1 or size == 1 for stride, size in zip(last, factor.shape[-2:], strict=True)]
        if name != "Q" and not any(adjacent) and not nothing:
            return Refusal(f"neither the rows nor the columns of {name} are adjacent")
    return None
