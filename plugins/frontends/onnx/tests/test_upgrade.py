"""Older operator versions: the upgraded graph against onnxruntime on the original model, or NumPy before set 7."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import assert_same, check_against_ort, load, model, run

from autofusion.errors import ModelError

RNG = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def node(op: str, inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",), **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attrs)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ONE = {"x": (2, 3, 4, 5)}
SINGLE: list[tuple[str, int, onnx.NodeProto, dict[str, tuple[int, ...]], dict[str, np.ndarray]]] = [
    ("clip max", 7, node("Clip", max=0.5), ONE, {}),
    ("clip min", 9, node("Clip", min=-0.5), ONE, {}),
    ("clip none", 9, node("Clip"), ONE, {}),
    ("reduce axes", 9, node("ReduceMean", axes=[1, 3], keepdims=0), ONE, {}),
    ("reduce all", 9, node("ReduceL2"), ONE, {}),
    ("reduce 13", 13, node("ReduceMax", axes=[-1]), ONE, {}),
    ("reduce sum 12", 12, node("ReduceSum", axes=[-1], keepdims=0), ONE, {}),
    ("reduce sum 13", 13, node("ReduceSum", ("x", "a"), keepdims=0), ONE, {"a": i64(0, 2)}),
    ("reduce logsumexp", 17, node("ReduceLogSumExp", axes=[2]), ONE, {}),
    ("squeeze axes", 11, node("Squeeze", axes=[-2, 0]), {"x": (1, 3, 1, 5)}, {}),
    ("squeeze none", 11, node("Squeeze"), {"x": (1, 3, 1, 5)}, {}),
    ("unsqueeze", 11, node("Unsqueeze", axes=[0, -1]), {"x": (3, 5)}, {}),
    ("split lengths", 11, node("Split", outputs=("y", "z"), axis=1, split=[1, 2]), ONE, {}),
    ("split equal", 11, node("Split", outputs=("y", "z"), axis=0), ONE, {}),
    ("split 13", 13, node("Split", outputs=("y", "z", "w"), axis=1), ONE, {}),
    ("split 13 lengths", 13, node("Split", ("x", "s"), ("y", "z"), axis=1), ONE, {"s": i64(2, 1)}),
    ("split 18", 18, node("Split", outputs=("y", "z"), axis=1, num_outputs=2), ONE, {}),
    ("slice", 9, node("Slice", axes=[1, 3], starts=[0, -3], ends=[2, 10_000]), ONE, {}),
    ("slice no axes", 9, node("Slice", starts=[0, 1], ends=[1, 3]), ONE, {}),
    ("pad", 10, node("Pad", pads=[0, 1, 0, 2, 0, 0, 1, 0], value=1.5), ONE, {}),
    ("pad reflect", 10, node("Pad", pads=[0, 0, 1, 2, 0, 0, 1, 3], mode="reflect"), ONE, {}),
    ("topk", 9, node("TopK", outputs=("y", "z"), k=2, axis=2), ONE, {}),
    ("topk 10", 10, node("TopK", ("x", "k"), ("y", "z")), ONE, {"k": i64(3)}),
    ("upsample 7", 7, node("Upsample", scales=[1.0, 1.0, 2.0, 3.0], mode="nearest"), ONE, {}),
    ("upsample 9", 9, node("Upsample", ("x", "s")), ONE, {"s": np.float32([1, 1, 2, 2])}),
    ("upsample linear", 9, node("Upsample", ("x", "s"), mode="linear"), ONE, {"s": np.float32([1, 1, 2, 2])}),
    ("resize 10", 10, node("Resize", ("x", "s")), ONE, {"s": np.float32([1, 1, 1.6, 2])}),
    ("resize 10 shrink", 10, node("Resize", ("x", "s")), {"x": (1, 1, 8, 9)}, {"s": np.float32([1, 1, 0.6, 0.4])}),
    ("resize 10 both", 10, node("Resize", ("x", "s")), {"x": (1, 1, 8, 9)}, {"s": np.float32([1, 1, 0.6, 2.3])}),
    ("resize 10 linear", 10, node("Resize", ("x", "s"), mode="linear"), ONE, {"s": np.float32([1, 1, 1.6, 0.7])}),
    (
        "resize 11 sizes",
        11,
        node("Resize", ("x", "r", "s", "z"), mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
        ONE,
        {"r": np.float32([]), "s": np.float32([]), "z": i64(2, 3, 7, 9)},
    ),
    (
        "resize 11 cubic",
        11,
        node("Resize", ("x", "r", "s"), mode="cubic", coordinate_transformation_mode="align_corners"),
        ONE,
        {"r": np.float32([]), "s": np.float32([1, 1, 2, 2])},
    ),
    (
        "resize 11 half_pixel_for_nn",
        11,
        node("Resize", ("x", "r", "s"), coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor"),
        ONE,
        {"r": np.float32([]), "s": np.float32([1, 1, 2.5, 3])},
    ),
    ("softmax", 9, node("Softmax"), ONE, {}),
    ("softmax 2", 11, node("Softmax", axis=2), ONE, {}),
    ("softmax last", 11, node("Softmax", axis=-1), ONE, {}),
    ("logsoftmax", 11, node("LogSoftmax", axis=-2), ONE, {}),
    ("hardmax", 11, node("Hardmax", axis=1), ONE, {}),
    ("softmax vector", 12, node("Softmax", axis=0), {"x": (7,)}, {}),
    ("dropout 7", 7, node("Dropout", outputs=("y",), ratio=0.3), ONE, {}),
    ("dropout 10", 10, node("Dropout", outputs=("y",), ratio=0.3), ONE, {}),
    (
        "group norm 18",
        18,
        node("GroupNormalization", ("x", "s", "b"), num_groups=2, epsilon=1e-2),
        {"x": (2, 6, 4, 3)},
        {"s": np.float32([1.5, 2]), "b": np.float32([3, -1])},
    ),
    (
        "scatter",
        9,
        node("Scatter", ("x", "i", "u"), axis=1),
        {"x": (2, 4), "u": (2, 2)},
        {"i": np.array([[0, 2], [3, 1]])},
    ),
    ("concat 4", 7, node("Concat", ("x", "z"), axis=1), {"x": (2, 3), "z": (2, 1)}, {}),
    ("gemm 7", 7, node("Gemm", ("x", "z", "c"), alpha=0.5), {"x": (2, 3), "z": (3, 4), "c": (4,)}, {}),
    ("average pool", 7, node("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 0, 1]), ONE, {}),
    (
        "average pool include",
        7,
        node("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        ONE,
        {},
    ),
    ("max pool indices", 8, node("MaxPool", outputs=("y", "i"), kernel_shape=[2, 2], strides=[2, 2]), ONE, {}),
    ("max pool ceil", 10, node("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), ONE, {}),
    ("lp pool 2", 7, node("LpPool", kernel_shape=[2, 2], p=3), ONE, {}),
    ("prelu 7", 7, node("PRelu", ("x", "s")), ONE, {"s": np.float32([[[0.1]], [[0.2]], [[0.3]]])}),
    ("cast 6", 7, node("Cast", to=onnx.TensorProto.INT32), ONE, {}),
    ("one hot", 9, node("OneHot", ("i", "d", "v")), {}, {"i": i64(1, 0, 2), "d": i64(4), "v": np.float32([0.5, 2])}),
    ("round trip dft", 17, node("DFT", ("x",), axis=1), {"x": (2, 8, 1)}, {}),
    ("grid sample", 16, node("GridSample", ("x", "g"), mode="bilinear"), {"x": (1, 2, 4, 4), "g": (1, 3, 3, 2)}, {}),
    (
        "grid sample cubic",
        16,
        node("GridSample", ("x", "g"), mode="bicubic"),
        {"x": (1, 2, 4, 4), "g": (1, 3, 3, 2)},
        {},
    ),
    (
        "roi align",
        10,
        node("RoiAlign", ("x", "r", "b"), output_height=2, output_width=2, sampling_ratio=2, spatial_scale=1.0),
        {"x": (1, 2, 6, 6)},
        {"r": np.float32([[0.5, 0.5, 4.2, 4.7]]), "b": i64(0)},
    ),
    ("pow 7", 7, node("Pow", ("x", "p")), {}, {"x": np.float32([1, 2, 3]), "p": np.float32([2])}),
    ("arg max 11", 11, node("ArgMax", axis=-1, keepdims=0), ONE, {}),
    ("sum 8", 8, node("Sum", ("x", "z")), {"x": (2, 3), "z": (3,)}, {}),
    ("mean variance 9", 9, node("MeanVarianceNormalization"), ONE, {}),
    ("flatten 1", 7, node("Flatten", axis=2), ONE, {}),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("opset", "made", "shapes", "constants"), [c[1:] for c in SINGLE], ids=[c[0] for c in SINGLE])
def test_against_onnxruntime(
    opset: int,
    made: onnx.NodeProto,
    shapes: dict[str, tuple[int, ...]],
    constants: dict[str, np.ndarray],
    dynamic: bool,
) -> None:
    inputs = {name: f32(*shape) for name, shape in shapes.items()}
    source = model([made], inputs, made.output, opset=opset, constants=constants, dynamic=dynamic, ir_version=8)
    check_against_ort(source, inputs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(opset: int) -> None:
    inputs = {"x": f32(2, 3, 4, 5)}
    parameters = {"s": f32(3), "b": f32(3), "m": f32(3), "v": np.abs(f32(3))}
    made = node("BatchNormalization", ("x", "s", "b", "m", "v"), epsilon=1e-3)
    graph = check_against_ort(model([made], inputs, ["y"], opset=opset, constants=parameters, ir_version=8), inputs)
    (only,) = graph.nodes
    assert only.op == "BatchNormalization" and not only.attr("training_mode", 0) and len(only.outputs) == 1


def test_batch_normalization_in_training_mode() -> None:
    x, scale, bias = f32(2, 3, 4), f32(3), f32(3)
    mean, var = x.mean((0, 2)), x.var((0, 2))
    expected = (x - mean[:, None]) / np.sqrt(var + 1e-5)[:, None] * scale[:, None] + bias[:, None]
    names = ("x", "s", "b", "m", "v")
    constants = {"s": scale, "b": bias, "m": np.zeros(3, np.float32), "v": np.ones(3, np.float32)}
    outputs = ("y", "rm", "rv", "sm", "sv")
    made = node("BatchNormalization", names, outputs, momentum=0.75)
    got = run(load(model([made], {"x": x}, outputs, opset=9, constants=constants)), {"x": x})
    assert_same(got, [expected, mean * 0.25, 0.75 + var * 0.25, mean, var], rtol=1e-4, atol=1e-5)
    made = node("BatchNormalization", names, is_test=0, consumed_inputs=[0, 0])
    assert_same(
        run(load(model([made], {"x": x}, ["y"], opset=5, constants=constants)), {"x": x}), [expected], 1e-4, 1e-5
    )


def test_batch_normalization_for_each_activation() -> None:
    inputs = {"x": f32(2, 3, 4)}
    parameters = {"s": f32(3, 4), "b": f32(3, 4), "m": f32(3, 4), "v": np.abs(f32(3, 4))}
    made = node("BatchNormalization", ("x", "s", "b", "m", "v"), spatial=0)
    check_against_ort(model([made], inputs, ["y"], opset=8, constants=parameters), inputs, rtol=1e-4)


def _recurrent_inputs(op: str, batch_major: bool) -> tuple[dict[str, np.ndarray], list[str], int]:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    swap = (lambda *s: (s[1], s[0], *s[2:])) if batch_major else (lambda *s: s)
    values = {
        "x": f32(*swap(4, 2, 3)),
        "W": f32(2, gates * 5, 3),
        "R": f32(2, gates * 5, 5),
        "B": f32(2, 2 * gates * 5),
        "h": f32(*swap(2, 2, 5)),
    }
    names = ["x", "W", "R", "B", "", "h"]
    if op == "LSTM":
        values["c"] = f32(*swap(2, 2, 5))
        names.append("c")
    return values, names, 3 if op == "LSTM" else 2


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers(op: str) -> None:
    values, names, results = _recurrent_inputs(op, False)
    outputs = [f"y{i}" for i in range(results)]
    made = node(op, names, outputs, hidden_size=5, direction="bidirectional")
    inputs = {k: v for k, v in values.items() if k.islower()}
    constants = {k: v for k, v in values.items() if k.isupper()}
    check_against_ort(model([made], inputs, outputs, opset=7, constants=constants), inputs, rtol=1e-4)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_with_the_batch_first(op: str) -> None:
    values, names, results = _recurrent_inputs(op, True)
    outputs = [f"y{i}" for i in range(results)]
    inputs = {k: v for k, v in values.items() if k.islower()}
    constants = {k: v for k, v in values.items() if k.isupper()}
    made = node(op, names, outputs, hidden_size=5, direction="bidirectional", layout=1)
    got = run(load(model([made], inputs, outputs, constants=constants)), inputs)
    # The same in the other layout, which onnxruntime has kernels for.
    turned = {k: np.swapaxes(v, 0, 1).copy() for k, v in inputs.items()}
    made = node(op, names, outputs, hidden_size=5, direction="bidirectional")
    from onnx_models import ort

    expected = ort(model([made], turned, outputs, constants=constants), turned)
    expected = [expected[0].transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in expected[1:])]
    assert_same(got, expected, rtol=1e-4)


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


@pytest.mark.parametrize("lengths", [None, [2, 4]])
@pytest.mark.parametrize("direction", [0, 1])
def test_scan_8(lengths: list[int] | None, direction: int) -> None:
    f = onnx.TensorProto.FLOAT
    body = helper.make_graph(
        [node("Add", ("s", "t"), ("s1",)), node("Mul", ("s1", "outer"), ("o",))],
        "body",
        [helper.make_tensor_value_info("s", f, [3]), helper.make_tensor_value_info("t", f, [3])],
        [helper.make_tensor_value_info("s1", f, [3]), helper.make_tensor_value_info("o", f, [3])],
    )
    inputs = {"s0": f32(2, 3), "x": f32(2, 4, 3), "outer": f32(3)}
    made = node("Scan", ("" if lengths is None else "l", "s0", "x"), ("s", "y"), body=body, num_scan_inputs=1)
    made.attribute.append(helper.make_attribute("directions", [direction]))
    constants = {} if lengths is None else {"l": np.array(lengths, np.int64)}
    source = model([made], inputs, ["s", "y"], opset=8, constants=constants)
    if lengths is None or direction == 0:
        check_against_ort(source, inputs)
        return
    state, out = inputs["s0"].copy(), np.zeros((2, 4, 3), np.float32)
    for b, length in enumerate(lengths):
        for step, t in enumerate(reversed(range(length))):
            state[b] += inputs["x"][b, t]
            out[b, step] = state[b] * inputs["outer"]
    assert_same(run(load(source), inputs), [state, out])


def test_sequence_map_becomes_a_loop() -> None:
    f = onnx.TensorProto.FLOAT
    body = helper.make_graph(
        [node("Mul", ("e", "outer"), ("m",)), node("Add", ("m", "k"), ("r",))],
        "body",
        [helper.make_tensor_value_info("e", f, None), helper.make_tensor_value_info("k", f, None)],
        [helper.make_tensor_value_info("r", f, None)],
    )
    nodes = [
        node("SequenceConstruct", ("a", "b"), ("s",)),
        node("SequenceMap", ("s", "c"), ("t",), body=body),
        node("ConcatFromSequence", ("t",), ("y",), axis=0),
    ]
    inputs = {"a": f32(2, 3), "b": f32(4, 3), "c": f32(3), "outer": f32(3)}
    graph = load(model(nodes, inputs, ["y"]))
    assert "Loop" in [n.op for n in graph.nodes]
    expected = np.concatenate([inputs["a"], inputs["b"]]) * inputs["outer"] + inputs["c"]
    assert_same(run(graph, inputs), [expected], 1e-6)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool", "ConvTranspose", "LpPool"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_automatic_padding(op: str, mode: str, dynamic: bool) -> None:
    inputs, names, constants, attrs = {"x": f32(1, 2, 7, 8)}, ["x"], {}, {"kernel_shape": [3, 2]}
    if op.startswith("Conv"):
        constants, names = {"w": f32(2, 2, 3, 2)}, ["x", "w"]
    strides = [2, 3]  # for the transposed one, larger than the kernel: what it does not reach is not filled up
    made = node(op, names, auto_pad=mode, strides=strides, **attrs)
    graph = check_against_ort(
        model([made], inputs, ["y"], constants=constants, dynamic=dynamic), inputs, rtol=1e-4, atol=1e-5
    )
    if not dynamic:
        assert "auto_pad" not in graph.nodes[0].attrs and "pads" in graph.nodes[0].attrs


@pytest.mark.parametrize("shape", [[9, 12], [10, 13], [12, 20]])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "NOTSET"])
def test_stated_output_shape(shape: list[int], mode: str) -> None:
    inputs = {"x": f32(1, 2, 5, 6)}
    made = node("ConvTranspose", ("x", "w"), strides=[2, 2], output_shape=shape, auto_pad=mode)
    graph = load(model([made], inputs, ["y"], constants={"w": f32(2, 3, 3, 3)}))
    assert graph.outputs[0].shape == (1, 3, *shape)
    if shape == [12, 20]:
        return  # further than the kernel reaches: onnxruntime refuses, the result is filled up
    check_against_ort(model([made], inputs, ["y"], constants={"w": f32(2, 3, 3, 3)}), inputs, rtol=1e-4, atol=1e-5)


def test_unknown_operators() -> None:
    inputs = {"x": f32(2)}
    with pytest.raises(ModelError, match=r"'n'.*Rellu.*set 17.*no operator 'Rellu'; did you mean 'Relu'"):
        load(model([helper.make_node("Rellu", ["x"], ["y"], "n")], inputs, ["y"]))
    with pytest.raises(ModelError, match="first appears in operator set 20"):
        load(model([node("Gelu")], inputs, ["y"]))
    with pytest.raises(ModelError, match="unknown attribute 'alfa'; did you mean 'alpha'"):
        load(model([node("LeakyRelu", alfa=0.1)], inputs, ["y"]))
    with pytest.raises(ModelError, match="2 operands; expected 1"):
        load(model([node("Relu", ("x", "x"))], inputs, ["y"]))
    with pytest.raises(ModelError, match="'alpha' has type 2; expected FLOAT"):
        load(model([node("LeakyRelu", alpha=1)], inputs, ["y"]))


def test_every_version_of_every_operator_says_its_attributes_in_the_current_set() -> None:
    """No attribute of any operator version may get lost: each is known now, or the version has a converter."""
    from autofusion.ir.operators import OPSET
    from autofusion_frontend_onnx.registry import find_converter
    from autofusion_frontend_onnx.schemas import FORGOTTEN, schema

    lost = []
    for old in onnx.defs.get_all_schemas_with_history():
        if old.domain or find_converter("", old.name, old.since_version) is not None:
            continue
        new = schema(old.name, OPSET)
        if new is None:
            continue  # newer than the set, or dropped from it: tested one by one
        names = set(old.attributes) - set(new.attributes) - FORGOTTEN
        retyped = {n for n, a in old.attributes.items() if n in new.attributes and new.attributes[n].type != a.type}
        if names | retyped or len(old.inputs) > len(new.inputs):
            lost.append((old.name, old.since_version, sorted(names | retyped)))
    assert not lost


@pytest.mark.parametrize("scales", [(2, 3), (0.6, 0.4), (0.6, 2.3)], ids=str)
def test_first_resize_by_computed_scales(scales: tuple[float, ...]) -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 9)).astype(np.float32)
    inputs = {"x": x, "s": np.float32([1, 1, *scales])}
    check_against_ort(model([helper.make_node("Resize", ["x", "s"], ["y"])], inputs, ["y"], opset=10), inputs)
