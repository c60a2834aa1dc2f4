"""Whole networks against onnxruntime with its optimisations off: every level computes the same function.

Two numbers are held: the largest difference over the range of an output, and the mean relative difference where the
output is not near zero.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import autofusion as af
from tests.zoo import zoo
from tests.zoo.agreement import MAX_OVER_RANGE, errors, unoptimised

pytest.importorskip("onnxruntime")

LEVELS = ("off", "basic", "full")
GROUPS = ("first", "second")
"""Groups of the zoo that are held to agree."""


@cache
def _reference(name: str, case: int) -> dict[str, np.ndarray]:
    return unoptimised(zoo.model_path(name), zoo.inputs(name, case))


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
