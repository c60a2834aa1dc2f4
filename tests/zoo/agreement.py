"""How far results are from those of onnxruntime with its optimisations off.

onnxruntime unoptimised runs the operators as the file has them, so neither side shares a fusion with the other.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

MAX_OVER_RANGE = 1e-4


def unoptimised(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name of the model at `path` in onnxruntime."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def errors(got: np.ndarray, expected: np.ndarray, near_zero: float = 0.0) -> tuple[float, float]:
    """(largest difference / range of `expected`, mean relative difference of the values not near zero)."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    span = float(np.ptp(b)) or float(np.abs(b).max()) or 1.0
    difference = np.abs(a - b)
    kept = np.abs(b) > max(1e-3 * span, near_zero)
    relative = float((difference[kept] / np.abs(b[kept])).mean()) if kept.any() else 0.0
    return float(difference.max()) / span, relative
