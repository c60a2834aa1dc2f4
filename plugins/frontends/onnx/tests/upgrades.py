"""What the tests of older operator versions share: nodes, and numbers that every file draws for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper


def drawing(seed: int) -> Callable[..., np.ndarray]:
    """``f32(2, 3)`` draws numbers of that shape, others each time."""
    rng = np.random.default_rng(seed)
    return lambda *shape: rng.standard_normal(shape).astype(np.float32)


def node(op: str, inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",), **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attrs)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
