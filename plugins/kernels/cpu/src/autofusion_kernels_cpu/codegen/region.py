"""Pointwise regions: what a fused body, an epilogue or a single operator computes, apart from any loop around it.

A region is a list of pointwise nodes with the values they read (leaves) and the values that are wanted. Each leaf knows
where its data comes from: an operand of the node that is being bound, or a constant inside the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import FUSED, Node, Value
from autofusion.kernels import Numerics, Refusal
from autofusion_kernels_cpu.codegen.pointwise_nodes import (
    is_literal,
    is_table,
    parameter_shape,
    refusal,
    scalar_constant,
)

_INEXACT = frozenset(
    "Acos Acosh Asin Asinh Atan Atanh BatchNormalization Celu Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish "
    "LeakyRelu Log Mish Pow Selu Sigmoid Sin Sinh Softplus Softsign Swish Tan Tanh".split()
)


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A value that a region reads: operand ``operand`` of the bound node, or ``constant``.

    ``shape`` is what takes part in trailing broadcasting with the region's result. A ``table`` is not loaded: its
    address is what the region reads.
    """

    value: Value
    operand: int | None
    constant: np.ndarray | None
    shape: tuple[int, ...]
    table: bool = False

    @property
    def dtype(self) -> np.dtype:
        """Element type in memory."""
        return self.value.tensor.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Pointwise ``nodes`` in order, reading ``leaves``; ``results`` are wanted, in the order of the bound node's."""

    nodes: tuple[Node, ...]
    leaves: tuple[Leaf, ...]
    results: tuple[Value, ...]

    @property
    def numerics(self) -> Numerics:
        """EXACT if every node computes what its operator says bit for bit."""
        return Numerics.REASSOCIATED if any(n.op in _INEXACT for n in self.nodes) else Numerics.EXACT

    def signature(self, given: Mapping[Value, str] | None = None) -> str:
        """Text that is equal for regions that make the same code; ``given`` names values that come in registers."""
        names = {leaf.value: f"l{i}:{dtype_name(leaf.dtype)}" for i, leaf in enumerate(self.leaves)}
        names |= given or {}
        return signature(self.nodes, names, self.results)


def body_of(node: Node) -> tuple[Sequence[Node], dict[Value, int], Sequence[Value]]:
    """Nodes, operand index of each value that comes from outside, and results, of a fused node or a plain one."""
    if node.op == FUSED:
        body = node.body
        return body.nodes, {value: i for i, value in enumerate(body.inputs)}, body.outputs
    operands: dict[Value, int] = {}
    for i, value in enumerate(node.inputs):
        if value is not None:
            operands.setdefault(value, i)
    return [node], operands, node.outputs


def operand_constant(node: Node, index: int) -> np.ndarray | None:
    """The data of operand ``index`` if it is constant."""
    value = node.inputs[index]
    return None if value is None else value.const


def make_region(
    node: Node,
    nodes: Sequence[Node],
    operands: dict[Value, int],
    results: Sequence[Value],
    given: Iterable[Value] = (),
    reads: Iterable[tuple[Value, tuple[int, ...] | None]] = (),
) -> Region | Refusal:
    """The region of ``nodes``, or why there is none.

    ``given`` are values that somebody else puts into registers, ``reads`` are values to load besides those of the
    nodes, with their shape if it is not the value's own.
    """
    for each in nodes:
        no = refusal(each)
        if no is not None:
            return no
    made: set[Value] = set(given)
    leaves: dict[Value, Leaf] = {}

    def use(value: Value, shape: tuple[int, ...] | None = None, table: bool = False) -> None:
        if value in made or value in leaves:
            return
        index = operands.get(value)
        constant = value.const if value.const is not None else None if index is None else operand_constant(node, index)
        own = value.tensor.static_shape
        leaves[value] = Leaf(value, index, constant, own if shape is None else shape, table)

    for value, shape in reads:
        if not scalar_constant(value):
            use(value, shape)
    for each in nodes:
        for i, value in enumerate(each.inputs):
            if value is not None and is_table(each, i):
                if value in made or (value in leaves and not leaves[value].table):
                    return Refusal(f"table '{value.name}' is computed inside the node, or read otherwise too", value)
                use(value, (), table=True)
            elif value is not None and not is_literal(each, i):
                use(value, parameter_shape(each, i))
        made.add(each.output)
    for value in results:
        if not scalar_constant(value):
            use(value)
    return Region(tuple(nodes), tuple(leaves.values()), tuple(results))


def region_of(node: Node) -> Region | Refusal:
    """The region of a fused node or a single pointwise operator, or why there is none."""
    return make_region(node, *body_of(node))


def _attribute_text(value: Any) -> str:
    return dtype_name(value) if isinstance(value, np.dtype) else repr(value)


def signature(nodes: Sequence[Node], names: dict[Value, str], results: Sequence[Value]) -> str:
    """Text that determines the code of ``nodes``: operators, attributes, literals, types and wiring."""
    names = dict(names)
    parts = []
    for i, node in enumerate(nodes):
        operands = []
        for value in node.inputs:
            if value is None:
                operands.append("-")
            elif value in names:
                operands.append(names[value])
            else:
                assert value.const is not None
                operands.append(f"{value.const.reshape(()).item()!r}:{dtype_name(value.const.dtype)}")
        attrs = ",".join(f"{k}={_attribute_text(v)}" for k, v in sorted(node.attrs.items()))
        dtype = node.output.tensor.dtype
        parts.append(f"{node.op}[{attrs}]({','.join(operands)}):{dtype_name(dtype)}")
        names[node.output] = f"n{i}"
    return ";".join(parts) + "->" + ",".join(names.get(v, v.name) for v in results)
