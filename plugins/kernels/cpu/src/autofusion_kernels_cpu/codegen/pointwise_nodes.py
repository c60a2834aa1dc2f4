"""Nodes of a graph by the table of pointwise operators.

``refusal`` tells beforehand whether a node can be emitted; ``evaluate`` emits a list of nodes in order::

    env = {anchor.output: accumulator, residual: f.load(...)}
    evaluate(f, nodes, env, f.lanes)
    f.store(env[result], ...)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import Node
from autofusion.ir.graph import Value as GraphValue
from autofusion.ir.operators import attribute
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.codegen import elements
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.pointwise_ops import OPS
from autofusion_kernels_cpu.codegen.values import Value

_QUANTIZE = ("DequantizeLinear", "QuantizeLinear")


def parameter_shape(node: Node, index: int) -> tuple[int, ...] | None:
    """The shape that operand ``index`` broadcasts with if it lies along another axis than trailing alignment says."""
    if index == 0 or node.op not in (*_QUANTIZE, "BatchNormalization"):
        return None
    x, value = node.inputs[0], node.inputs[index]
    assert x is not None and value is not None
    rank, own = len(x.tensor.static_shape), value.tensor.static_shape
    if len(own) != 1 or (own[0] == 1 and node.op in _QUANTIZE):
        return None
    axis = attribute(node, "axis") % rank if node.op in _QUANTIZE else 1
    return (own[0],) + (1,) * (rank - 1 - axis)


def refusal(node: Node) -> Refusal | None:
    """Why the table cannot emit ``node``, or None if it can."""
    op = OPS.get(node.op)
    if op is None:
        return Refusal(f"operator '{node.op}' has no pointwise kernel")
    dtypes = [v.dtype for v in (*node.inputs, *node.outputs) if v is not None]
    for dtype in dtypes:
        if dtype is None or not elements.supported(dtype):
            return Refusal(f"element type {'unknown' if dtype is None else dtype_name(dtype)} has no vector kernel")
    if node.op == "BatchNormalization" and (attribute(node, "training_mode") or len(node.outputs) > 1):
        return Refusal("BatchNormalization in training mode updates its statistics")
    if node.op == "BatchNormalization" and len(set(dtypes)) > 1:
        return Refusal(
            "BatchNormalization has no vector kernel for statistics of another element type than the operand"
        )
    if node.op == "Gather":
        table, positions = node.inputs
        assert table is not None and positions is not None
        small = table.tensor.static_shape == (256,) and table.tensor.dtype.itemsize == 1
        cast = positions.producer
        source = None if cast is None or cast.op != "Cast" else cast.inputs[0]
        byte = source is not None and source.dtype is not None and source.dtype.itemsize == 1
        if not small or not byte or positions.dtype != np.int32 or attribute(node, "axis"):
            return Refusal("operator 'Gather' has a vector kernel for 8-bit integers in tables of 256 only")
    if node.op in _QUANTIZE:
        if attribute(node, "block_size"):
            return Refusal(f"operator '{node.op}' has no vector kernel for blocks of an axis")
        if node.op == "QuantizeLinear" and node.output.tensor.dtype.kind not in "iu":
            return Refusal(f"operator 'QuantizeLinear' has no vector kernel for {dtype_name(node.output.tensor.dtype)}")
    # The element type that matters is that of the values, which for Where is behind the condition.
    first = dtypes[1] if node.op == "Where" else dtypes[0]
    assert first is not None
    allowed = {
        "f": op.double if first == np.float64 else op.single,
        "V": op.single,  # bfloat16
        "i": op.integers,
        "u": op.integers,
        "b": op.booleans,
    }
    if not allowed[first.kind]:
        return Refusal(f"operator '{node.op}' has no vector kernel for element type {dtype_name(first)}")
    if node.op == "Pow" and dtypes[1] == np.float64:
        return Refusal("operator 'Pow' has no vector kernel for an exponent of type f64")
    return None


def emit(f: Function, node: Node, operands: Sequence[Value | None]) -> Value:
    """Emit one node, rounded to its element type."""
    result = OPS[node.op].emit(f, node, operands)
    dtype = node.output.dtype
    assert dtype is not None
    return elements.rounded(f, dtype, result)


def scalar_constant(value: GraphValue) -> bool:
    """True for a constant of one element: it becomes a literal in the code."""
    return value.const is not None and value.const.size == 1


def is_table(node: Node, index: int) -> bool:
    """True for an operand that is a table: its address is wanted, not its data."""
    return node.op == "Gather" and index == 0


def is_literal(node: Node, index: int) -> bool:
    """True for an operand that becomes part of the code. Scales and zero points are data: there are too many."""
    value = node.inputs[index]
    return value is not None and scalar_constant(value) and (index == 0 or node.op not in _QUANTIZE)


def literal(f: Function, value: GraphValue, lanes: int) -> Value:
    """A one-element constant in every lane."""
    assert value.const is not None
    number = value.const.reshape(()).item()
    element = elements.register_type(value.const.dtype)
    if value.const.dtype.kind == "u" and number >= 1 << (element.bits - 1):
        number -= 1 << element.bits
    return f.const(number, element.of(lanes))


def evaluate(f: Function, nodes: Iterable[Node], env: dict[GraphValue, Value], lanes: int) -> None:
    """Emit ``nodes`` in order; ``env`` holds the operands and receives the results.

    One-element constants need no entry.
    """
    for node in nodes:
        operands: list[Value | None] = []
        for value in node.inputs:
            if value is None or value in env:
                operands.append(None if value is None else env[value])
            else:
                operands.append(literal(f, value, lanes))
        env[node.output] = emit(f, node, operands)
