"""What the rules of this pack ask of QuantizeLinear and DequantizeLinear: constant scales, zero points, bit widths."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Refusal, constant_hint, not_constant

SMALL = (np.dtype(np.uint8), np.dtype(np.int8))
QUANTISERS = ("DequantizeLinear", "QuantizeLinear")

_WIDTH = 2**31 - 1
MOST = _WIDTH // (255 * 255)
"""Products of 8-bit integers less their zero points whose sum cannot leave 32 bits."""


TABLE_SIZE = 256
"""Entries of a table of all 8-bit integers."""


def is_table(node: Node) -> bool:
    """True for a Gather that looks each element up in a table of all 8-bit integers, by a Cast of such."""
    if node.op != "Gather" or attribute(node, "axis") != 0:
        return False
    table, index = node.inputs
    assert table is not None and index is not None
    cast = index.producer
    if table.shape != (TABLE_SIZE,) or table.dtype not in SMALL or cast is None or cast.op != "Cast":
        return False
    source = cast.inputs[0]
    return source is not None and source.dtype in SMALL and index.dtype == np.int32


def is_index(node: Node) -> bool:
    """True for the Cast in front of such a Gather."""
    return node.op == "Cast" and bool(node.output.use_count) and all(map(is_table, node.output.consumers))


def has_one_scale(node: Node) -> bool:
    """True for a QuantizeLinear or DequantizeLinear between float32 and small integers with one constant scale."""
    if node.op not in QUANTISERS or attribute(node, "block_size"):
        return False
    scale, zero = node.inputs[1], node.operand(2)
    assert scale is not None
    if scale.const is None or scale.const.size != 1 or scale.dtype != np.float32:
        return False
    if zero is not None and (zero.const is None or zero.const.size != 1):
        return False
    x, y = node.inputs[0], node.output
    assert x is not None
    small, real = (y, x) if node.op == "QuantizeLinear" else (x, y)
    if small.dtype is None or small.dtype.kind not in "iu" or small.dtype.itemsize > 2:
        return False
    # A scale of shape [1] broadcasts a scalar to rank 1.
    return real.dtype == np.float32 and bool(real.shape)


def factors(*scales: Value, label: str) -> list[np.ndarray] | Refusal:
    """The data of constant scales, those of one element as a scalar, or why they cannot be computed with."""
    found = []
    for scale in scales:
        if scale.const is None:
            return Refusal(f"{label}: {not_constant(scale)}", scale, constant_hint(scale))
        if scale.dtype != np.float32:
            return Refusal(f"{label}: scale '{scale.name}' is {scale.type}, not float32", scale)
        found.append(scale.const.reshape(()) if scale.const.size == 1 else scale.const)
    return found


def zero_of(zero: Value | None, dtype: np.dtype) -> np.ndarray | None:
    """A constant zero point, 0 where it is absent; None for one that is computed."""
    return np.zeros((), dtype) if zero is None else zero.const


def equal_scales(a: Node, b: Node) -> bool:
    """True if two nodes with one scale each map between the same numbers."""
    small = [n.output if n.op == "QuantizeLinear" else n.inputs[0] for n in (a, b)]
    types = [v.dtype for v in small if v is not None and v.dtype is not None]
    if len(types) != 2 or types[0] != types[1]:
        return False
    for index in (1, 2):
        data = [zero_of(n.operand(index), types[0]) for n in (a, b)]
        if data[0] is None or data[1] is None or data[0].reshape(()) != data[1].reshape(()):
            return False
    return True


def real_of(node: Node) -> np.ndarray | None:
    """What a DequantizeLinear of constants makes, as the operator computes it; None if something is not constant."""
    x, scale = (None if v is None else v.const for v in node.inputs[:2])
    zero = None if x is None else zero_of(node.operand(2), x.dtype)
    if x is None or scale is None or zero is None or node.output.dtype is None:
        return None
    numbers = x.astype(np.float64) - _along(node, x, zero)
    return np.asarray((numbers * _along(node, x, scale)).astype(node.output.dtype))


def _along(node: Node, x: np.ndarray, parameter: np.ndarray) -> np.ndarray:
    """A scale or zero point in the shape of ``x``: one, one for each position of an axis, or one for each block."""
    numbers = parameter.astype(np.float64)
    if numbers.size == 1 and numbers.ndim <= 1:
        return numbers.reshape(())
    axis, block = attribute(node, "axis") % x.ndim, attribute(node, "block_size")
    if block:
        return np.take(numbers, np.arange(x.shape[axis]) // block, axis=axis)
    return numbers.reshape([-1 if a == axis else 1 for a in range(x.ndim)]) if numbers.ndim == 1 else numbers
