"""All ONNX files of published wheels load at every level and agree with onnxruntime, unoptimised."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import autofusion
from tests.zoo import wheels

LEVELS = ("off", "basic", "full")
NEAR, SMALL = 1e-3, 1e-6
"""Of the range of an output, and absolute: some networks end in thousandths of what cancels out inside."""


@pytest.mark.slow
def test_every_file_agrees_at_every_level() -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wrong, files = [], wheels.files()
    for path in files:
        feeds, expected = wheels.feeds_and_answers(onnxruntime.InferenceSession(str(path), options))
        for level in LEVELS:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # a quarantined kernel
                got = autofusion.compile(path, level=level, threads=2).run(feeds).values()
            for number, (a, b) in enumerate(zip(got, expected, strict=True)):
                limit = SMALL + NEAR * np.max(np.abs(b), initial=0, where=np.isfinite(b))
                if (
                    a.shape != b.shape
                    or a.dtype != b.dtype
                    or not np.allclose(a, b, rtol=0, atol=limit, equal_nan=True)
                ):
                    wrong.append(f"{path.name} at level {level}, output {number}")
    assert len(files) >= 40
    assert not wrong
