"""Pooling against the reference kernels: windows of every shape, padding, NaN, empty tensors, threads."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import TensorType
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.pooling.offers import offers
from plugins.kernels.cpu.tests.kernel_harness import check, make_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

WINDOWS = [
    ((1, 64, 11, 12), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((2, 5, 23, 41), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((1, 20, 10, 10), {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}),
    ((1, 3, 9, 30), {"kernel_shape": [3, 2], "strides": [1, 3], "pads": [0, 1, 2, 0]}),
    ((1, 17, 14, 13), {"kernel_shape": [3, 3], "dilations": [2, 3], "pads": [2, 2, 1, 2], "strides": [1, 2]}),
    ((1, 2, 7, 8), {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1, "pads": [1, 1, 0, 1]}),
    ((1, 16, 6, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 16, 6, 7), {"kernel_shape": [4, 2], "strides": [3, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 16, 6, 7), {"kernel_shape": [2, 2], "auto_pad": "VALID"}),
    ((2, 19, 31), {"kernel_shape": [4], "strides": [3], "pads": [2, 1]}),
    ((1, 4, 5, 6, 7), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 1, 0, 0, 1, 1]}),
    ((1, 18, 1, 1), {"kernel_shape": [1, 1]}),
    ((1, 16, 3, 3), {"kernel_shape": [3, 3], "pads": [2, 2, 2, 2]}),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("shape", "attrs"), WINDOWS)
def test_windows(isa, op, shape, attrs):
    # All negative: a border read as a value would win a maximum.
    x = -np.abs(np.random.default_rng(0).normal(2.0, 1.0, shape)).astype(np.float32)
    names = check(offers, op, [x], attrs, isa=isa, rtol=2e-6)
    assert {name.rsplit(".", 1)[1] for name in names} == {"blocked", "plain"}


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("shape", "attrs"), WINDOWS)
def test_maxima_of_bytes(isa, dtype, shape, attrs):
    info = np.iinfo(dtype)
    x = np.random.default_rng(5).integers(info.min, info.max + 1, shape).astype(dtype)
    assert check(offers, "MaxPool", [x], attrs, isa=isa) == ["pool.max.blocked"]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_average_counts_padding(isa, ceil_mode):
    x = np.random.default_rng(1).normal(3.0, 1.0, (1, 9, 10, 21)).astype(np.float32)
    attrs = {"kernel_shape": [3, 4], "strides": [2, 3], "pads": [1, 2, 0, 1], "count_include_pad": 1}
    check(offers, "AveragePool", [x], attrs | {"ceil_mode": ceil_mode}, isa=isa, rtol=2e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool"])
@pytest.mark.parametrize("shape", [(1, 3, 7, 7), (2, 33, 5, 1), (1, 16, 129), (1, 2, 3, 4, 5)])
def test_global(isa, op, shape):
    x = np.random.default_rng(2).normal(1.0, 1.0, shape).astype(np.float32)
    check(offers, op, [x], isa=isa, rtol=1e-5)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_nan_and_infinity(isa):
    x = np.random.default_rng(3).normal(0, 1, (1, 17, 19, 19)).astype(np.float32)
    x[0, 3, 4, 5] = np.nan
    x[0, 16, 0, 0] = np.nan
    x[0, 2, 7, 7] = np.inf
    x[0, 1] = -np.inf
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    check(offers, "MaxPool", [x], attrs, isa=isa)
    check(offers, "AveragePool", [x], attrs, isa=isa, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_threads(threads, rows):
    x = np.random.default_rng(4).normal(0, 1, (1, 16, rows, 9)).astype(np.float32)
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    check(offers, "MaxPool", [x], attrs, isa=RUNNABLE[0], threads=threads)


@pytest.mark.parametrize("shape", [(0, 3, 5, 5), (1, 0, 5, 5)])
def test_empty(shape):
    x = np.zeros(shape, np.float32)
    attrs = {"kernel_shape": [2, 2]}
    check(offers, "MaxPool", [x], attrs, isa=RUNNABLE[0], expected=[np.zeros((*shape[:2], 4, 4), np.float32)])


def test_a_new_shape_compiles_nothing():
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    check(offers, "MaxPool", [np.ones((1, 16, 8, 8), np.float32)], attrs, isa=RUNNABLE[0])
    before = jit().counters.snapshot()
    check(offers, "MaxPool", [np.ones((2, 40, 13, 9), np.float32)], attrs, isa=RUNNABLE[0])
    after = jit().counters.snapshot()
    assert (after.compiled, after.cached) == (before.compiled, before.cached)


def test_refuses_what_it_cannot_do():
    target = target_for(RUNNABLE[0])
    node = make_node("MaxPool", [np.zeros((1, 1, 4, 4), np.float64)], {"kernel_shape": [2, 2]})
    node.output.type = TensorType(np.dtype(np.float64), (1, 1, 3, 3))
    answer = offers(node, target)
    assert isinstance(answer, Refusal) and "float64" in answer.reason
    node = make_node("MaxPool", [np.zeros((1, 1, 4, 4), np.float32)], {"kernel_shape": [2, 2]}, outputs=2)
    node.output.type = TensorType(np.dtype(np.float32), (1, 1, 3, 3))
    answer = offers(node, target)
    assert isinstance(answer, Refusal) and "Indices" in answer.reason
