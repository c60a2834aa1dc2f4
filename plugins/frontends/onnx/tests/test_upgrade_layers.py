"""Older versions of whole layers: normalisation, recurrent layers, loops over elements, automatic padding, resizing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from plugins.frontends.onnx.tests.onnx_models import assert_same, check_against_ort, load, model, ort, run
from plugins.frontends.onnx.tests.upgrades import drawing, node

f32 = drawing(0)


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
    expected = ort(model([made], turned, outputs, constants=constants), turned)
    expected = [expected[0].transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in expected[1:])]
    assert_same(got, expected, rtol=1e-4)


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


@pytest.mark.parametrize("scales", [(2, 3), (0.6, 0.4), (0.6, 2.3)], ids=str)
def test_first_resize_by_computed_scales(scales: tuple[float, ...]) -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 9)).astype(np.float32)
    inputs = {"x": x, "s": np.float32([1, 1, *scales])}
    check_against_ort(model([helper.make_node("Resize", ["x", "s"], ["y"])], inputs, ["y"], opset=10), inputs)
