"""Cross-entropies, which graphs with a measure of their own error hold. Results: the loss of each row, its gradient."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def _summed(call: Call, weights: Value, scores: Value) -> Value:
    """The negative of the sum of ``weights`` times the logarithms of the softmax."""
    products = call.emit("Mul", weights, call.emit("LogSoftmax", scores, axis=-1))
    return call.emit("Neg", call.emit("ReduceSum", products, call.ints([1]), keepdims=0))


@converter("SoftmaxCrossEntropyWithLogits", outputs=("loss", "backprop"))
def cross_entropy(call: Call) -> list[Value]:
    """Operands: scores and probabilities [rows, classes], which broadcast."""
    scores, labels = call.operand(0), call.operand(1)
    return [_summed(call, labels, scores), call.emit("Sub", call.emit("Softmax", scores, axis=-1), labels)]


@converter("SparseSoftmaxCrossEntropyWithLogits", outputs=("loss", "backprop"))
def sparse_cross_entropy(call: Call) -> list[Value]:
    """Operands: scores [rows, classes], one class a row. A class out of range gives NaN."""
    scores = call.operand(0)
    dtype, classes = call.dtype(scores), call.as_ints(call.operand(1))
    columns = call.emit("Range", call.ints(0), call.squeeze(call.dim(scores, 1), 0), call.ints(1))
    labels = call.cast(call.emit("Equal", call.unsqueeze(classes, 1), columns), dtype)
    known = call.emit("ReduceMax", labels, call.ints([1]), keepdims=1)
    odd = call.emit(
        "Where", call.emit("Greater", known, call.like(0, known)), call.like(0, known), call.like(np.nan, known)
    )
    loss = call.emit("Add", _picked(call, scores, classes), call.squeeze(odd, 1))
    gradient = call.emit("Sub", call.emit("Softmax", scores, axis=-1), labels)
    return [loss, call.emit("Add", gradient, odd)]


def _picked(call: Call, scores: Value, classes: Value) -> Value:
    """The negative logarithm of the softmax of each row's class; of the first where that is out of range."""
    count = call.squeeze(call.dim(scores, 1), 0)
    inside = call.emit("And", call.emit("Less", classes, count), call.emit("GreaterOrEqual", classes, call.ints(0)))
    place = call.unsqueeze(call.emit("Where", inside, classes, call.ints(0)), 1)
    own = call.emit("GatherElements", call.emit("LogSoftmax", scores, axis=-1), place, axis=1)
    return call.emit("Neg", call.squeeze(own, 1))
