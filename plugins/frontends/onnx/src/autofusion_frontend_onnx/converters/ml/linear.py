"""Linear models, and what is done with the scores of any model."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.ml.features import as_float
from autofusion_frontend_onnx.registry import converter

_ML = "ai.onnx.ml"


def transformed(call: Call, scores: Value) -> Value:
    """Scores [rows, targets] as ``post_transform`` wants them."""
    kind = call.attr("post_transform", "NONE")
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return call.emit("Sigmoid", scores)
    if kind == "SOFTMAX":
        return call.emit("Softmax", scores, axis=-1)
    call.fail(f"post_transform '{kind}' is not supported; expected NONE, LOGISTIC or SOFTMAX")


def labels(call: Call, strings: str, integers: str) -> np.ndarray:
    """The class labels of a classifier."""
    words = call.attr(strings)
    if words:
        return np.asarray(words, object)
    return np.asarray(call.attr(integers), np.int64)


def of_one_score(call: Call, score: Value, names: np.ndarray, *, threshold: float, rest: bool) -> tuple[Value, Value]:
    """Labels [rows] and scores [rows, 2] of two classes with one score [rows, 1], that of the second class.

    That of the first one is what lacks to one (``rest``, or LOGISTIC), or else the opposite.
    """
    kind = call.attr("post_transform", "NONE")
    if kind not in ("NONE", "LOGISTIC"):
        call.fail(f"post_transform '{kind}' of two classes with one score is not supported; expected NONE or LOGISTIC")
    wins = call.emit("Greater", score, call.like(threshold, score, "threshold"))
    place = call.emit("Cast", call.emit("Squeeze", wins, call.ints([1])), to=np.dtype(np.int64))
    label = call.emit("Gather", call.const(names, names.dtype, "labels"), place, axis=0)
    score = transformed(call, score)
    if rest or kind == "LOGISTIC":
        other = call.emit("Sub", call.like(1.0, score, "one"), score)
    else:
        other = call.emit("Neg", score)
    return label, call.emit("Concat", other, score, axis=1)


def _product(call: Call, rows: int) -> Value:
    x = as_float(call, call.operand(0))
    if call.rank(x) == 1:
        x = call.emit("Unsqueeze", x, call.ints([0]))
    weights = np.asarray(call.attr("coefficients"), np.float32).reshape(rows, -1)
    y = call.emit("MatMul", x, call.const(weights.T, F32, "coefficients"))
    intercepts = call.attr("intercepts")
    return y if not intercepts else call.emit("Add", y, call.const(intercepts, F32, "intercepts"))


@converter("LinearRegressor", domain=_ML)
def regress(call: Call) -> list[Value]:
    """x @ coefficients + intercepts [rows, targets]."""
    return [transformed(call, _product(call, call.attr("targets", 1)))]


@converter("LinearClassifier", domain=_ML)
def classify(call: Call) -> list[Value]:
    """The label of the best class of each row, and the scores of all classes [rows, classes]."""
    names = labels(call, "classlabels_strings", "classlabels_ints")
    if len(call.attr("intercepts") or []) == 1 and len(names) == 2:
        return list(of_one_score(call, _product(call, 1), names, threshold=0.0, rest=True))
    scores = _product(call, len(names))
    best = call.emit("ArgMax", scores, axis=1, keepdims=0)
    label = call.emit("Gather", call.const(names, names.dtype, "labels"), best, axis=0)
    return [label, transformed(call, scores)]
