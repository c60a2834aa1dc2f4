"""More of onnxruntime's domain: experts, integer attention, sampling, distances, inverses, recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from plugins.frontends.onnx.tests.microsoft import RNG, f32, i8, scalar, single, u8
from plugins.frontends.onnx.tests.onnx_models import load, model, run


def _i64(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str) -> None:
    grid = (RNG.random((2, 3, 4, 2)) * 3 - 1.5).astype(np.float32)
    single("GridSample", {"x": f32(2, 3, 5, 6), "g": grid}, mode=mode, padding_mode="border")


def test_unique() -> None:
    single("Unique", {"x": np.array([2, 1, 1, 3, 4, 3], np.float32)}, 3)


@pytest.mark.parametrize("step", [None, 2])
def test_range(step: int | None) -> None:
    single("Range", {"a": scalar(1), "b": np.array([9], np.float32), "s": None if step is None else scalar(step)})


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unfolded(dim: int) -> None:
    single("UnfoldTensor", {"x": f32(4, 5, 6)}, dim=dim, size=3, step=2)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric: str) -> None:
    single("CDist", {"a": f32(4, 3), "b": f32(5, 3)}, metric=metric)


@pytest.mark.parametrize("size", [(3, 4), (1, 2), (1, 1)])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_crop_and_resize(mode: str, size: tuple[int, int]) -> None:
    boxes = np.array([[0.1, 0.2, 0.83, 0.91], [-0.2, 0.11, 1.3, 0.62], [0.73, 0.8, 0.2, 0.1]], np.float32)
    operands = {"x": f32(2, 3, 7, 8), "b": boxes, "i": np.array([0, 1, 1], np.int32), "s": np.array(size, np.int32)}
    single("CropAndResize", operands, mode=mode, extrapolation_value=2.5)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_repeated_n_grams(n: int) -> None:
    ids = _i64([1, 2, 3, 1, 2, 4, 1, 2], [5, 5, 5, 5, 5, 5, 5, 5])
    scores = f32(2, 7)
    node = helper.make_node("NGramRepeatBlock", ["i", "s"], ["y"], domain="com.microsoft", ngram_size=n)
    fed = {"i": ids, "s": scores}
    expected = scores.copy()
    for row, words in enumerate(ids):
        tail = words[len(words) - n + 1 :].tolist()
        for at in range(len(words) - n + 1):
            if words[at : at + n - 1].tolist() == tail:
                expected[row, words[at + n - 1]] = -np.inf
    (y,) = run(load(model([node], fed, ["y"], domains={"com.microsoft": 1})), fed)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 5), (1, 1)])
def test_inverse(shape: tuple[int, ...]) -> None:
    x = f32(*shape)
    x[..., 0, 0] = 0 if shape[-1] > 1 else 2  # a pivot has to be looked for
    single("Inverse", {"x": x}, atol=1e-3)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
@pytest.mark.parametrize(("k", "normal"), [(1, 0), (2, 1), (2, 0)])
def test_experts(k: int, normal: int, activation: str) -> None:
    operands = {"x": f32(2, 3, 8), "r": f32(6, 4), "W": f32(4, 12, 8), "B": f32(4, 12), "V": f32(4, 8, 12)}
    attrs = {"k": k, "normalize_routing_weights": normal, "activation_type": activation}
    single("MoE", operands | {"C": f32(4, 8)}, atol=1e-4, **attrs)


@pytest.mark.parametrize("limit", [None, 1.0])
def test_gated_experts(limit: float | None) -> None:
    operands = {"x": f32(6, 8), "r": f32(6, 4), "W": f32(4, 24, 8), "B": f32(4, 24), "V": f32(4, 8, 12)}
    attrs: dict[str, Any] = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7}
    attrs |= {"activation_beta": 1.0} | ({} if limit is None else {"swiglu_limit": limit})
    single("MoE", operands, atol=1e-4, **attrs)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_quantised_experts(zeros: bool, blocks: bool, bits: int) -> None:
    """Compared with the experts that the definition of the weights gives."""
    x, router = f32(5, 32), f32(5, 3)
    packed, real = {}, {}
    for name, (rows, columns) in {"W": (16, 32), "V": (32, 16)}.items():
        numbers = RNG.integers(0, 1 << bits, (3, rows, columns))
        count = columns // 16 if blocks else 1
        scales = np.abs(f32(3, rows, count)) / 8
        points = RNG.integers(0, 1 << bits, (3, rows, count)) if zeros else np.full((3, rows, count), 1 << (bits - 1))
        spread = [v.repeat(columns // count, 2) for v in (points, scales)]
        real[name] = ((numbers - spread[0]) * spread[1]).astype(np.float32)
        flat = points if blocks else points.reshape(3, rows)
        packed[name] = (_bytes(numbers, bits), scales if blocks else scales[..., 0], _bytes(flat, bits))
    attrs: dict[str, Any] = {"k": 2, "activation_type": "silu"}
    plain = model(
        [helper.make_node("MoE", ["x", "r", "W", "", "V"], ["y"], domain="com.microsoft", **attrs)],
        {"x": x, "r": router}, ["y"], constants=real, domains={"com.microsoft": 1},
    )  # fmt: skip
    (w, ws, wz), (v, vs, vz) = packed["W"], packed["V"]
    constants = {"W": w, "WS": ws, "V": v, "VS": vs} | ({"WZ": wz, "VZ": vz} if zeros else {})
    names = ["x", "r", "W", "WS", "", "V", "VS", "", "", "", ""] + (["WZ", "VZ"] if zeros else [])
    attrs |= {"expert_weight_bits": bits} | ({"block_size": 16} if blocks else {})
    node = helper.make_node("QMoE", names, ["y"], domain="com.microsoft", **attrs)
    source = model([node], {"x": x, "r": router}, ["y"], constants=constants, domains={"com.microsoft": 1}, opset=21)
    fed = {"x": x, "r": router}
    np.testing.assert_allclose(run(load(source), fed)[0], run(load(plain), fed)[0], rtol=1e-4, atol=1e-4)


def _bytes(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers along the last axis as bytes, the lowest bits first."""
    stream = (numbers[..., None] >> np.arange(bits)) & 1
    return np.packbits(stream.reshape(*numbers.shape[:-1], -1).astype(np.uint8), axis=-1, bitorder="little")


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [False, True])
def test_integer_attention(past: bool, causal: int) -> None:
    operands = {
        "x": u8(2, 3, 8), "W": i8(8, 24), "b": f32(24), "sx": scalar(0.02), "sw": scalar(0.03), "m": None,
        "zx": scalar(120, np.uint8), "ZW": scalar(3, np.int8), "past": f32(2, 2, 2, 4, 4) if past else None,
    }  # fmt: skip
    single("QAttention", operands, 2 if past else 1, atol=1e-4, num_heads=2, unidirectional=causal)


def test_integer_embeddings() -> None:
    ids, segments = RNG.integers(0, 10, (2, 4)).astype(np.int32), RNG.integers(0, 2, (2, 4)).astype(np.int32)
    tables = {"W": u8(10, 8), "P": u8(6, 8), "S": u8(2, 8), "G": u8(8), "B": u8(8)}
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)
    operands = {"ids": ids, "segments": segments, **tables, "mask": mask}
    operands |= {f"{n}S": scalar(0.01 + 0.01 * i) for i, n in enumerate(tables)}
    operands |= {f"{n}Z": scalar(100 + i, np.uint8) for i, n in enumerate(tables)}
    single("QEmbedLayerNormalization", operands, 2, atol=1e-4)


@pytest.mark.parametrize("activation", ["none", "silu"])
def test_causal_convolution(activation: str) -> None:
    operands = {"x": f32(2, 3, 6), "w": f32(3, 1, 4), "b": f32(3), "past": f32(2, 3, 3)}
    single("CausalConvWithState", operands, 2, activation=activation)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule: str) -> None:
    operands = {
        "q": f32(2, 5, 8), "k": f32(2, 5, 8, scale=0.3), "v": f32(2, 5, 12), "past": f32(2, 2, 4, 6),
        "decay": -np.abs(f32(2, 5, 2)) if "gated" in rule else None,
        "beta": np.abs(f32(2, 5, 2, scale=0.2)) if "delta" in rule else None,
    }  # fmt: skip
    single("LinearAttention", operands, 2, atol=1e-4, update_rule=rule, q_num_heads=2, kv_num_heads=2)
