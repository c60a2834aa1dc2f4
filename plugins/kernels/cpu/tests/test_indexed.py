"""The indexed kernels against the reference kernels: every axis and type, indices from both ends and out of range."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import of_array
from autofusion.kernels import InputError, Refusal
from autofusion_kernels_cpu.indexed.offers import offers
from plugins.kernels.cpu.tests.kernel_harness import check, make_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

NEAR = {"rtol": 1e-5, "atol": 1e-5}
ISA = RUNNABLE[0]


def numbers(*shape, dtype=np.float32):
    return (np.random.default_rng(0).uniform(-9, 9, shape)).astype(dtype)


def indices(size, *shape, dtype=np.int64):
    return np.random.default_rng(1).integers(-size, size, shape).astype(dtype)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_gather_elements(isa, axis, dtype, index):
    x = numbers(4, 5, 37, dtype=dtype)
    at = indices(x.shape[axis], 3, 4, 21, dtype=index)
    assert check(offers, "GatherElements", [x, at], {"axis": axis}, isa=isa, threads=2) == ["indexed.GatherElements"]


def test_gather_elements_of_one_axis():
    check(offers, "GatherElements", [numbers(9), indices(9, 40)], {}, isa=ISA)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_scatter_elements(isa, axis, reduction, dtype):
    x, at = numbers(4, 5, 9, dtype=dtype), indices((4, 5, 9)[axis], 3, 4, 9)
    updates = numbers(3, 4, 9, dtype=dtype) if reduction != "none" else np.ones((3, 4, 9), dtype)
    attrs = {"axis": axis, "reduction": reduction}
    names = check(offers, "ScatterElements", [x, at, updates], attrs, isa=isa, threads=2, **NEAR)
    assert names == ["indexed.ScatterElements"]


def test_scatter_of_bytes_keeps_the_last_of_equal_indices():
    x, at = numbers(6, dtype=np.int8), np.array([1, 4, 1, -2])
    check(offers, "ScatterElements", [x, at, np.array([1, 2, 3, 4], np.int8)], {}, isa=ISA)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_scatter_nd(isa, depth, reduction):
    x = numbers(4, 4, 21)
    at = indices(4, 7, depth)
    updates = numbers(7, *x.shape[depth:])
    if reduction == "none":
        updates[...] = 2
    check(offers, "ScatterND", [x, at, updates], {"reduction": reduction}, isa=isa, threads=2, **NEAR)


def test_scatter_nd_of_wide_rows_by_two_threads():
    x, at = numbers(8, 4096), np.array([[3], [3], [1]])
    check(offers, "ScatterND", [x, at, numbers(3, 4096)], {"reduction": "add"}, isa=ISA, threads=2, **NEAR)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_max_unpool(isa):
    at = np.array([[[[5, 7], [13, 14]], [[16, 18], [24, 27]]]])
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    assert check(offers, "MaxUnpool", [numbers(1, 2, 2, 2), at], attrs, isa=isa) == ["indexed.MaxUnpool"]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_reverse_sequence(isa, time, dtype):
    lengths = np.array([0, 1, 5, 3] if time == 0 else [0, 4, 2, 3, 1], np.int64)
    attrs = {"time_axis": time, "batch_axis": 1 - time}
    check(offers, "ReverseSequence", [numbers(5, 4, 3, dtype=dtype), lengths], attrs, isa=isa, threads=2)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [-2, 1])
def test_tensor_scatter(mode, axis):
    cache, update = numbers(2, 6, 6, 5), numbers(2, 6, 6, 5)
    update = update[:, :, :3] if axis == -2 else update[:, :3]
    starts = np.array([3, 5 if mode == "circular" else 0])
    check(offers, "TensorScatter", [cache, np.ascontiguousarray(update), starts], {"mode": mode, "axis": axis}, isa=ISA)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, 0, 2, -3, 40, -40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.bool_])
def test_trilu(isa, upper, k, dtype):
    operands = [numbers(3, 5, 21, dtype=dtype)] + ([] if k is None else [np.array(k)])
    if dtype is np.float32:
        operands[0][0, 0] = np.nan
    check(offers, "Trilu", operands, {"upper": upper}, isa=isa, threads=2, constants=(1,))


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_running(isa, op, axis, exclusive, reverse, dtype):
    x = numbers(3, 4, 19, dtype=dtype)
    attrs = {"exclusive": exclusive, "reverse": reverse}
    assert check(offers, op, [x, np.array(axis)], attrs, isa=isa, threads=2, constants=(1,)) == [f"indexed.{op}"]


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_running_of_other_types(dtype):
    check(offers, "CumSum", [numbers(3, 4, 19, dtype=dtype), np.array(1)], {}, isa=ISA, constants=(1,))


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("part", [0, 8])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_rotary_embedding(isa, interleaved, part, flat, positions):
    x = numbers(2, 5, 3 * 38) if flat else numbers(2, 3, 5, 38)
    half = (part or 38) // 2
    tables = [numbers(*((40,) if positions else (2, 5)), half) for _ in range(2)]
    attrs = {"interleaved": interleaved, "rotary_embedding_dim": part, "num_heads": 3 if flat else 0}
    operands = [x, *tables] + ([indices(20, 2, 5) + 20] if positions else [])
    assert check(offers, "RotaryEmbedding", operands, attrs, isa=isa, threads=2, **NEAR) == ["rotary"]


@pytest.mark.parametrize(
    ("op", "operands", "attrs"),
    [
        ("GatherElements", [numbers(4, 3), np.array([[0, 4, 1]])], {}),
        ("ScatterElements", [numbers(4, 3), np.array([[0, -5, 1]]), numbers(1, 3)], {}),
        ("ScatterND", [numbers(4, 3), np.array([[0, 3]]), numbers(1)], {}),
        ("MaxUnpool", [numbers(1, 1, 1, 1), np.array([[[[4]]]])], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("ReverseSequence", [numbers(4, 2), np.array([5, 1])], {}),
        ("TensorScatter", [numbers(1, 2, 4, 3), numbers(1, 2, 2, 3), np.array([3])], {}),
        ("RotaryEmbedding", [numbers(1, 1, 1, 4), numbers(3, 2), numbers(3, 2), np.array([[3]])], {}),
    ],
)
def test_an_index_out_of_range_is_named(op, operands, attrs):
    shape = {"GatherElements": (1, 3), "MaxUnpool": (1, 1, 2, 2)}.get(op, operands[0].shape)
    with pytest.raises(InputError, match="out of range"):
        check(offers, op, operands, attrs, isa=ISA, expected=[np.zeros(shape, np.float32)])


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        ("GatherElements", [numbers(4, 3), np.zeros((4, 4), np.int64)]),
        ("ScatterElements", [numbers(4, 3), np.zeros((2, 3), np.int64), numbers(2, 2)]),
        ("ScatterND", [numbers(4, 3), np.zeros((2, 1), np.int64), numbers(1, 3)]),
        ("MaxUnpool", [numbers(1, 1, 2, 2), np.zeros((1, 1, 1, 1), np.int64)]),
        ("ReverseSequence", [numbers(4, 2), np.zeros(1, np.int64)]),
        ("TensorScatter", [numbers(2, 2, 4, 3), numbers(2, 2, 5, 3), np.zeros(2, np.int64)]),
        ("RotaryEmbedding", [numbers(1, 1, 2, 4), numbers(3, 2), numbers(3, 2), np.zeros((1, 1), np.int64)]),
    ],
)
def test_operands_that_do_not_fit_are_refused(op, operands):
    node = make_node(op, operands)
    node.output.type = of_array(operands[0])
    assert isinstance(offers(node, target_for(ISA)), Refusal)
