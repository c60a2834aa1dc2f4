"""Older operator versions: the upgraded graph against onnxruntime on the original model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from autofusion.errors import ModelError, UnsupportedOperatorError
from plugins.frontends.onnx.tests.onnx_models import check_against_ort, load, model
from plugins.frontends.onnx.tests.upgrades import drawing, i64, node

f32 = drawing(0)

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


def test_unknown_operators() -> None:
    inputs = {"x": f32(2)}
    with pytest.raises(ModelError, match=r"'n'.*'Rellu'.*set 17 does not have.*name a domain; did you mean 'Relu'"):
        load(model([helper.make_node("Rellu", ["x"], ["y"], "n")], inputs, ["y"]))
    with pytest.raises(ModelError, match="first appears in operator set 20"):
        load(model([node("Gelu")], inputs, ["y"]))
    with pytest.raises(ModelError, match="unknown attribute 'alpa'; did you mean 'alpha'"):
        load(model([node("LeakyRelu", alpa=0.1)], inputs, ["y"]))
    with pytest.raises(ModelError, match="2 operands; expected 1"):
        load(model([node("Relu", ("x", "x"))], inputs, ["y"]))
    with pytest.raises(ModelError, match="'alpha' has type 2; expected FLOAT"):
        load(model([node("LeakyRelu", alpha=1)], inputs, ["y"]))


def test_all_unknown_operators_are_named_at_once() -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], "first"),
        helper.make_node("Bucketize", ["a"], ["b"], "second"),
        helper.make_node("Frobnicate", ["b"], ["y"], "third"),
    ]
    with pytest.raises(UnsupportedOperatorError) as caught:
        load(model(nodes, {"x": f32(2)}, ["y"]))
    message = str(caught.value)
    assert "Bucketize ('second'; " in message and "Frobnicate ('first' and 1 more; " in message
    assert "did you mean" not in message


def test_every_version_of_every_operator_says_its_attributes_in_the_current_set() -> None:
    """No attribute of any operator version may get lost: each is known now, or the version has a converter."""
    from autofusion.ir.operators import OPSET
    from autofusion_frontend_onnx.registry import TABLE
    from autofusion_frontend_onnx.schemas import FORGOTTEN, schema

    lost = []
    for old in onnx.defs.get_all_schemas_with_history():
        if old.domain or TABLE.find(old.name, old.since_version) is not None:
            continue
        new = schema(old.name, OPSET)
        if new is None:
            continue  # newer than the set, or dropped from it: tested one by one
        names = set(old.attributes) - set(new.attributes) - FORGOTTEN
        retyped = {n for n, a in old.attributes.items() if n in new.attributes and new.attributes[n].type != a.type}
        if names | retyped or len(old.inputs) > len(new.inputs):
            lost.append((old.name, old.since_version, sorted(names | retyped)))
    assert not lost
