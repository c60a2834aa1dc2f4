"""Small graphs by script: a call makes a node, types are inferred as it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType
from autofusion.ir.verify import verify

F32 = np.dtype(np.float32)


class Variant(NamedTuple):
    """One graph of a row of the table: how many steps it could run in, and how it is built."""

    row: str
    """``A1 conv_bn``: the group's letter, the number, and what is fused."""
    name: str
    ideal: int
    build: Callable[[Net], Value | Sequence[Value]]

    def graph(self) -> Graph:
        """The graph."""
        net = Net(f"{self.row} {self.name}")
        made = self.build(net)
        return net.close([made] if isinstance(made, Value) else made)

    def __str__(self) -> str:
        return f"{self.row}, {self.name}"


def table(row: str, **variants: tuple[int, Callable[[Net], Any]]) -> list[Variant]:
    """The variants of a row; an underscore in a name stands for a space."""
    return [Variant(row, name.replace("_", " "), ideal, build) for name, (ideal, build) in variants.items()]


class Net:
    """A graph in the making. ``net.Relu(x)`` is a node; ``x``, ``w``, ``p``, ``s``, ``i`` make inputs and constants."""

    def __init__(self, title: str) -> None:
        self.graph = Graph(title)
        self._rng = np.random.default_rng(len(title) * 1009 + sum(map(ord, title)))

    def close(self, outputs: Sequence[Value]) -> Graph:
        """The graph with these outputs."""
        for index, value in enumerate(outputs):
            self.graph.add_output(value, f"y{index}")
        verify(self.graph)
        return self.graph

    # ---- inputs and constants -----------------------------------------------------------------------------------

    def x(self, *shape: int, dtype: Any = F32) -> Value:
        """An input."""
        return self.graph.add_input(f"x{len(self.graph.inputs)}", TensorType(np.dtype(dtype), shape))

    def w(self, *shape: int) -> Value:
        """Weights about 0."""
        return self.graph.constant(self._rng.uniform(-0.5, 0.5, shape).astype(F32), "w")

    def p(self, *shape: int) -> Value:
        """Weights above 0: scales and variances."""
        return self.graph.constant(self._rng.uniform(0.5, 1.5, shape).astype(F32), "p")

    def s(self, value: float) -> Value:
        """A number."""
        return self.graph.constant(np.asarray(value, F32), "s")

    def i(self, *values: int) -> Value:
        """A vector of integers: axes, shapes, bounds."""
        return self.graph.constant(np.asarray(values, np.int64), "i")

    def k(self, data: Any, dtype: Any = F32) -> Value:
        """Any constant."""
        return self.graph.constant(np.asarray(data, dtype), "k")

    # ---- nodes --------------------------------------------------------------------------------------------------

    def __getattr__(self, op: str) -> Callable[..., Value]:
        if not op[:1].isupper():
            raise AttributeError(op)

        def call(*operands: Value | float | None, **attrs: Any) -> Value:
            return self.many(1, op, *operands, **attrs)[0]

        return call

    def many(self, results: int, op: str, *operands: Value | float | None, **attrs: Any) -> list[Value]:
        """A node with several results. A number among the operands is a constant."""
        given = [self.s(v) if isinstance(v, int | float) else v for v in operands]
        node = self.graph.node(op, given, attrs, outputs=results, origin=(f"{op}_{len(self.graph)}",))
        infer_node(node)
        return list(node.outputs)

    # ---- what many rows have ------------------------------------------------------------------------------------

    def conv(self, x: Value, out: int = 8, k: int = 3, *, bias: bool = True, **attrs: Any) -> Value:
        """A convolution that keeps the size of the image."""
        channels, spatial = _size(x, 1), len(x.tensor.static_shape) - 2
        attrs.setdefault("pads", [k // 2] * (2 * spatial))
        weight = self.w(out, channels // attrs.get("group", 1), *(k,) * spatial)
        return self.Conv(x, weight, *([self.w(out)] if bias else []), **attrs)

    def dw(self, x: Value, k: int = 3, **attrs: Any) -> Value:
        """A depthwise convolution."""
        return self.conv(x, _size(x, 1), k, group=_size(x, 1), **attrs)

    def bn(self, x: Value) -> Value:
        """BatchNormalization as in inference."""
        c = _size(x, 1)
        return self.BatchNormalization(x, self.p(c), self.w(c), self.w(c), self.p(c))

    def mm(self, x: Value, out: int = 16) -> Value:
        """A product by a matrix."""
        return self.MatMul(x, self.w(_size(x, -1), out))

    def lin(self, x: Value, out: int = 16) -> Value:
        """A product and a bias."""
        return self.Add(self.mm(x, out), self.w(out))

    def gemm(self, x: Value, out: int = 16) -> Value:
        """A Gemm as PyTorch writes it."""
        return self.Gemm(x, self.w(out, _size(x, -1)), self.w(out), transB=1)

    def mean(self, x: Value, *axes: int, keepdims: int = 1) -> Value:
        """ReduceMean."""
        return self.ReduceMean(x, self.i(*(axes or (-1,))), keepdims=keepdims)

    def sum(self, x: Value, *axes: int, keepdims: int = 1) -> Value:
        """ReduceSum."""
        return self.ReduceSum(x, self.i(*(axes or (-1,))), keepdims=keepdims)

    def t(self, x: Value, *perm: int) -> Value:
        """Transpose."""
        return self.Transpose(x, perm=list(perm))

    def view(self, x: Value, *shape: int) -> Value:
        """Reshape."""
        return self.Reshape(x, self.i(*shape))

    def cut(self, x: Value, axis: int, low: int, high: int, step: int = 1) -> Value:
        """Slice along one axis."""
        return self.Slice(x, self.i(low), self.i(high), self.i(axis), self.i(step))

    def split(self, x: Value, parts: int, axis: int = -1) -> list[Value]:
        """Split into equal parts."""
        return self.many(parts, "Split", x, axis=axis, num_outputs=parts)

    def heads(self, x: Value, heads: int = 2, *perm: int) -> Value:
        """[B, S, D] as [B, heads, S, D / heads], or in another order of axes."""
        b, s, d = x.tensor.static_shape
        return self.t(self.view(x, b, s, heads, d // heads), *(perm or (0, 2, 1, 3)))


def _size(x: Value, axis: int) -> int:
    return x.tensor.static_shape[axis]
