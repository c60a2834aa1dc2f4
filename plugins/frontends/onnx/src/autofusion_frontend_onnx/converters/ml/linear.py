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


def _product(call: Call, rows: int) -> Value:
    x = as_float(call, call.required(0))
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
    if len(np.asarray(call.attr("intercepts") or [])) == 1 and len(names) == 2:
        call.fail("two classes with one row of coefficients are not supported")
    scores = _product(call, len(names))
    best = call.emit("ArgMax", scores, axis=1, keepdims=0)
    label = call.emit("Gather", call.const(names, names.dtype, "labels"), best, axis=0)
    return [label, transformed(call, scores)]
