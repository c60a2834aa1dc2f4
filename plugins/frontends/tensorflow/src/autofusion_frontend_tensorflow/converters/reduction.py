"""Reductions over axes that an operand names."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter

_REDUCTIONS = {
    "All": "ReduceMin",
    "Any": "ReduceMax",
    "EuclideanNorm": "ReduceL2",
    "Max": "ReduceMax",
    "Mean": "ReduceMean",
    "Min": "ReduceMin",
    "Prod": "ReduceProd",
    "Sum": "ReduceSum",
}


@converter(*_REDUCTIONS)
def reduce(call: Call) -> Value:
    """No axes means that nothing is reduced, where the IR would reduce everything."""
    x, axes = call.operand(0), call.operand(1)
    keep = int(bool(call.attr("keep_dims", False)))
    axes = call.vector(axes)
    if axes.const is not None:
        if axes.const.size == 0:
            return call.emit("Abs", x) if call.op == "EuclideanNorm" else x
        rank = call.rank(x)
        axes = call.ints(sorted({call.axis(int(a), rank) for a in axes.const}))
        return call.emit(_REDUCTIONS[call.op], x, axes, keepdims=keep)
    return call.emit(_REDUCTIONS[call.op], x, axes, keepdims=keep, noop_with_empty_axes=1)


@converter("ArgMax", "ArgMin")
def arg(call: Call) -> Value:
    """The first of equals."""
    x = call.operand(0)
    axis = call.axis(call.known_int(1, "axis"), call.rank(x)) if len(call.inputs) > 1 else 0
    if call.dtype(x).kind == "b":
        x = call.cast(x, np.uint8)
    return call.cast(call.emit(call.op, x, axis=axis, keepdims=0), call.dtype_attr("output_type", np.int64))


@converter("Cumsum", "Cumprod")
def cumulative(call: Call) -> Value:
    """Exclusive or reverse, in both."""
    attrs = {name: int(bool(call.attr(name, False))) for name in ("exclusive", "reverse")}
    return call.emit("CumSum" if call.op == "Cumsum" else "CumProd", call.operand(0), call.operand(1), **attrs)
