"""Operator versions that onnxruntime no longer has kernels for: the upgraded graph against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from plugins.frontends.onnx.tests.onnx_models import assert_same, load, model, run
from plugins.frontends.onnx.tests.upgrades import drawing, node

f32 = drawing(0)

BROADCAST: list[tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = [
    ("Add", np.add),
    ("Sub", np.subtract),
    ("Mul", np.multiply),
    ("Div", np.divide),
]


@pytest.mark.parametrize(("op", "function"), BROADCAST, ids=[b[0] for b in BROADCAST])
@pytest.mark.parametrize(
    ("axis", "shape", "spread"),
    [
        (1, (3,), (1, 3, 1, 1)),
        (0, (2, 3), (2, 3, 1, 1)),
        (None, (4, 5), (4, 5)),
        (2, (4, 5), (4, 5)),
        (-3, (3,), (3, 1, 1)),
    ],
)
def test_broadcast_before_set_7(
    op: str, function: Callable[..., np.ndarray], axis: int | None, shape: tuple[int, ...], spread: tuple[int, ...]
) -> None:
    inputs = {"x": f32(2, 3, 4, 5), "b": f32(*shape)}
    attrs = {} if axis is None else {"axis": axis}
    made = node(op, ("x", "b"), broadcast=1, **attrs)
    got = run(load(model([made], inputs, ["y"], opset=6)), inputs)
    assert_same(got, [function(inputs["x"], inputs["b"].reshape(spread))])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _selu(x: np.ndarray) -> np.ndarray:
    alpha, gamma = np.float32(1.6732), np.float32(1.0507)
    return gamma * np.where(x > 0, x, alpha * (np.exp(x) - 1))


OLD: list[tuple[str, int, onnx.NodeProto, dict[str, tuple[int, ...]], Callable[..., np.ndarray]]] = [
    ("reshape 1", 4, node("Reshape", shape=[0, -1]), {"x": (2, 3, 4)}, lambda x: x.reshape(2, 12)),
    ("cast 1", 5, node("Cast", to="INT32"), {"x": (2, 3)}, lambda x: x.astype(np.int32)),
    (
        "pad 1",
        1,
        node("Pad", paddings=[0, 1, 2, 0], value=2.0),
        {"x": (2, 3)},
        lambda x: np.pad(x, [(0, 2), (1, 0)], constant_values=2),
    ),
    ("concat 1", 3, node("Concat", ("x", "z")), {"x": (2, 3), "z": (2, 1)}, lambda x, z: np.concatenate([x, z], 1)),
    ("split 1", 1, node("Split", ("x",), ("y",), axis=0, split=[2]), {"x": (2, 3)}, lambda x: x),
    (
        "clip 1",
        5,
        node("Clip", min=-0.2, max=0.2),
        {"x": (3, 4)},
        lambda x: np.clip(x, np.float32(-0.2), np.float32(0.2)),
    ),
    ("relu 1", 5, node("Relu", consumed_inputs=[0]), {"x": (3, 4)}, lambda x: np.maximum(x, 0)),
    (
        "prelu 6",
        6,
        node("PRelu", ("x", "s")),
        {"x": (2, 3, 2, 2), "s": (3,)},
        lambda x, s: np.where(x < 0, x * s[:, None, None], x),
    ),
    ("prelu 6 one", 6, node("PRelu", ("x", "s")), {"x": (2, 3), "s": (1,)}, lambda x, s: np.where(x < 0, x * s, x)),
    ("dropout 6", 6, node("Dropout", is_test=1, ratio=0.2), {"x": (2, 3)}, lambda x: x),
    (
        "gemm 6",
        6,
        node("Gemm", ("x", "w", "b"), broadcast=1, transB=1),
        {"x": (2, 3), "w": (4, 3), "b": (4,)},
        lambda x, w, b: x @ w.T + b,
    ),
    (
        "upsample 1",
        6,
        node("Upsample", height_scale=2.0, width_scale=3.0),
        {"x": (1, 1, 2, 2)},
        lambda x: x.repeat(2, 2).repeat(3, 3),
    ),
    ("selu 1", 5, node("Selu"), {"x": (3, 4)}, _selu),
    (
        "global lp pool 1",
        1,
        node("GlobalLpPool"),
        {"x": (1, 2, 3, 3)},
        lambda x: np.sqrt((x**2).sum((2, 3), keepdims=True)),
    ),
    (
        "lp pool 1",
        1,
        node("LpPool", kernel_shape=[2, 2], p=2.0),
        {"x": (1, 1, 2, 2)},
        lambda x: np.sqrt((x**2).sum((2, 3), keepdims=True)),
    ),
    ("affine", 6, node("Affine", alpha=2.0, beta=1.0), {"x": (2, 3)}, lambda x: x * np.float32(2) + np.float32(1)),
    (
        "scaled tanh",
        6,
        node("ScaledTanh", alpha=2.0, beta=0.5),
        {"x": (2, 3)},
        lambda x: np.float32(2) * np.tanh(x / 2),
    ),
    (
        "parametric softplus",
        6,
        node("ParametricSoftplus", alpha=2.0, beta=0.5),
        {"x": (2, 3)},
        lambda x: 2 * np.log1p(np.exp(x / 2)),
    ),
    ("scale", 6, node("Scale", scale=2.0), {"x": (2, 3)}, lambda x: 2 * x),
    (
        "thresholded relu",
        6,
        node("ThresholdedRelu", alpha=0.3),
        {"x": (2, 3)},
        lambda x: np.where(x > 0.3, x, np.float32(0)),
    ),
    (
        "image scaler",
        6,
        node("ImageScaler", scale=2.0, bias=[1.0, 2.0]),
        {"x": (1, 2, 2, 2)},
        lambda x: 2 * x + np.float32([1, 2]).reshape(2, 1, 1),
    ),
    ("crop border", 6, node("Crop", border=[1, 0, 0, 2]), {"x": (1, 2, 5, 5)}, lambda x: x[:, :, :3, 1:]),
    (
        "crop window",
        6,
        node("Crop", border=[1, 2, 0, 0], scale=[2, 3]),
        {"x": (1, 2, 5, 5)},
        lambda x: x[:, :, 2:4, 1:4],
    ),
]


@pytest.mark.parametrize(("opset", "made", "shapes", "function"), [c[1:] for c in OLD], ids=[c[0] for c in OLD])
def test_against_numpy(
    opset: int, made: onnx.NodeProto, shapes: dict[str, tuple[int, ...]], function: Callable[..., np.ndarray]
) -> None:
    inputs = {name: f32(*shape) for name, shape in shapes.items()}
    got = run(load(model([made], inputs, made.output, opset=opset, ir_version=4)), inputs)
    expected = function(*inputs.values())
    assert_same(got, [expected.astype(expected.dtype if expected.dtype.kind == "i" else np.float32)], 1e-5, 1e-6)


def test_tile_1() -> None:
    inputs = {"x": f32(2, 3)}
    source = model(
        [node("Tile", ("x", "t", "a"))], inputs, ["y"], opset=5, constants={"t": np.float32(2), "a": np.float32(1)}
    )
    assert_same(run(load(source), inputs), [np.tile(inputs["x"], (1, 2))])


def test_dropout_mask_had_the_type_of_the_data() -> None:
    inputs = {"x": f32(2, 3)}
    got = run(load(model([node("Dropout", outputs=("y", "m"))], inputs, ["y", "m"], opset=7)), inputs)
    assert_same(got, [inputs["x"], np.ones((2, 3), np.float32)])
