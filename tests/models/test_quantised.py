"""Models quantised by onnxruntime's own quantiser against onnxruntime with its optimisations off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autofusion as af
from tests.zoo.agreement import errors, unoptimised
from tests.zoo.encoder import save_encoder

pytest.importorskip("onnxruntime")

OVER_RANGE, RELATIVE = 1e-2, 2e-3
"""A float operator that rounds its last bit otherwise may move an activation to the next of 256 steps."""


def _quantised(folder: Path, weights: str, per_channel: bool, **sizes: int) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source, path = folder / "float.onnx", folder / "dynamic.onnx"
    save_encoder(source, **sizes)
    quantize_dynamic(source, path, weight_type=QuantType[weights], per_channel=per_channel)
    return path


@pytest.mark.parametrize("level", ["off", "basic", "full"])
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
def test_encoder(weights: str, per_channel: bool, level: str, tmp_path: Path) -> None:
    path = _quantised(tmp_path, weights, per_channel)
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 24, 64)).astype(np.float32)}
    expected, got = unoptimised(path, inputs)["y"], af.compile(path, level=level, threads=2).run(inputs)["y"]
    largest, relative = errors(got, expected)
    assert largest < OVER_RANGE and relative < RELATIVE, (largest, relative)


def _save_quantised_products(path: Path, rng: np.random.Generator) -> None:
    """A QGemm (scales of columns, integer bias) and a QLinearMatMul of its result: ``a`` u8 [64, 200] to ``z``."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-128, 128, shape).astype(np.int8)

    constants = {
        "SA": np.float32(0.02), "ZA": np.uint8(120), "B": weights(96, 200),
        "SB": (rng.random(96) / 50).astype(np.float32), "ZB": np.zeros(96, np.int8),
        "C": rng.integers(-9000, 9000, 96).astype(np.int32), "SY": np.float32(1.1), "ZY": np.uint8(128),
        "W": weights(96, 40), "ZW": np.int8(3), "SZ": np.float32(4),
    }  # fmt: skip
    gemm = ["a", "SA", "ZA", "B", "SB", "ZB", "C", "SY", "ZY"]
    nodes = [
        helper.make_node("QGemm", gemm, ["y"], domain="com.microsoft", transB=1),
        helper.make_node("QLinearMatMul", ["y", "SY", "ZY", "W", "SA", "ZW", "SZ", "ZY"], ["z"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.UINT8, s) for n, s in (("a", [64, 200]), ("z", [64, 40]))]
    data = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], data)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))


@pytest.mark.parametrize("level", ["off", "basic", "full"])
def test_quantised_products_are_the_same_integers(level: str, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(1), tmp_path / "products.onnx"
    _save_quantised_products(path, rng)
    inputs = {"a": rng.integers(0, 256, (64, 200)).astype(np.uint8)}
    got = af.compile(path, level=level, threads=2).run(inputs)["z"]
    np.testing.assert_array_equal(got, unoptimised(path, inputs)["z"])


def _save_blocked(path: Path, rng: np.random.Generator, kind: str) -> np.ndarray:
    """A MatMul of ``x`` [5, 64] by 4-bit weights with a scale for each 32 of a column; returns the weights."""
    import ml_dtypes
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    low, high = (-8, 8) if kind == "int4" else (0, 16)
    weights, scales = rng.integers(low, high, (64, 24)), (rng.random((2, 24)) / 10).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["wd"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "wd"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [5, 64]), ("y", [5, 24]))]
    small = weights.astype(getattr(ml_dtypes, kind))
    data = [numpy_helper.from_array(small, "w"), numpy_helper.from_array(scales, "s")]
    graph = helper.make_graph(nodes, "blocked", ends[:1], ends[1:], data)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), str(path))
    return weights * np.repeat(scales, 32, axis=0)


@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_weights_of_four_bits_are_dequantised_ahead(kind: str, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(2), tmp_path / "blocked.onnx"
    weights = _save_blocked(path, rng, kind)
    x = rng.standard_normal((5, 64)).astype(np.float32)
    session = af.compile(path, threads=2)
    np.testing.assert_allclose(session.run({"x": x})["y"], x @ weights, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["qdq", "qdq_u8u8", "qoperator"])
def test_resnet(recipe: str, tmp_path: Path) -> None:
    """Level full against onnxruntime unoptimised: the same integers, but where float32 rounds a sum otherwise."""
    from tests.zoo import zoo
    from tests.zoo.quantised import save_quantised

    inputs = zoo.inputs("resnet18")
    path = save_quantised(zoo.model_path("resnet18"), tmp_path / "resnet.onnx", recipe, inputs)
    expected, got = unoptimised(path, inputs)["logits"], af.compile(path, threads=2).run(inputs)["logits"]
    largest, relative = errors(got, expected)
    assert largest < OVER_RANGE and relative < 0.05, (largest, relative)
    assert recipe != "qoperator" or largest == 0
