"""The standard tests of a frontend, on models written here: MindSpore neither writes nor judges them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.testing import FrontendTests
from autofusion.testing.frontends import Model
from plugins.frontends.mindspore.tests.one_primitive import OnePrimitive

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(0)
Made = tuple[OnePrimitive, Any]


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def dense() -> Made:
    """A product with a transposed weight, a bias, a function."""
    x, weight, bias = floats(3, 6), floats(5, 6), floats(5)
    product = x @ weight.T
    built = OnePrimitive("MatMul", (x, weight, False, True), {}, product)
    built.then("BiasAdd", (bias, "NCHW"), {}, product + bias)
    result = np.maximum(product + bias, 0)
    built.then("ReLU", (), {}, result)
    return built, result


def convolution() -> Made:
    """Padding and strides stated as attributes, a clip behind them."""
    x, weight = floats(1, 3, 6, 6), floats(4, 3, 3, 3)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    conv = np.einsum("nchwij,dcij->ndhw", windows, weight)
    attrs = {"kernel_size": (3, 3), "stride": (1, 1, 1, 1), "dilation": (1, 1, 1, 1), "group": 1, "format": "NCHW"}
    attrs |= {"pad_mode": "pad", "pad": (1, 1, 1, 1), "pad_list": (1, 1, 1, 1)}
    built = OnePrimitive("Conv2D", (x, weight), attrs, conv)
    result = np.clip(conv, 0, 6)
    built.then("ReLU6", (), {}, result)
    return built, result


def several() -> Made:
    """A tuple of results."""
    x = floats(2, 6)
    parts = tuple(np.split(x, 2, axis=1))
    return OnePrimitive("Split", (x, 1, 2), {}, parts), parts


NETWORKS: Sequence[Callable[[], Made]] = (dense, convolution, several)
FOLDER = tempfile.TemporaryDirectory(prefix="mindir-")


@functools.cache
def written() -> tuple[Model, ...]:
    """Each network as a file."""
    found = []
    for make in NETWORKS:
        built, results = make()
        path = Path(FOLDER.name) / make.__name__ / "model.mindir"
        path.parent.mkdir()
        path.write_bytes(built.model.SerializeToString())
        inputs = {f"x{i}": x for i, x in enumerate(built.inputs)}
        arrays = results if isinstance(results, tuple) else (results,)
        expected = {f"out{i}": array for i, array in enumerate(arrays)}
        found.append(Model(path, inputs, expected, rtol=1e-4))
    return tuple(found)


class TestMindspore(FrontendTests):
    plugin = "mindspore"

    @classmethod
    def models(cls) -> Sequence[Model]:
        return written()
