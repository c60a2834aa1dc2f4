"""A product of small integers as a kernel sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.kernels import INTEGER_MATMUL, Refusal
from autofusion_kernels_cpu.codegen.region import Leaf, body_of, make_region, operand_constant
from autofusion_kernels_cpu.matmul.problem import Product

_SMALL = (np.dtype(np.uint8), np.dtype(np.int8))


@dataclass(frozen=True, slots=True, eq=False)
class IntegerProduct:
    """``product`` says which operands are multiplied and what follows.

    ``a_zero`` is A's zero point, one or one for each row; ``b_zero`` is B's, which broadcasts to [..., K, N].
    """

    product: Product
    a_dtype: np.dtype
    weights: np.ndarray
    a_zero: Leaf | None
    b_zero: np.ndarray

    @property
    def zero_for_each_row(self) -> bool:
        return self.a_zero is not None and self.a_zero.shape != ()


def integer_product_of(node: Node) -> IntegerProduct | Refusal:
    """The product in a MatMulInteger or a fused node around one, or why there is none."""
    nodes, operands, results = body_of(node)
    anchor = INTEGER_MATMUL.anchor(node)
    if isinstance(anchor, Refusal):
        return anchor
    a, b = anchor.inputs[:2]
    assert a is not None and b is not None
    for value in (a, b):
        if value.tensor.dtype not in _SMALL:
            return Refusal(f"it multiplies {value.tensor.dtype}, only 8-bit integers are supported")
    if a not in operands:
        return Refusal("a factor is computed inside the node")
    weights = _constant(node, operands, b)
    if weights is None:
        return Refusal("its second factor is not a constant")
    b_zero = np.zeros((), weights.dtype)
    if (given := anchor.operand(3)) is not None:
        known = _constant(node, operands, given)
        if known is None:
            return Refusal("the zero point of its second factor is not a constant")
        b_zero = known.reshape(()) if known.size == 1 else known
        if b_zero.ndim > 1 and b_zero.shape[-2] != 1:
            return Refusal("the zero point of its second factor varies along the sum")
    rows = a.tensor.static_shape[-2] if len(a.tensor.static_shape) > 1 else 1
    a_zero = _zero_leaf(node, operands, anchor.operand(2), rows)
    if isinstance(a_zero, Refusal):
        return a_zero
    if a_zero is not None and a_zero.dtype != a.tensor.dtype:
        return Refusal(f"its first factor is {a.tensor.dtype}, but the zero point of it {a_zero.dtype}")
    others = [n for n in nodes if n is not anchor]
    region = make_region(node, others, operands, results, given=[anchor.output])
    if isinstance(region, Refusal):
        return region
    for value in region.results:
        if value.tensor.static_shape != anchor.output.tensor.static_shape:
            return Refusal(f"result '{value.name}' is {list(value.tensor.static_shape)}, not as large as the product")
    own_order = tuple(range(len(a.tensor.static_shape)))
    product = Product(anchor, region, operands[a], operands.get(b), weights, a_perm=own_order)
    return IntegerProduct(product, a.tensor.dtype, weights, a_zero, b_zero)


def _constant(node: Node, operands: dict[Value, int], value: Value) -> np.ndarray | None:
    return value.const if value not in operands else operand_constant(node, operands[value])


def _zero_leaf(node: Node, operands: dict[Value, int], value: Value | None, rows: int) -> Leaf | Refusal | None:
    """The zero point of A, of shape [] or [rows]."""
    if value is None:
        return None
    constant = _constant(node, operands, value)
    if value not in operands and constant is None:
        return Refusal("the zero point of its first factor is computed inside the node")
    shape = value.tensor.static_shape
    single = value.tensor.numel == 1
    if not single and shape not in ((rows,), (rows, 1)):
        return Refusal(f"the zero point of its first factor is {list(shape)}: expected one, or one for each row")
    return Leaf(value, operands.get(value), constant, () if single else (rows,))
