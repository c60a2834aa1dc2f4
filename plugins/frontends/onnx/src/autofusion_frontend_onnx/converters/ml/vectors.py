"""Support vector machines: kernels of every row with every support vector, then products."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.ml.features import as_float
from autofusion_frontend_onnx.converters.ml.linear import labels, transformed
from autofusion_frontend_onnx.registry import converter

_ML = "ai.onnx.ml"


def _floats(call: Call, name: str) -> np.ndarray:
    return np.asarray(call.attr(name) or (), np.float32)


def _rows(call: Call) -> Value:
    x = as_float(call, call.operand(0))
    return call.emit("Unsqueeze", x, call.ints([0])) if call.rank(x) == 1 else x


def _kernels(call: Call, x: Value, count: int) -> Value:
    """The kernel of every row with every one of ``count`` support vectors, [rows, count]."""
    vectors = _floats(call, "support_vectors").reshape(count, -1)
    kind = call.attr("kernel_type", "LINEAR")
    gamma, shift, degree = (float(v) for v in (*_floats(call, "kernel_params"), 0.0, 0.0, 0.0)[:3])
    if kind == "RBF":
        apart = call.emit("Sub", call.emit("Unsqueeze", x, call.ints([1])), call.const(vectors, F32, "vectors"))
        far = call.emit("ReduceSum", call.emit("Mul", apart, apart), call.ints([2]), keepdims=0)
        return call.emit("Exp", call.emit("Mul", far, call.const(-gamma, F32, "gamma")))
    product = call.emit("MatMul", x, call.const(vectors.T, F32, "vectors"))
    if kind == "LINEAR":
        return product
    if kind not in ("POLY", "SIGMOID"):
        call.fail(f"unknown kernel_type '{kind}'; expected LINEAR, POLY, RBF or SIGMOID")
    scaled = call.emit("Mul", product, call.const(gamma, F32, "gamma"))
    inner = call.emit("Add", scaled, call.const(shift, F32, "shift"))
    return call.emit("Tanh", inner) if kind == "SIGMOID" else call.emit("Pow", inner, call.const(degree, F32, "degree"))


def _weighted(call: Call, kernels: Value, weights: np.ndarray, rho: np.ndarray) -> Value:
    y = call.emit("MatMul", kernels, call.const(weights, F32, "coefficients"))
    return call.emit("Add", y, call.const(rho, F32, "rho"))


@converter("SVMRegressor", domain=_ML)
def regress(call: Call) -> list[Value]:
    """sum_j coefficients[j] K(x, v_j) + rho, [rows, 1]; whether that is positive, as 1 or -1, for one class."""
    x, count = _rows(call), int(call.attr("n_supports", 0))
    coefficients, rho = _floats(call, "coefficients").reshape(-1, 1), _floats(call, "rho")[:1]
    y = _weighted(call, _kernels(call, x, count) if count else x, coefficients, rho)
    if call.attr("one_class", 0):
        inside = call.emit("Greater", y, call.like(0.0, y))
        y = call.emit("Where", inside, call.like(1.0, y), call.like(-1.0, y))
    return [transformed(call, y)]


@converter("SVMClassifier", domain=_ML)
def classify(call: Call) -> list[Value]:
    """The label of each row, and the scores: of every pair of classes, or probabilities of the classes."""
    x, names = _rows(call), labels(call, "classlabels_strings", "classlabels_ints")
    sizes = [int(n) for n in call.attr("vectors_per_class") or ()]
    classes = len(names)
    if not sizes:
        coefficients = _floats(call, "coefficients").reshape(classes, -1)
        scores = _weighted(call, x, coefficients.T, _floats(call, "rho")[:1])
        return [_named(call, names, scores), transformed(call, scores)]
    if classes != len(sizes) or classes < 2:
        call.fail(f"{classes} labels do not fit {len(sizes)} classes of support vectors; expected 2 or more of each")
    pairs = list(itertools.combinations(range(classes), 2))
    decisions = _weighted(call, _kernels(call, x, sum(sizes)), _pair_weights(call, sizes, pairs), _floats(call, "rho"))
    slopes, shifts = _floats(call, "prob_a"), _floats(call, "prob_b")
    if slopes.size:
        if classes > 2:
            call.fail("probabilities of more than two classes are not supported; expected no 'prob_a'")
        scaled = call.emit("Mul", decisions, call.const(-slopes, F32, "prob_a"))
        chance = call.emit("Sigmoid", call.emit("Sub", scaled, call.const(shifts, F32, "prob_b")))
        scores = call.emit("Concat", chance, call.emit("Sub", call.like(1.0, chance), chance), axis=1)
        return [_named(call, names, scores), transformed(call, scores)]
    label = _named(call, names, _votes(call, decisions, classes, pairs))
    scores = decisions
    if classes == 2:
        scores = call.emit("Concat", call.emit("Neg", decisions), decisions, axis=1)
    return [label, transformed(call, scores)]


def _named(call: Call, names: np.ndarray, scores: Value) -> Value:
    """The label of the largest score of each row."""
    best = call.emit("ArgMax", scores, axis=1, keepdims=0)
    return call.emit("Gather", call.const(names, names.dtype, "labels"), best, axis=0)


def _pair_weights(call: Call, sizes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """[vectors, pairs]: those of the first class of a pair count by their weight against the second, and so back."""
    starts = np.cumsum([0, *sizes])
    given = _floats(call, "coefficients").reshape(len(sizes) - 1, -1)
    weights = np.zeros((starts[-1], len(pairs)), np.float32)
    for number, (i, j) in enumerate(pairs):
        for one, row in ((i, j - 1), (j, i)):
            part = slice(starts[one], starts[one + 1])
            weights[part, number] = given[row, part]
    return weights


def _votes(call: Call, decisions: Value, classes: int, pairs: Sequence[tuple[int, int]]) -> Value:
    """How many of its pairs each class wins, [rows, classes]: a positive decision is one for the first of a pair."""
    first, second = np.zeros((2, len(pairs), classes), np.float32)
    for number, (i, j) in enumerate(pairs):
        first[number, i] = second[number, j] = 1
    wins = call.emit("Cast", call.emit("Greater", decisions, call.like(0.0, decisions)), to=F32)
    # wins @ first + (1 - wins) @ second
    turned = call.emit("MatMul", wins, call.const(first - second, F32, "votes"))
    return call.emit("Add", turned, call.const(second.sum(0), F32, "lost"))
