"""Whole networks against onnxruntime with its optimisations off: every level computes the same function.

onnxruntime unoptimised runs the operators as the file has them, so neither side shares a fusion with the other. Two
numbers are held: the largest difference over the range of an output, and the mean relative difference where the
output is not near zero.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import autofusion as af
import zoo

ort = pytest.importorskip("onnxruntime")

LEVELS = ("off", "basic", "full")
GROUPS = ("first", "second")
"""Groups of the zoo that are held to agree."""

MAX_OVER_RANGE = 1e-4


@cache
def _reference(name: str, case: int) -> dict[str, np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(str(zoo.model_path(name)), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, zoo.inputs(name, case)), strict=True))


def _params() -> list[Any]:
    params = []
    for name, model in zoo.MODELS.items():
        if model.group not in GROUPS:
            continue
        for case, inputs in enumerate(model.cases):
            sizes = "x".join(str(n) for n in next(iter(inputs.values())).shape)
            for level in LEVELS:
                marks = [pytest.mark.slow] if model.slow else []
                params.append(pytest.param(name, case, level, id=f"{name}-{sizes}-{level}", marks=marks))
    return params


def errors(got: np.ndarray, expected: np.ndarray, near_zero: float = 0.0) -> tuple[float, float]:
    """(largest difference / range of `expected`, mean relative difference of the values not near zero)."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    span = float(np.ptp(b)) or float(np.abs(b).max()) or 1.0
    difference = np.abs(a - b)
    kept = np.abs(b) > max(1e-3 * span, near_zero)
    relative = float((difference[kept] / np.abs(b[kept])).mean()) if kept.any() else 0.0
    return float(difference.max()) / span, relative


@pytest.mark.parametrize(("name", "case", "level"), _params())
def test_agrees_with_onnxruntime(name: str, case: int, level: str) -> None:
    model, inputs, expected = zoo.MODELS[name], zoo.inputs(name, case), _reference(name, case)
    shapes = {key: value.shape for key, value in inputs.items()}
    session = af.compile(zoo.model_path(name), shapes=shapes, level=level, threads=2)
    outputs = session.run(inputs)
    assert sorted(outputs) == sorted(expected)
    wrong = []
    for key, want in expected.items():
        got = np.asarray(outputs[key])
        assert (got.dtype, got.shape) == (want.dtype, want.shape), f"output '{key}'"
        assert np.array_equal(np.isfinite(got), np.isfinite(want)), f"output '{key}' is finite at other places"
        largest, mean = errors(got, want, model.near_zero)
        if not (largest <= MAX_OVER_RANGE and mean <= model.mean_relative):
            wrong.append(f"'{key}': largest/range {largest:.2e}, mean relative {mean:.2e}")
    assert not wrong, "; ".join(wrong)


def test_errors_measure_what_they_say() -> None:
    expected = np.float32([0.0, 1.0, 2.0])
    assert errors(np.float32([0.5, 1.0, 2.0]), expected) == (0.25, 0.0)
    assert errors(np.float32([0.0, 1.5, 2.0]), expected) == (0.25, 0.25)
    assert errors(np.float32([0.0, 1.5, 2.0]), expected, near_zero=1.0) == (0.25, 0.0)
