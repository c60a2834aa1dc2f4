"""Contractions: sums of products with reuse (convolutions, matrix products, Einsum)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.pooling import WINDOW_ATTRIBUTES
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, Work, attribute, register, traffic
from autofusion.ir.types import Dim, Shape, TensorType, Type

_I32 = np.dtype(np.int32)
_CONV_ATTRIBUTES = {**WINDOW_ATTRIBUTES, "group": 1, "kernel_shape": None}


# ---- convolution -------------------------------------------------------------------------------------------


def _conv_shape(node: Node, x: int, w: int, bias: int) -> Shape | None:
    """[N, M, spatial...] of a convolution of operand ``x`` [N, C, ...] with operand ``w`` [M, C/group, ...]."""
    dims, weights = shapes.rank_at_least(node, x, 3), shapes.rank_at_least(node, w, 3)
    if dims is None and weights is None:
        return None
    rank = len(dims or weights or ()) - 2
    if dims is not None and weights is not None and len(dims) != len(weights):
        shapes.fail(node, f"operand {shapes.show(dims)} and weights {shapes.show(weights)} must have one rank")
    group = attribute(node, "group")
    kernel: Sequence[Dim] = weights[2:] if weights is not None else (None,) * rank
    stated = attribute(node, "kernel_shape")
    if stated is not None:
        kernel = shapes.agree_shapes(node, tuple(kernel), tuple(stated), "'kernel_shape' and the weights") or ()
    outputs: Dim = None
    if weights is not None:
        outputs = weights[0]
        shapes.divided(node, outputs, group, "the number of output channels")
        if dims is not None:
            channels = shapes.scaled(weights[1], group)
            shapes.agree(node, dims[1], channels, f"input channels and weight channels times group {group}")
        own = shapes.rank_is(node, bias, 1)
        if own is not None:
            outputs = shapes.agree(node, outputs, own[0], "output channels and the length of the bias")
    if dims is None:
        return (None, outputs, *(None,) * rank)
    return (dims[0], outputs, *shapes.window_dims(node, dims[2:], kernel))


def _infer_conv(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 1, 2)), _conv_shape(node, 0, 1, 2)))


def _infer_conv_integer(node: Node) -> Sequence[Type | None]:
    return shapes.only(TensorType(_I32, _conv_shape(node, 0, 1, 4)))


def _infer_qlinear_conv(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.dtype(node, 7), _conv_shape(node, 0, 3, 8)))


def _infer_deform_conv(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 1, 2)), _conv_shape(node, 0, 1, 3)))


def _infer_conv_transpose(node: Node) -> Sequence[Type | None]:
    dtype = shapes.same_dtype(node, (0, 1, 2))
    dims, weights = shapes.rank_at_least(node, 0, 3), shapes.rank_at_least(node, 1, 3)
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    rank = len(dims) - 2
    if weights is not None and len(weights) != len(dims):
        shapes.fail(node, f"operand {shapes.show(dims)} and weights {shapes.show(weights)} must have one rank")
    outputs: Dim = None
    if weights is not None:
        shapes.agree(node, dims[1], weights[0], "input channels and the first axis of the weights")
        outputs = shapes.scaled(weights[1], attribute(node, "group"))
        bias = shapes.rank_is(node, 2, 1)
        if bias is not None:
            outputs = shapes.agree(node, outputs, bias[0], "output channels and the length of the bias")
    stated = attribute(node, "output_shape")
    if stated is not None:
        if len(stated) not in (rank, rank + 2):
            shapes.fail(node, f"'output_shape' must have {rank} entries, found {list(stated)}")
        return shapes.only(shapes.of(dtype, (dims[0], outputs, *stated[-rank:])))
    kernel: Sequence[Dim] = weights[2:] if weights is not None else (None,) * rank
    if attribute(node, "kernel_shape") is not None:
        kernel = attribute(node, "kernel_shape")
    strides, dilations = shapes.spatial(node, "strides", rank, 1), shapes.spatial(node, "dilations", rank, 1)
    pads, extra = shapes.paddings(node, rank), shapes.spatial(node, "output_padding", rank, 0)
    auto_pad = attribute(node, "auto_pad")
    same = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    spatial: list[Dim] = []
    for i, size in enumerate(dims[2:]):
        taps = kernel[i]
        if not isinstance(size, int) or not isinstance(taps, int):
            spatial.append(size if same and strides[i] == 1 else None)
            continue
        whole = (size - 1) * strides[i] + extra[i] + (taps - 1) * dilations[i] + 1
        # "Same" crops to size * stride; a kernel smaller than the stride does not reach that far.
        padded = 0 if auto_pad == "VALID" else sum(pads[i])
        result = min(whole, size * strides[i]) if same else whole - padded
        if result < 0:
            shapes.fail(node, f"its pads take {padded} from an axis of {whole}")
        spatial.append(result)
    return shapes.only(shapes.of(dtype, (dims[0], outputs, *spatial)))


def _work_conv(node: Node, w: int = 1) -> Work:
    """2 * output elements * products for each of them, as many as a filter has weights."""
    weights = node.inputs[w]
    assert weights is not None
    macs = node.output.tensor.numel * math.prod(weights.tensor.static_shape[1:])
    return Work(2.0 * macs, *traffic(node))


def _work_conv_transpose(node: Node) -> Work:
    """Each input element meets every weight of its channel once."""
    x, weights = node.inputs[0], node.inputs[1]
    assert x is not None and weights is not None
    return Work(2.0 * x.tensor.numel * math.prod(weights.tensor.static_shape[1:]), *traffic(node))


# ---- matrix products ---------------------------------------------------------------------------------------


def matmul_shape(node: Node, a: int, b: int) -> Shape | None:
    """Shape of the product of two operands, with broadcast batch axes; vectors are matrices of one row or column."""
    left, right = shapes.rank_at_least(node, a, 1), shapes.rank_at_least(node, b, 1)
    if left is None or right is None:
        return None
    inner_right = right[-2] if len(right) > 1 else right[0]
    if isinstance(left[-1], int) and isinstance(inner_right, int) and left[-1] != inner_right:
        shapes.fail(node, f"inner dims of {shapes.show(left)} and {shapes.show(right)} must be equal")
    batch = shapes.broadcast(node, left[:-2], right[:-2]) or ()
    return batch + left[-2:-1] + (right[-1:] if len(right) > 1 else ())


def _infer_matmul(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 1)), matmul_shape(node, 0, 1)))


def _infer_matmul_integer(node: Node) -> Sequence[Type | None]:
    return shapes.only(TensorType(_I32, matmul_shape(node, 0, 1)))


def _infer_qlinear_matmul(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.dtype(node, 7), matmul_shape(node, 0, 3)))


def _infer_gemm(node: Node) -> Sequence[Type | None]:
    dtype = shapes.same_dtype(node, (0, 1, 2))
    a, b = shapes.rank_is(node, 0, 2), shapes.rank_is(node, 1, 2)
    if a is not None and attribute(node, "transA"):
        a = a[::-1]
    if b is not None and attribute(node, "transB"):
        b = b[::-1]
    if a is not None and b is not None:
        shapes.agree(node, a[1], b[0], "inner dims")
    result = (a[0] if a else None, b[1] if b else None)
    bias = shapes.shape(node, 2)
    if bias is not None:
        full = shapes.broadcast(node, result, bias)
        if (
            full is None
            or len(full) > 2
            or any(isinstance(f, int) and isinstance(r, int) and f != r for f, r in zip(full, result, strict=True))
        ):
            shapes.fail(node, f"operand C {shapes.show(bias)} must broadcast to {shapes.show(result)}")
    return shapes.only(shapes.of(dtype, result))


def _work_matmul(node: Node, a: int = 0) -> Work:
    left = node.inputs[a]
    assert left is not None
    return Work(2.0 * node.output.tensor.numel * left.tensor.static_shape[-1], *traffic(node))


def _work_gemm(node: Node) -> Work:
    a = node.inputs[0]
    assert a is not None
    elements = node.output.tensor.numel
    inner = a.tensor.static_shape[0 if attribute(node, "transA") else 1]
    return Work((2.0 * inner + (1 if shapes.is_present(node, 2) else 0)) * elements, *traffic(node))


# ---- Einsum ------------------------------------------------------------------------------------------------


def einsum_terms(node: Node) -> tuple[list[str], str]:
    """Operand terms and the result term of the equation, without blanks; the implicit result is made explicit."""
    equation = attribute(node, "equation").replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(node.inputs):
        shapes.fail(node, f"equation '{equation}' has {len(terms)} terms for {len(node.inputs)} operands")
    if not arrow:
        letters = [c for c in left if c.isalpha()]
        result = ("..." if "..." in left else "") + "".join(sorted({c for c in letters if letters.count(c) == 1}))
    return terms, result


def _einsum_sizes(node: Node) -> tuple[dict[str, Dim], Shape | None, str]:
    """Size of each letter, shape of the ellipsis, and the result term."""
    terms, result = einsum_terms(node)
    sizes: dict[str, Dim] = {}
    ellipses: list[Shape | None] = []
    for index, term in enumerate(terms):
        dims = shapes.shape(node, index)
        before, dots, after = term.partition("...")
        if dims is None:
            if dots:
                ellipses.append(None)
            for letter in before + after:
                sizes.setdefault(letter, None)
            continue
        hidden = len(dims) - len(before) - len(after)
        if hidden < 0 or (hidden and not dots):
            shapes.fail(node, f"term '{term}' does not fit operand {index} {shapes.show(dims)}")
        if dots:
            ellipses.append(dims[len(before) : len(before) + hidden])
        for letter, dim in zip(before + after, dims[: len(before)] + dims[len(before) + hidden :], strict=True):
            known = sizes.get(letter, 1)
            # An axis of one broadcasts against the others of its letter.
            sizes[letter] = dim if known == 1 else known if dim == 1 else shapes.agree(node, known, dim, f"'{letter}'")
    return sizes, shapes.broadcast(node, *ellipses), result


def _infer_einsum(node: Node) -> Sequence[Type | None]:
    sizes, ellipsis, result = _einsum_sizes(node)
    before, dots, after = result.partition("...")
    unknown = [c for c in before + after if c not in sizes]
    if unknown:
        shapes.fail(node, f"letter '{unknown[0]}' of the result is in no term of '{attribute(node, 'equation')}'")
    dtype = shapes.same_dtype(node, range(len(node.inputs)))
    if dots and ellipsis is None:
        return shapes.only(shapes.of(dtype, None))
    middle = ellipsis if dots and ellipsis is not None else ()
    return shapes.only(shapes.of(dtype, (*(sizes[c] for c in before), *middle, *(sizes[c] for c in after))))


def _work_einsum(node: Node) -> Work:
    """One multiply-add for each combination of indices and operand after the first."""
    sizes, ellipsis, _ = _einsum_sizes(node)
    points = math.prod(d for d in (*sizes.values(), *(ellipsis or ())) if isinstance(d, int))
    return Work(2.0 * points * max(1, len(node.inputs) - 1), *traffic(node))


def _register() -> None:
    contraction = OpClass.CONTRACTION
    register(Operator("Conv", contraction, _infer_conv, 2, 3, attributes=_CONV_ATTRIBUTES, work=_work_conv))
    register(
        Operator("ConvInteger", contraction, _infer_conv_integer, 2, 4, attributes=_CONV_ATTRIBUTES, work=_work_conv)
    )
    register(
        Operator(
            "QLinearConv",
            contraction,
            _infer_qlinear_conv,
            8,
            9,
            attributes=_CONV_ATTRIBUTES,
            work=lambda node: _work_conv(node, 3),
        )
    )
    register(
        Operator(
            "DeformConv",
            contraction,
            _infer_deform_conv,
            3,
            5,
            attributes={
                "dilations": None,
                "group": 1,
                "kernel_shape": None,
                "offset_group": 1,
                "pads": None,
                "strides": None,
            },
            work=_work_conv,
        )
    )
    register(
        Operator(
            "ConvTranspose",
            contraction,
            _infer_conv_transpose,
            2,
            3,
            attributes={**_CONV_ATTRIBUTES, "output_padding": None, "output_shape": None},
            work=_work_conv_transpose,
        )
    )
    register(Operator("MatMul", contraction, _infer_matmul, 2, 2, work=_work_matmul))
    register(Operator("MatMulInteger", contraction, _infer_matmul_integer, 2, 4, work=_work_matmul))
    register(Operator("QLinearMatMul", contraction, _infer_qlinear_matmul, 8, 8, work=_work_matmul))
    register(
        Operator(
            "Gemm",
            contraction,
            _infer_gemm,
            2,
            3,
            attributes={"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0},
            work=_work_gemm,
        )
    )
    register(
        Operator(
            "Einsum",
            contraction,
            _infer_einsum,
            1,
            None,
            attributes={"equation": REQUIRED},
            work=_work_einsum,
        )
    )


_register()
