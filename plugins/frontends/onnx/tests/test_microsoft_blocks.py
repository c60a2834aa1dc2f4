"""Weights in blocks: products with matrices of 2 to 8 bits, and rows of quantised tables."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from autofusion_frontend_onnx.converters.microsoft.blocks import unpacked
from plugins.frontends.onnx.tests.microsoft import RNG, f32, single, u8
from plugins.frontends.onnx.tests.onnx_models import load, model, run


def _numbers(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first ``count`` numbers of each row of bytes, read bit by bit."""
    out = np.zeros((len(data), count), np.int64)
    for row, column in np.ndindex(out.shape):
        for bit in range(bits):
            place = column * bits + bit
            out[row, column] |= (int(data[row, place // 8]) >> (place % 8) & 1) << bit
    return out


@pytest.mark.parametrize("bits", range(2, 9))
def test_numbers_of_any_width_from_bytes(bits: int) -> None:
    data = u8(3, 8)
    np.testing.assert_array_equal(unpacked(data, bits), _numbers(data, bits, 64 // bits))


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "real"])
@pytest.mark.parametrize("k", [32, 40])
def test_product_by_its_definition(bits: int, zeros: str, k: int) -> None:
    n, size = 6, 16
    blocks = -(-k // size)
    weights, scales = u8(n, blocks, size * bits // 8), np.abs(f32(n, blocks)) / 8
    packed = {"none": None, "packed": u8(n, -(-blocks * bits // 8)), "real": f32(n, blocks) + 2}[zeros]
    a, bias = f32(2, 3, k), f32(n)
    points = np.full((n, blocks), 1 << (bits - 1))
    if packed is not None:
        points = packed if zeros == "real" else _numbers(packed, bits, blocks)
    spread = lambda x: x.repeat(size, 1)[:, :k]  # noqa: E731
    real = (_numbers(weights.reshape(n, -1), bits, blocks * size)[:, :k] - spread(points)) * spread(scales)
    constants = {"B": weights, "S": scales, "Z": packed, "BIAS": bias}
    names = ["a", *(name if value is not None else "" for name, value in constants.items())]
    names.insert(4, "")
    attrs = {"K": k, "N": n, "bits": bits, "block_size": size}
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **attrs)
    graph = load(model([node], {"a": a}, ["y"], constants=constants, domains={"com.microsoft": 1}, opset=21))
    (y,) = run(graph, {"a": a})
    np.testing.assert_allclose(y, a.astype(np.float64) @ real.T + bias, rtol=1e-4, atol=1e-4)


def test_product_without_weights() -> None:
    constants = {"B": np.zeros((0, 2, 8), np.uint8), "S": np.zeros(0, np.float32)}
    attrs = {"K": 32, "N": 6, "bits": 4, "block_size": 16}
    node = helper.make_node("MatMulNBits", ["a", "B", "S"], ["y"], domain="com.microsoft", **attrs)
    a = f32(2, 32)
    (y,) = run(load(model([node], {"a": a}, ["y"], constants=constants, domains={"com.microsoft": 1})), {"a": a})
    np.testing.assert_array_equal(y, np.zeros((2, 6), np.float32))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("columns", [32, 48])
@pytest.mark.parametrize("indices", [[2, 0, -1], [[1], [4]], 3])
def test_rows_of_bytes(bits: int, zeros: bool, columns: int, indices: Any) -> None:
    operands = {
        "TABLE": u8(5, columns * bits // 8),
        "i": np.array(indices, np.int64),
        "SCALES": np.abs(f32(5, columns // 16)),
        "ZEROS": u8(5, -(-(columns // 16) * bits // 8)) if zeros else None,
    }
    single("GatherBlockQuantized", operands, gather_axis=0, quantize_axis=1, block_size=16, bits=bits)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize(("gather", "along"), [(0, 1), (0, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_half_bytes(dtype: Any, gather: int, along: int, zeros: bool) -> None:
    shape = [3, 4, 4]
    shape[along] = 40
    blocks = list(shape)
    blocks[along] = 3
    low = -8 if dtype is ml_dtypes.int4 else 0
    operands = {
        "TABLE": RNG.integers(low, low + 16, shape).astype(dtype),
        "i": np.array([[2, 0], [1, 1]], np.int64),
        "SCALES": np.abs(f32(*blocks)),
        "ZEROS": RNG.integers(low, low + 16, blocks).astype(dtype) if zeros else None,
    }
    single("GatherBlockQuantized", operands, gather_axis=gather, quantize_axis=along, block_size=16)


def test_an_index_that_lies_outside_gives_zeros() -> None:
    operands = {"TABLE": u8(5, 32), "i": np.array([5, 1, -6], np.int64), "SCALES": np.abs(f32(5, 2))}
    fed = {"i": operands["i"]}
    constants = {k: v for k, v in operands.items() if k != "i"}
    attrs = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 8}
    node = helper.make_node("GatherBlockQuantized", list(operands), ["y"], domain="com.microsoft", **attrs)
    (y,) = run(load(model([node], fed, ["y"], constants=constants, domains={"com.microsoft": 1}, opset=21)), fed)
    np.testing.assert_array_equal(y[[0, 2]], np.zeros((2, 32), np.float32))
    assert y[1].any()
