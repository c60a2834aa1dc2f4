"""Scaled dot-product attention as a kernel sees it: Q, K, V, the factor, and what happens to the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.kernels import ATTENTION, Refusal
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.region import Region, body_of, make_region


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Softmax(region(Q K^T * factor)) V; ``q``, ``k`` and ``v`` are operand indices.

    ``k_columns`` says that K is [..., keys, depth], so that its rows are the columns of K^T. ``scores`` is the
    product that ``region`` reads.
    """

    q: int
    k: int
    v: int
    k_columns: bool
    factor: float
    region: Region
    scores: Value
    result: Value
    q_shape: tuple[int, ...]
    v_shape: tuple[int, ...]

    @property
    def space(self) -> tuple[int, ...]:
        """Shape of the scores, [..., queries, keys]."""
        return self.scores.tensor.static_shape

    @property
    def batch(self) -> tuple[int, ...]:
        """Batch axes of the result."""
        return self.result.tensor.static_shape[:-2]

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
        return self.q_shape[-1]

    @property
    def width(self) -> int:
        """Length of a value."""
        return self.v_shape[-1]

    def over_batch(self, shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
        """Strides over (batch, rows, columns) of what broadcasts to [batch, rows, columns]."""
        aligned = nest.broadcast_strides(shape, strides, len(self.batch) + 2)
        return aligned[:-2], aligned[-2], aligned[-1]


def attention_of(node: Node) -> Attention | str:
    """The attention in a fused node, or why these kernels do not run it."""
    parts = ATTENTION.read(node)
    if isinstance(parts, Refusal):
        return parts.reason
    _, operands, results = body_of(node)
    result = results[0]
    for value in (parts.q, parts.k, parts.v, parts.scores, parts.softmax.output, result):
        if value.tensor.dtype != np.float32:
            return f"it multiplies {value.tensor.dtype}, only float32 is supported"
    x = parts.softmax.inputs[0]
    assert x is not None
    region = make_region(node, parts.masking, operands, [x], given=[parts.scores])
    if isinstance(region, str):
        return region
    space = parts.scores.tensor.static_shape
    if x.tensor.static_shape != space:
        return "the mask enlarges the scores"
    for leaf in region.leaves:
        if leaf.operand is None and leaf.constant is None:
            return f"'{leaf.value.name}' is computed inside the node"
    if result.tensor.static_shape[:-2] != space[:-2]:
        return "V has batch axes that the scores have not"
    q_shape, k_shape, v_shape = (value.tensor.static_shape for value in (parts.q, parts.k, parts.v))
    if 0 in (space[-1], q_shape[-1]):
        return "there are no keys, or they are empty"
    if min(map(len, (q_shape, k_shape, v_shape))) < 2:
        return "Q, K or V is a vector"
    q, k, v = (operands[value] for value in (parts.q, parts.k, parts.v))
    return Attention(q, k, v, parts.k_transposed, parts.factor, region, parts.scores, result, q_shape, v_shape)
