"""What the tests of single operators share: operands, and named cases that are compared with TensorFlow."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plugins.frontends.tensorflow.tests.tf_graphs import agree


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(zlib.crc32(str(shape).encode())).standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.abs(normal(*shape)) + 0.1


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(1).integers(low, high, shape).astype(dtype)


IMAGE = normal(2, 9, 8, 4)


class Cases(dict[str, tuple[Callable[..., Any], list[np.ndarray]]]):
    """Name -> a function of tensors, and its operands."""

    def add(self, name: str, function: Callable[..., Any], *arrays: np.ndarray) -> None:
        assert name not in self
        self[name] = (function, list(arrays))

    def check(self, name: str, folder: Path, free: Sequence[int] = ()) -> None:
        """The case gives what TensorFlow gives, at levels off and full; the axes in ``free`` are open."""
        function, arrays = self[name]
        free = [axis for axis in free if axis < arrays[0].ndim]
        agree(folder / "model.pb", function, *arrays, free=free, rtol=2e-5, atol=2e-5)
