"""Scaled dot-product attention as a kernel sees it: Q, K, V, the factor, and what happens to the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
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
    nodes, operands, results = body_of(node)
    anchors = [n for n in nodes if n.op == "Softmax"]
    if len(anchors) != 1 or len(results) != 1:
        return "expected one Softmax and one result"
    softmax = anchors[0]
    second = results[0].producer
    if second is None or second.op != "MatMul" or second.inputs[0] is not softmax.output:
        return "the result is not a product of the Softmax and V"
    firsts = [n for n in nodes if n.op == "MatMul" and n is not second]
    if len(firsts) != 1:
        return f"expected one product of Q and K, found {len(firsts)}"
    first = firsts[0]
    rank = len(first.output.tensor.static_shape)
    if attribute(softmax, "axis") % rank != rank - 1:
        return "the Softmax does not run along the keys"
    q, v = first.inputs[0], second.inputs[1]
    k = first.inputs[1]
    assert q is not None and k is not None and v is not None
    taken = {first, second, softmax}
    factor = 1.0
    q, scale = _unscaled(q, operands, taken)
    factor *= scale
    k, scale = _unscaled(k, operands, taken)
    factor *= scale
    k_columns = False
    if k not in operands and k.producer is not None and k.producer.op == "Transpose":
        transpose = k.producer
        if list(attribute(transpose, "perm") or ()) != [*range(rank - 2), rank - 1, rank - 2]:
            return "K is transposed in another way than its last two axes"
        taken.add(transpose)
        inner = transpose.inputs[0]
        assert inner is not None
        k, scale = _unscaled(inner, operands, taken)
        factor *= scale
        k_columns = True
    for value in (q, k, v, first.output, softmax.output, results[0]):
        if value.tensor.dtype != np.float32:
            return f"it multiplies {value.tensor.dtype}, only float32 is supported"
    if any(value not in operands for value in (q, k, v)):
        return "Q, K or V is computed inside the node"
    x = softmax.inputs[0]
    assert x is not None
    between = [n for n in nodes if n not in taken]
    region = make_region(node, between, operands, [x], given=[first.output])
    if isinstance(region, str):
        return region
    space = first.output.tensor.static_shape
    if x.tensor.static_shape != space:
        return "the mask enlarges the scores"
    for leaf in region.leaves:
        if leaf.operand is None and leaf.constant is None:
            return f"'{leaf.value.name}' is computed inside the node"
    if results[0].tensor.static_shape[:-2] != space[:-2]:
        return "V has batch axes that the scores have not"
    if 0 in (space[-1], q.tensor.static_shape[-1]):
        return "there are no keys, or they are empty"
    shapes = q.tensor.static_shape, v.tensor.static_shape
    if min(map(len, (*shapes, k.tensor.static_shape))) < 2:
        return "Q, K or V is a vector"
    return Attention(
        operands[q], operands[k], operands[v], k_columns, factor, region, first.output, results[0], *shapes
    )


def _unscaled(value: Value, operands: dict[Value, int], taken: set[Node]) -> tuple[Value, float]:
    """Follow multiplications and divisions by a constant number back; the nodes join ``taken``."""
    factor = 1.0
    while value not in operands and value.producer is not None and value.producer.op in ("Mul", "Div"):
        node = value.producer
        a, b = node.inputs
        assert a is not None and b is not None
        if node.op == "Mul" and a.const is not None and a.const.size == 1:
            a, b = b, a
        if b.const is None or b.const.size != 1 or a.tensor.static_shape != value.tensor.static_shape:
            break
        number = float(b.const.reshape(()))
        factor *= number if node.op == "Mul" else 1 / number if number else math.inf
        taken.add(node)
        value = a
    return value, factor
