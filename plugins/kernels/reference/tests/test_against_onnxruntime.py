"""The operators with many attributes, over grids of them, against a second implementation."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import numpy as np
import pytest

from plugins.kernels.reference.tests.single import onnxruntime, run

pytest.importorskip("onnxruntime")

F32 = np.float32


def _random(label: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(label.encode()))


def _check(label: str, op: str, inputs: list[Any], outputs: int = 1, tolerance: float = 2e-5, **attrs: Any) -> None:
    try:
        expected = onnxruntime(op, *inputs, outputs=outputs, **attrs)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error):
            pytest.skip(f"onnxruntime: {error}")
        raise
    got = run(op, *inputs, outputs=outputs, **attrs)
    pairs = [(got, expected)] if outputs == 1 else list(zip(got, expected, strict=True))
    for g, e in pairs:
        assert (g.shape, g.dtype) == (e.shape, e.dtype), label
        if g.dtype.kind == "f":
            np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance, err_msg=label)
        else:
            np.testing.assert_array_equal(g, e, err_msg=label)


def _grid(*axes: Any) -> list[Any]:
    return [
        pytest.param(*values, id="-".join(str(v).replace(" ", "") for v in values))
        for values in itertools.product(*axes)
    ]


@pytest.mark.parametrize(
    ("size", "kernel", "strides", "dilations", "pads", "groups"),
    [
        ([9], [3], [2], [2], [1, 2], 1),
        ([8, 7], [3, 3], [1, 1], [1, 1], [1, 1, 1, 1], 1),
        ([8, 7], [3, 2], [2, 1], [1, 2], [0, 2, 1, 0], 2),
        ([8, 7], [1, 1], [2, 3], [1, 1], [0, 0, 0, 0], 4),
        ([9, 9], [5, 5], [1, 1], [1, 1], [2, 2, 2, 2], 4),
        ([5, 6, 7], [2, 3, 2], [1, 2, 1], [2, 1, 1], [1, 0, 1, 0, 1, 1], 2),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_conv(size: Any, kernel: Any, strides: Any, dilations: Any, pads: Any, groups: int, bias: bool) -> None:
    rng = _random("conv")
    x = rng.standard_normal((2, 4, *size), F32)
    w = rng.standard_normal((8, 4 // groups, *kernel), F32)
    inputs = [x, w, rng.standard_normal(8, F32)] if bias else [x, w]
    attrs = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    _check("conv", "Conv", inputs, **attrs)


@pytest.mark.parametrize(
    ("auto", "stride", "kernel", "size"), _grid(["SAME_UPPER", "SAME_LOWER", "VALID"], [1, 2, 3], [2, 3], [7, 8])
)
def test_conv_auto_pad(auto: str, stride: int, kernel: int, size: int) -> None:
    rng = _random("auto")
    x, w = rng.standard_normal((1, 3, size, size), F32), rng.standard_normal((2, 3, kernel, kernel), F32)
    _check(auto, "Conv", [x, w], auto_pad=auto, strides=[stride, stride])
    _check(auto, "MaxPool", [x], auto_pad=auto, strides=[stride, stride], kernel_shape=[kernel, kernel])
    _check(auto, "AveragePool", [x], auto_pad=auto, strides=[stride, stride], kernel_shape=[kernel, kernel])


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"strides": [2, 3]},
        {"strides": [2, 2], "pads": [1, 0, 0, 1]},
        {"strides": [2, 2], "dilations": [2, 1], "output_padding": [1, 1]},
        {"strides": [3, 2], "output_shape": [14, 9]},
        {"strides": [3, 2], "output_shape": [14, 9], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"strides": [2, 1], "auto_pad": "VALID"},
    ],
    ids=str,
)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv_transpose(attrs: dict[str, Any], groups: int) -> None:
    rng = _random("transpose")
    x, w = rng.standard_normal((2, 4, 5, 4), F32), rng.standard_normal((4, 3, 3, 3), F32)
    _check("transpose", "ConvTranspose", [x, w, rng.standard_normal(3 * groups, F32)], group=groups, **attrs)


@pytest.mark.parametrize(
    ("pads", "strides", "dilations", "ceil"),
    _grid([[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]], [[1, 1], [2, 3]], [[1, 1], [2, 1]], [0, 1]),
)
def test_pooling(pads: Any, strides: Any, dilations: Any, ceil: int) -> None:
    x = _random("pool").standard_normal((2, 3, 9, 8), F32)
    attrs = {"kernel_shape": [3, 2], "pads": pads, "strides": strides, "dilations": dilations, "ceil_mode": ceil}
    _check("max", "MaxPool", [x], outputs=2, **attrs)
    for include in (0, 1):
        _check("average", "AveragePool", [x], count_include_pad=include, **attrs)
    _check("lp", "LpPool", [x], tolerance=1e-4, p=3, **attrs)


@pytest.mark.parametrize("order", [0, 1])
def test_max_pool_indices_of_volumes(order: int) -> None:
    x = _random("volume").standard_normal((2, 2, 4, 5, 6), F32)
    attrs = {"kernel_shape": [2, 2, 3], "strides": [1, 2, 2], "storage_order": order}
    _check("volume", "MaxPool", [x], outputs=2, **attrs)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_resize_of_integers(dtype: Any) -> None:
    x = _random("integers").integers(0 if dtype == np.uint8 else -9, 9, (1, 2, 7, 6)).astype(dtype)
    _check("integers", "Resize", [x, None, np.array([1, 1, 0.6, 1.7], F32)], mode="linear")


_NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
_TRANSFORMS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize(
    ("transform", "nearest", "scale"), _grid(_TRANSFORMS, _NEAREST, [(2.0, 3.0), (0.6, 1.7), (0.5, 0.3)])
)
def test_resize_nearest(transform: str, nearest: str, scale: Any) -> None:
    if transform == "half_pixel_symmetric" and scale == (0.6, 1.7):
        scale = (0.61, 1.7)  # at 0.6 a tie hangs on the order of float32 operations
    x = _random("nearest").standard_normal((1, 2, 7, 6), F32)
    inputs = [x, None, np.array([1, 1, *scale], F32)]
    attrs = {"mode": "nearest", "coordinate_transformation_mode": transform, "nearest_mode": nearest}
    _check("nearest", "Resize", inputs, **attrs)


@pytest.mark.parametrize(
    ("mode", "transform", "scale", "antialias"),
    _grid(["linear", "cubic"], _TRANSFORMS, [(2.0, 3.0), (0.6, 1.7), (0.5, 0.3)], [0, 1]),
)
def test_resize_interpolated(mode: str, transform: str, scale: Any, antialias: int) -> None:
    x = _random("linear").standard_normal((1, 2, 9, 11), F32)
    attrs = {"mode": mode, "coordinate_transformation_mode": transform, "antialias": antialias}
    _check(mode, "Resize", [x, None, np.array([1, 1, *scale], F32)], tolerance=1e-4, **attrs)
    if mode == "cubic":
        attrs |= {"exclude_outside": 1, "cubic_coeff_a": -0.5}
        _check(mode, "Resize", [x, None, np.array([1, 1, *scale], F32)], tolerance=1e-4, **attrs)


@pytest.mark.parametrize(("mode", "sizes"), _grid(["nearest", "linear", "cubic"], [(5, 13), (14, 3), (1, 1)]))
def test_resize_to_sizes(mode: str, sizes: Any) -> None:
    x = _random("sizes").standard_normal((1, 2, 7, 6), F32)
    inputs = [x, None, None, np.array([1, 2, *sizes], np.int64)]
    _check(mode, "Resize", inputs, tolerance=1e-4, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_crops(mode: str) -> None:
    x = _random("crop").standard_normal((1, 1, 6, 6), F32)
    roi = np.array([0, 0, 0.3, -0.2, 1, 1, 0.8, 1.3], F32)
    attrs = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    _check("crop", "Resize", [x, roi, None, np.array([1, 1, 5, 7], np.int64)], tolerance=1e-4, **attrs)


@pytest.mark.parametrize(
    ("op", "direction", "linear"), _grid(["RNN", "GRU", "LSTM"], ["forward", "reverse", "bidirectional"], [0, 1])
)
def test_recurrent(op: str, direction: str, linear: int) -> None:
    rng = _random("recurrent")
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    d, hidden, batch, width = (2 if direction == "bidirectional" else 1), 5, 3, 4
    inputs: list[Any] = [
        rng.standard_normal((6, batch, width), F32),
        rng.standard_normal((d, gates * hidden, width), F32),
        rng.standard_normal((d, gates * hidden, hidden), F32),
        rng.standard_normal((d, 2 * gates * hidden), F32),
        np.array([6, 2, 4], np.int32),
        rng.standard_normal((d, batch, hidden), F32),
    ]
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "LSTM":
        inputs += [rng.standard_normal((d, batch, hidden), F32), rng.standard_normal((d, 3 * hidden), F32)]
        attrs["activations"] = ["Sigmoid", "Tanh", "Softsign"] * d
    if op == "GRU":
        attrs["linear_before_reset"] = linear
    if linear:
        attrs["clip"] = 1.5
    _check(op, op, inputs, outputs=3 if op == "LSTM" else 2, tolerance=1e-4, **attrs)


@pytest.mark.parametrize(
    "op",
    [
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSumExp",
        "ReduceSumSquare",
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_reductions(op: str, dtype: Any) -> None:
    x = _random("reduce").integers(-4, 9, (3, 4, 5)).astype(dtype)
    for axes, keep in ([-1], 1), ([0, 2], 0), (None, 1):
        _check(op, op, [x, None if axes is None else np.array(axes, np.int64)], keepdims=keep)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[1, 2, 3, 0], [-1, 0, -2, 1], [0, -1, 2, -1], [3, 3, 3, 3]], ids=str)
def test_pad(mode: str, pads: list[int]) -> None:
    x = _random("pad").standard_normal((4, 5), F32)
    if mode == "reflect" and max(pads) > 3:
        pads = [min(p, 3) for p in pads]
    if mode != "constant" and min(pads) < 0:
        pads = [max(p, 0) for p in pads]  # onnxruntime only crops in constant mode
    _check(mode, "Pad", [x, np.array(pads, np.int64)], mode=mode)


@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [
        ([0], [100], [1]),
        ([-1], [-100], [-1]),
        ([7], [2], [-2]),
        ([3], [-(2**63)], [-1]),
        ([5], [2**63 - 1], [3]),
        ([4], [4], [1]),
    ],
)
def test_slice(starts: Any, ends: Any, steps: Any) -> None:
    x = np.arange(30, dtype=F32).reshape(3, 10)
    inputs = [x, *(np.array(v, np.int64) for v in (starts, ends, [1], steps))]
    _check("slice", "Slice", inputs)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integer_division(dtype: Any) -> None:
    a, b = np.meshgrid(np.arange(-9, 10), [d for d in range(-4, 5) if d])
    if dtype == np.uint8:
        a, b = np.abs(a), np.abs(b)
    _check("div", "Div", [a.astype(dtype), b.astype(dtype)])
    _check("mod", "Mod", [a.astype(dtype), b.astype(dtype)])
    _check("fmod", "Mod", [a.astype(dtype), b.astype(dtype)], fmod=1)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatters(reduction: str) -> None:
    rng = _random("scatter")
    x = rng.standard_normal((4, 5), F32)
    indices = np.array([[0, -1, 2, 1, 0], [3, 3, -4, 0, 2]], np.int64)
    if reduction == "none":
        indices[1] = [1, 2, 3, 3, 3]
    _check("elements", "ScatterElements", [x, indices, rng.standard_normal((2, 5), F32)], axis=0, reduction=reduction)
    where = np.array([[0, 1], [2, 3], [-1, -1]] + ([] if reduction == "none" else [[0, 1]]), np.int64)
    _check("nd", "ScatterND", [x, where, rng.standard_normal(len(where), F32)], reduction=reduction)


@pytest.mark.parametrize(("axis", "largest"), _grid([0, 1, -1], [0, 1]))
def test_top_k_with_ties(axis: int, largest: int) -> None:
    x = _random("topk").integers(0, 4, (6, 7)).astype(F32)
    _check("topk", "TopK", [x, np.array([3], np.int64)], outputs=2, axis=axis, largest=largest)


@pytest.mark.parametrize("selected", [0, 1])
def test_arg_max_with_ties(selected: int) -> None:
    x = _random("arg").integers(0, 3, (4, 6)).astype(F32)
    for op in ("ArgMax", "ArgMin"):
        _check(op, op, [x], axis=1, select_last_index=selected, keepdims=0)


@pytest.mark.parametrize("training", [0, 1])
def test_batch_normalization(training: int) -> None:
    rng = _random("bn")
    x = rng.standard_normal((3, 4, 5, 2), F32)
    parameters = [rng.uniform(0.5, 2, 4).astype(F32) for _ in range(4)]
    _check("bn", "BatchNormalization", [x, *parameters], outputs=3 if training else 1, training_mode=training)


def test_layer_normalization() -> None:
    rng = _random("ln")
    x = rng.standard_normal((3, 4, 5), F32) * 10 + 3
    for axis, shape in (-1, (5,)), (1, (4, 5)), (-2, (4, 5)):
        scale, bias = rng.standard_normal(shape, F32), rng.standard_normal(shape, F32)
        _check("ln", "LayerNormalization", [x, scale, bias], outputs=3, tolerance=1e-4, axis=axis)


@pytest.mark.parametrize(("a_flag", "b_flag"), _grid([0, 1], [0, 1]))
def test_gemm(a_flag: int, b_flag: int) -> None:
    rng = _random("gemm")
    a, b = (
        rng.standard_normal((5, 4) if a_flag else (4, 5), F32),
        rng.standard_normal((3, 5) if b_flag else (5, 3), F32),
    )
    for shape in ((), (3,), (4, 1), (1, 3), (4, 3)):
        c = rng.standard_normal(shape, F32).astype(F32)
        _check("gemm", "Gemm", [a, b, np.asarray(c)], transA=a_flag, transB=b_flag, alpha=0.5, beta=-2.0)


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantisation_per_axis(op: str, dtype: Any) -> None:
    rng = _random("quant")
    x = (
        rng.integers(-100, 100, (3, 4, 5)).astype(dtype)
        if op == "DequantizeLinear"
        else rng.standard_normal((3, 4, 5), F32) * 30
    )
    scale, zero = rng.uniform(0.1, 1, 4).astype(F32), rng.integers(0, 50, 4).astype(dtype)
    _check(op, op, [x, scale, zero], axis=1)
    _check(op, op, [x, np.asarray(scale[0]), np.asarray(zero[0])])


@pytest.mark.parametrize("centre", [0, 1])
def test_non_max_suppression(centre: int) -> None:
    rng = _random("nms")
    low = rng.uniform(0, 10, (2, 30, 2))
    boxes = np.concatenate([low, low + rng.uniform(1, 4, (2, 30, 2))], -1).astype(F32)
    scores = rng.uniform(0, 1, (2, 3, 30)).astype(F32)
    limits = [np.array([6], np.int64), np.array([0.4], F32), np.array([0.3], F32)]
    _check("nms", "NonMaxSuppression", [boxes, scores, *limits], center_point_box=centre)


@pytest.mark.parametrize(
    "op",
    [
        "Gelu",
        "Erf",
        "HardSwish",
        "Mish",
        "Softplus",
        "Selu",
        "Elu",
        "Celu",
        "Sigmoid",
        "Tanh",
        "Softsign",
        "LeakyRelu",
        "ThresholdedRelu",
        "Relu",
        "HardSigmoid",
        "Exp",
        "Sqrt",
    ],
)
def test_functions_at_every_size(op: str) -> None:
    x = np.concatenate([np.linspace(-12, 12, 97), [0.0, -0.0, 1e-30, 1e30, -1e30, np.inf]]).astype(F32)
    if op == "Sqrt":
        x = np.abs(x)
    _check(op, op, [x])


@pytest.mark.parametrize(
    ("a", "b"),
    [((4,), (4,)), ((3, 4), (4,)), ((4,), (2, 4, 3)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 3)), ((3, 0), (0, 2))],
)
def test_matmul_shapes(a: Any, b: Any) -> None:
    rng = _random("matmul")
    _check("matmul", "MatMul", [rng.standard_normal(a, F32), rng.standard_normal(b, F32)])
