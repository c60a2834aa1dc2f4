"""Reductions along axes. The axes are an operand; none of them (an empty tuple or None) means all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.converters.arithmetic import operands
from autofusion_frontend_mindspore.converters.pointwise import floating
from autofusion_frontend_mindspore.registry import converter


def reduce(call: Call, op: str, value: Value, axes: tuple[int, ...], keep: Any) -> Value:
    """``op`` over ``axes``; over all of them if there are none."""
    if not axes and value.shape == ():
        return value
    return call.emit(op, value, call.ints(axes) if axes else None, keepdims=int(bool(keep)))


def _axes(call: Call) -> tuple[int, ...]:
    return call.int_arguments(1, "axis", ())


def _register(primitive: str, op: str) -> None:
    def convert(call: Call) -> Value:
        value = call.tensor(0)
        if op == "ReduceSum" and call.argument(3, "skip_mode", False) and not _axes(call):
            return value
        if op == "ReduceMean":
            value = floating(call, value)
        return reduce(
            call, op, call.cast(value, call.result_dtype()), _axes(call), call.argument(2, "keep_dims", False)
        )

    converter(primitive)(convert)


for _op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
    _register(_op, _op)


def _register_ext(primitive: str, op: str) -> None:
    def convert(call: Call) -> Value:
        value = call.cast(call.tensor(0), call.result_dtype())
        return reduce(call, op, value, call.int_arguments(1, "dim", None), call.argument(2, "keepdim", False))

    converter(primitive)(convert)


for _primitive, _op in {"SumExt": "ReduceSum", "MeanExt": "ReduceMean", "ProdExt": "ReduceProd"}.items():
    _register_ext(_primitive, _op)


def _whole(op: str) -> Callable[[Call], Value]:
    return lambda call: call.emit(op, call.tensor(0), None, keepdims=0)


converter("Max")(_whole("ReduceMax"))
converter("Min")(_whole("ReduceMin"))


def _logical(op: str) -> Callable[[Call], Value]:
    def convert(call: Call) -> Value:
        value = call.cast(call.cast(call.tensor(0), BOOL), np.dtype(np.int32))
        return call.cast(reduce(call, op, value, _axes(call), call.argument(2, "keep_dims", False)), BOOL)

    return convert


converter("ReduceAll")(_logical("ReduceMin"))
converter("ReduceAny")(_logical("ReduceMax"))


@converter("LogSumExp")
def log_sum_exp(call: Call) -> Value:
    """log(sum(exp(x)))."""
    value = floating(call, call.tensor(0))
    return reduce(call, "ReduceLogSumExp", value, call.int_arguments(1, "dim", ()), call.argument(2, "keepdim", False))


def _variance(call: Call, value: Value, axes: tuple[int, ...], correction: float, keep: bool) -> tuple[Value, Value]:
    """(variance, mean) over ``axes``; the sum of squares is divided by the count less ``correction``."""
    axes = tuple(call.axis(a, value) for a in axes) or tuple(range(call.rank(value)))
    at = call.ints(axes)
    mean = call.emit("ReduceMean", value, at)
    centred = call.emit("Sub", value, mean)
    total = call.emit("ReduceSum", call.emit("Mul", centred, centred), at, keepdims=int(keep))
    sizes = [value.shape[a] if value.shape else None for a in axes]
    if all(isinstance(s, int) for s in sizes):
        count = call.like(max(float(np.prod([int(s) for s in sizes])) - correction, 0.0), value)  # type: ignore[arg-type]
    else:
        chosen = call.emit("Gather", call.emit("Shape", value), at)
        whole = call.cast(call.emit("ReduceProd", chosen, call.ints([0]), keepdims=0), value.dtype)
        count = call.emit("Sub", whole, call.like(correction, value))
    return call.emit("Div", total, count), mean if keep else call.emit("Squeeze", mean, at)


@converter("ReduceStd")
def reduce_std(call: Call) -> tuple[Value, Value]:
    """(x, axes, unbiased, keep) -> (deviation, mean)."""
    correction = 1.0 if call.argument(2, "unbiased", True) else 0.0
    keep = bool(call.argument(3, "keep_dims", False))
    variance, mean = _variance(call, call.tensor(0), _axes(call), correction, keep)
    return call.emit("Sqrt", variance), mean


@converter("Var", "Std", "VarMean", "StdMean")
def var(call: Call) -> Any:
    """(x, axes, correction, keep)."""
    keep = bool(call.argument(3, "keepdim", False))
    correction = float(call.argument(2, "correction", 1))
    result, mean = _variance(call, call.tensor(0), call.int_arguments(1, "dim", None), correction, keep)
    if call.op.startswith("Std"):
        result = call.emit("Sqrt", result)
    return (result, mean) if call.op.endswith("Mean") else result


def _norm(call: Call, value: Value, p: float, axes: tuple[int, ...], keep: Any, epsilon: float = 0.0) -> Value:
    if p == 2 and not epsilon:
        return reduce(call, "ReduceL2", value, axes, keep)
    if p == 1:
        return reduce(call, "ReduceL1", value, axes, keep)
    size = call.emit("Abs", value)
    if p in (float("inf"), float("-inf")):
        return reduce(call, "ReduceMax" if p > 0 else "ReduceMin", size, axes, keep)
    if p == 0:
        different = call.cast(call.emit("Not", call.emit("Equal", value, call.like(0, value))), value.dtype)
        return reduce(call, "ReduceSum", different, axes, keep)
    total = reduce(call, "ReduceSum", call.emit("Pow", size, call.like(p, size)), axes, keep)
    if epsilon:
        total = call.emit("Max", total, call.like(epsilon, total))
    return call.emit("Pow", total, call.like(1.0 / p, total))


@converter("LpNorm")
def lp_norm(call: Call) -> Value:
    """(sum(|x| ** p)) ** (1 / p); arguments are attributes."""
    return _norm(
        call,
        call.tensor(0),
        float(call.attrs.get("p", 2)),
        call.int_arguments(9, "axis", ()),
        call.attrs.get("keep_dims"),
    )


@converter("LpNormV2")
def lp_norm_v2(call: Call) -> Value:
    """(x, p, axes, keep, epsilon)."""
    p, axes, keep = (
        float(call.argument(1, "p", 2)),
        call.int_arguments(2, "dim", ()),
        call.argument(3, "keepdim", False),
    )
    return _norm(call, call.tensor(0), p, axes, keep)


@converter("Norm", "LinalgVectorNorm")
def norm(call: Call) -> Value:
    """(x, p, axes, keep, element type)."""
    value = call.cast(call.tensor(0), call.result_dtype())
    return _norm(
        call,
        value,
        float(call.argument(1, "p", 2)),
        call.int_arguments(2, "dim", None),
        call.argument(3, "keepdim", False),
    )


@converter("Cdist")
def pairwise_distance(call: Call) -> Value:
    """(x [..., P, M], y [..., R, M], p): the p-norm of the difference of each two rows, [..., P, R]."""
    left, right = operands(call, call.result_dtype())
    rows = call.emit("Unsqueeze", left, call.ints([call.rank(left) - 1]))
    columns = call.emit("Unsqueeze", right, call.ints([call.rank(right) - 2]))
    p = float(call.argument(2, "p", 2.0))
    return _norm(call, call.emit("Sub", rows, columns), p, (-1,), False)


@converter("CumSum", "CumsumExt")
def cumulative_sum(call: Call) -> Value:
    """(x, axis, exclusive, reverse)."""
    value = call.cast(call.tensor(0), call.result_dtype())
    (axis,) = call.int_arguments(1, "axis", 0)
    flags = {}
    if call.op == "CumSum":
        flags = {n: int(bool(call.argument(i, n, False))) for i, n in ((2, "exclusive"), (3, "reverse"))}
    return call.emit("CumSum", value, call.const(axis, I64), **flags)


@converter("CountNonZero")
def count_non_zero(call: Call) -> Value:
    """How many elements are not zero."""
    value = call.tensor(0)
    different = call.cast(call.emit("Not", call.emit("Equal", value, call.like(0, value))), I64)
    return reduce(call, "ReduceSum", different, call.int_arguments(1, "dim", None), False)


@converter("CumProd")
def cumulative_product(call: Call) -> Value:
    """(x, axis, exclusive, reverse): one product after the other, along an axis of known size."""
    value = call.cast(call.tensor(0), call.result_dtype())
    axis = call.axis(call.int_arguments(1, "axis")[0], value)
    count = call.static_dim(value, axis)
    if count < 1:
        return value
    parts = [value]
    if count > 1:
        parts = list(call.node("Split", [value], {"axis": axis, "num_outputs": count}, outputs=count).outputs)
    backwards = bool(call.argument(3, "reverse", False))
    if backwards:
        parts.reverse()
    if call.argument(2, "exclusive", False):
        one = call.emit("Expand", call.like(1, value), call.emit("Shape", parts[0]))
        parts = [one, *parts[:-1]]
    for i in range(1, count):
        parts[i] = call.emit("Mul", parts[i - 1], parts[i])
    return call.emit("Concat", *(reversed(parts) if backwards else parts), axis=axis)


@converter("L2Loss")
def l2_loss(call: Call) -> Value:
    """Half the sum of squares."""
    value = call.tensor(0)
    return call.emit("Mul", call.emit("ReduceSumSquare", value, None, keepdims=0), call.like(0.5, value))


@converter("Trace", "TraceExt")
def trace(call: Call) -> Value:
    """The sum of a matrix's diagonal."""
    value = call.cast(call.tensor(0), call.result_dtype())
    eye = call.const(np.eye(call.static_dim(value, 0), call.static_dim(value, 1)), np.bool_)
    return call.emit("ReduceSum", call.emit("Where", eye, value, call.like(0, value)), None, keepdims=0)
