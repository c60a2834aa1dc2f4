"""Files: binary, text, folders, and everything that is none of them, each with a message that says what it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import autofusion as af  # noqa: E402
from autofusion.errors import AutofusionError, ModelError, OptionError, UnsupportedOperatorError  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import check, expected, frozen, graph_v1, specs_of  # noqa: E402
from tests.zoo import zoo  # noqa: E402  (after the skip)

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(0).standard_normal((1, 6, 6, 3)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((3, 3, 3, 4)).astype(np.float32)


def network(x: Any) -> Any:
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, WEIGHT, 1, "SAME"), [0.1, 0.2, 0.3, 0.4]))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return frozen(tmp_path / "model.pb", network, specs_of([X]))


def parsed(path: Path) -> Any:
    return tf.compat.v1.GraphDef.FromString(path.read_bytes())


def written(path: Path, graph: Any) -> Path:
    path.write_bytes(graph.SerializeToString())
    return path


def test_binary(model: Path) -> None:
    check(model, {"x0": X}, levels=("off", "basic", "full"))


def test_loading_does_not_import_tensorflow(model: Path) -> None:
    import subprocess

    code = f"import sys, autofusion as af; af.load({str(model)!r}); print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_text(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "model.pbtxt"
    text.write_text("# a comment\n" + str(parsed(model)))
    x = af.compile(text).run({"x0": X})["Identity"]
    np.testing.assert_allclose(x, expected(model, {"x0": X})["Identity"], atol=1e-5)
    # The suffix does not matter.
    named = tmp_path / "text.pb"
    named.write_text(str(parsed(model)))
    assert len(af.load(named)) == len(af.load(model))


def test_truncated(model: Path, tmp_path: Path) -> None:
    data = model.read_bytes()
    for keep in (len(data) - 1, len(data) // 2, 40):
        part = tmp_path / f"part{keep}.pb"
        part.write_bytes(data[:keep])
        with pytest.raises(ModelError, match=r"truncated|complete|damaged"):
            af.load(part)


def test_truncated_anywhere_never_crashes(model: Path, tmp_path: Path) -> None:
    data = model.read_bytes()
    part = tmp_path / "part.pb"
    for keep in range(0, len(data), 7):
        part.write_bytes(data[:keep])
        try:
            af.load(part)
        except AutofusionError as error:
            assert "part.pb" in str(error)


def test_damaged_bytes_never_crash(model: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    data = np.frombuffer(model.read_bytes(), np.uint8)
    bad = tmp_path / "bad.pb"
    for _ in range(150):
        copy = data.copy()
        places = rng.integers(0, len(copy), 3)
        copy[places] = rng.integers(0, 256, 3)
        bad.write_bytes(copy.tobytes())
        try:
            af.load(bad)
        except AutofusionError as error:
            assert "bad.pb" in str(error)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.pb", b"", "an empty file"),
        ("zip.pb", b"PK\x03\x04" + bytes(100), "a zip archive"),
        ("page.pb", b"<!DOCTYPE html><html></html>", "a web page"),
        ("lfs.pb", b"version git-lfs/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
        ("weights.pb", b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5"),
        ("lite.pb", b"\x1c\x00\x00\x00TFL3" + bytes(100), "TensorFlow Lite"),
        ("words.pb", b"these are only words\n", "a text file"),
        ("noise.pb", bytes(range(128, 256)), "not known here"),
    ],
)
def test_other_files(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ModelError, match=words) as caught:
        af.load(path)
    assert name in str(caught.value)


def test_broken_text(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.pbtxt"
    path.write_text(str(parsed(model))[:-40])
    with pytest.raises(ModelError, match=r"text form that is truncated or damaged"):
        af.load(path)


class _Module(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(WEIGHT)

    @tf.function(input_signature=[tf.TensorSpec([None, 6, 6, 3], tf.float32, "image")])
    def __call__(self, image: Any) -> Any:
        return {"features": tf.nn.conv2d(image, self.weight, 1, "SAME")}


def test_saved_model(tmp_path: Path) -> None:
    module = _Module()
    tf.saved_model.save(module, str(tmp_path / "saved"))
    session = af.compile(tmp_path / "saved")
    assert [v.name for v in session.graph.inputs] == ["image"]
    got = session.run({"image": X})
    np.testing.assert_allclose(got["features"], module(X)["features"].numpy(), atol=1e-4)
    # Its graph alone has no weights.
    with pytest.raises(ModelError, match=r"SavedModel.*folder"):
        af.load(tmp_path / "saved" / "saved_model.pb")
    (tmp_path / "saved" / "variables" / "variables.index").unlink()
    with pytest.raises(ModelError, match="cannot load and freeze"):
        af.load(tmp_path / "saved")


@pytest.mark.parametrize("resource", [False, True])
def test_saved_model_of_version_1(resource: bool, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        weight = v1.get_variable("w", [3, 4], use_resource=resource, initializer=v1.random_normal_initializer())
        y = tf.nn.relu(tf.matmul(x, weight))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "saved"), {"rows": x}, {"scores": y})
        value = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
        wanted = session.run(y, {x: value})
    np.testing.assert_allclose(af.compile(tmp_path / "saved").run({"rows": value})["scores"], wanted, atol=1e-6)


def test_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"saved_model\.pb"):
        af.load(tmp_path)


def test_basic_pitch() -> None:
    path, inputs = zoo.model_path("basic_pitch_savedmodel"), zoo.inputs("basic_pitch_savedmodel")
    wanted = expected(path, inputs)
    for level in ("off", "basic", "full"):
        got = af.compile(path, level=level, threads=2).run(inputs)
        assert sorted(got) == sorted(wanted) == ["contour", "note", "onset"]
        for name, want in wanted.items():
            difference = np.abs(got[name] - want)
            assert difference.max() <= 1e-4 * np.ptp(want)
            kept = np.abs(want) > 1e-3 * np.ptp(want)
            assert (difference[kept] / np.abs(want[kept])).mean() <= 1e-5


def test_keras_export(tmp_path: Path) -> None:
    keras = tf.keras
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization(), keras.layers.Flatten()]
    )
    model.export(str(tmp_path / "exported"), verbose=False)
    x = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    session = af.compile(tmp_path / "exported")
    (result,) = session.run({session.graph.inputs[0].name: x}).values()
    np.testing.assert_allclose(result, model(x).numpy(), atol=1e-5)


# ---- what a graph may look like


def test_inputs_and_outputs_can_be_named(model: Path) -> None:
    outputs = [n.name for n in parsed(model).node if n.op in ("Conv2D", "BiasAdd")]
    session = check(model, {"x0": X}, outputs=outputs)
    assert list(session.run({"x0": X})) == outputs
    conv = outputs[0]
    inner = af.compile(model, inputs=[conv])
    value = np.ones((1, 6, 6, 4), np.float32)
    np.testing.assert_allclose(
        inner.run({conv: value})["Identity"], np.maximum(value + np.float32([0.1, 0.2, 0.3, 0.4]), 0), atol=1e-6
    )
    with pytest.raises(OptionError, match="no node 'Conv2d'"):
        af.load(model, outputs=["Conv2d"])
    with pytest.raises(OptionError, match="no node 'y'"):
        af.load(model, inputs=["y"])


def test_inputs_of_which_only_the_shape_or_nothing_counts(tmp_path: Path) -> None:
    def build() -> None:
        x, y, z = (tf.compat.v1.placeholder(tf.float32, X.shape, name=n) for n in ("x", "y", "z"))
        with tf.control_dependencies([y]):
            two = tf.constant(2.0)
        tf.add(z * two, tf.raw_ops.OnesLike(x=x), name="out")

    check(graph_v1(tmp_path / "m.pb", build), {"x": X, "y": X, "z": X})


def test_inputs_that_do_not_suffice(tmp_path: Path) -> None:
    path = frozen(tmp_path / "m.pb", lambda x, y: tf.exp(x) + y, specs_of([X, X]))
    exp = next(n.name for n in parsed(path).node if n.op == "Exp")
    with pytest.raises(OptionError, match="also need x1"):
        af.load(path, inputs=[exp])


def test_input_in_front_of_what_is_unknown(tmp_path: Path) -> None:
    path = frozen(tmp_path / "m.pb", lambda x: tf.math.digamma(x) * 2.0, specs_of([X]))
    unknown = next(n.name for n in parsed(path).node if n.op == "Digamma")
    got = af.compile(path, inputs=[unknown]).run({unknown: X})
    np.testing.assert_allclose(got["Identity"], X * 2)


def test_unknown_operator(tmp_path: Path) -> None:
    graph = tf.compat.v1.GraphDef()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    graph.node.add(name="block/strange", op="Relux", input=["x"])
    path = written(tmp_path / "m.pb", graph)
    with pytest.raises(UnsupportedOperatorError) as caught:
        af.load(path)
    message = str(caught.value)
    for part in (
        "'Relux'",
        "'block/strange'",
        "m.pb",
        "did you mean 'Relu'",
        "autofusion.converters.tensorflow",
        "contrib",
    ):
        assert part in message


def test_unfrozen_graph(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 3], "x")
        weight = v1.get_variable("w", [3, 4], use_resource=True)
        tf.matmul(x, weight, name="out")
    with pytest.raises(ModelError, match="not frozen"):
        af.load(written(tmp_path / "m.pb", graph.as_graph_def()), outputs=["out"])


def test_attributes_left_out_have_tensorflows_defaults(model: Path, tmp_path: Path) -> None:
    graph = parsed(model)
    for node in graph.node:
        for name in ("data_format", "dilations", "explicit_paddings", "use_cudnn_on_gpu"):
            node.attr.pop(name, None)
    path = written(tmp_path / "stripped.pb", graph)
    np.testing.assert_array_equal(
        af.compile(path).run({"x0": X})["Identity"], af.compile(model).run({"x0": X})["Identity"]
    )


def test_constants_by_value_lists(tmp_path: Path) -> None:
    graph = tf.compat.v1.GraphDef()
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    x.attr["shape"].shape.dim.add(size=4)
    for name, values in (("last", [1.0, 2.0]), ("none", [])):
        node = graph.node.add(name=name, op="Const")
        node.attr["dtype"].type = 1
        tensor = node.attr["value"].tensor
        tensor.dtype = 1
        tensor.tensor_shape.dim.add(size=4)
        tensor.float_val.extend(values)
    graph.node.add(name="a", op="AddV2", input=["x", "last"])
    graph.node.add(name="out", op="AddV2", input=["a", "none"])
    got = af.compile(written(tmp_path / "m.pb", graph)).run({"x": np.zeros(4, np.float32)})
    np.testing.assert_array_equal(got["out"], [1, 2, 2, 2])


TYPES = ("float64", "float16", "bfloat16", "int8", "uint8", "int16", "int64", "bool", "uint16")


@pytest.mark.parametrize("name", TYPES)
def test_numbers_of_every_type(name: str, tmp_path: Path) -> None:
    data, x = tf.cast(tf.constant([[0, 1], [2, 1]]), tf.as_dtype(name)), X[0, 0, :2, :2]
    path = frozen(tmp_path / "m.pb", lambda x0: tf.cast(data, tf.float32) + x0, specs_of([x]))
    wanted = [[0, 1], [1, 1]] if name == "bool" else [[0, 1], [2, 1]]
    np.testing.assert_allclose(af.compile(path).run({"x0": x})["Identity"], x + np.float32(wanted))


def test_channels_first(tmp_path: Path) -> None:
    graph = tf.compat.v1.GraphDef()
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    for size in (1, 3, 6, 6):
        x.attr["shape"].shape.dim.add(size=size)
    weight = graph.node.add(name="w", op="Const")
    weight.attr["dtype"].type = 1
    weight.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(WEIGHT))
    bias = graph.node.add(name="b", op="Const")
    bias.attr["dtype"].type = 1
    bias.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.float32([1, 2, 3, 4])))
    conv = graph.node.add(name="conv", op="Conv2D", input=["x", "w"])
    conv.attr["padding"].s = b"SAME"
    conv.attr["strides"].list.i.extend([1, 1, 2, 2])
    conv.attr["data_format"].s = b"NCHW"
    add = graph.node.add(name="add", op="BiasAdd", input=["conv", "b"])
    add.attr["data_format"].s = b"NCHW"
    pool = graph.node.add(name="out", op="MaxPool", input=["add"])
    pool.attr["padding"].s = b"VALID"
    pool.attr["data_format"].s = b"NCHW"
    pool.attr["ksize"].list.i.extend([1, 1, 2, 2])
    pool.attr["strides"].list.i.extend([1, 1, 1, 1])
    got = af.compile(written(tmp_path / "m.pb", graph)).run({"x": X.transpose(0, 3, 1, 2).copy()})["out"]
    last = tf.nn.max_pool2d(tf.nn.bias_add(tf.nn.conv2d(X, WEIGHT, 2, "SAME"), [1.0, 2.0, 3.0, 4.0]), 2, 1, "VALID")
    np.testing.assert_allclose(got, last.numpy().transpose(0, 3, 1, 2), atol=1e-5)


def test_default_is_the_input_where_there_is_no_other(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder_with_default(tf.constant([1.0, 2.0]), [2], "x")
        tf.multiply(x, 3.0, name="out")
    session = af.compile(written(tmp_path / "m.pb", graph.as_graph_def()))
    np.testing.assert_array_equal(session.run({})["out"], [3, 6])
    np.testing.assert_array_equal(session.run({"x": np.float32([5, 7])})["out"], [15, 21])


def test_default_can_be_named_as_an_input(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2], "x")
        keep = tf.compat.v1.placeholder_with_default(tf.constant(1.0), [], "keep")
        tf.divide(x, keep, name="out")
    path = written(tmp_path / "m.pb", graph.as_graph_def())
    value = np.float32([2, 4])
    np.testing.assert_array_equal(af.compile(path).run({"x": value})["out"], value)
    session = af.compile(path, inputs=["x", "keep"])
    np.testing.assert_array_equal(session.run({"x": value, "keep": np.array(4, np.float32)})["out"], value / 4)


@pytest.mark.parametrize("epilogue", [["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Elu"], ["BiasAdd", "LeakyRelu"]])
def test_fused_product(epilogue: list[str], tmp_path: Path) -> None:
    graph = tf.compat.v1.GraphDef()
    for name, shape in (("x", (2, 6)), ("w", (6, 5)), ("b", (5,))):
        node = graph.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = 1
        for size in shape:
            node.attr["shape"].shape.dim.add(size=size)
    fused = graph.node.add(name="out", op="_FusedMatMul", input=["x", "w", "b"])
    fused.attr["T"].type = 1
    fused.attr["num_args"].i = 1
    fused.attr["fused_ops"].list.s.extend(name.encode() for name in epilogue)
    fused.attr["leakyrelu_alpha"].f = 0.3
    path = written(tmp_path / "m.pb", graph)
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", (2, 6)), ("w", (6, 5)), ("b", (5,)))}
    check(path, feeds)


def test_dilated_convolutions_are_found(tmp_path: Path) -> None:
    line = np.random.default_rng(0).standard_normal((2, 16, 4)).astype(np.float32)
    for padding in ("same", "causal", "valid"):
        layer = tf.keras.layers.Conv1D(5, 3, dilation_rate=2, padding=padding)
        layer(line)
        path = frozen(tmp_path / f"{padding}.pb", lambda x, layer=layer: layer(x), specs_of([line]))
        check(path, {"x0": line})
        (conv,) = [node for node in af.load(path).nodes if node.op == "Conv"]
        assert conv.attrs["dilations"] == [1, 2]


def test_dropout_of_version_1(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [4, 3], "x")
        keep = v1.placeholder_with_default(tf.constant(1.0), [], "keep")
        kept = tf.floor(keep + v1.random_uniform(tf.shape(x)))
        tf.multiply(tf.divide(x, keep) * kept, 2.0, name="out")
    path = written(tmp_path / "m.pb", graph.as_graph_def())
    assert any(node.op == "RandomUniform" for node in parsed(path).node)
    value = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    for level in ("off", "full"):
        np.testing.assert_array_equal(af.compile(path, level=level).run({"x": value})["out"], value * 2)


def test_branch_without_a_reader(tmp_path: Path) -> None:
    def build() -> None:
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [2, 4], name="x")
        training = v1.placeholder_with_default(False, [], "training")
        tf.add(v1.cond(training, lambda: tf.nn.dropout(x, 0.5), lambda: tf.identity(x)), 1.0, name="out")

    check(graph_v1(tmp_path / "m.pb", build), {"x": np.ones((2, 4), np.float32)})


@pytest.mark.parametrize("training", [False, True])
def test_training_switch_of_version_1(training: bool, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    statistics = {"scale": [1.0, 2.0, 3.0], "offset": [0.1, 0.2, 0.3]}
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [2, 4, 4, 3], "x")
            flag = v1.placeholder_with_default(tf.constant(training), [], "training")
            learn = lambda: v1.nn.fused_batch_norm(x, **statistics)[0]  # noqa: E731
            infer = lambda: v1.nn.fused_batch_norm(  # noqa: E731
                x, **statistics, mean=[0.5, 0.0, 1.0], variance=[1.0, 2.0, 3.0], is_training=False
            )[0]
            tf.nn.relu(v1.cond(flag, learn, infer), name="out")
    finally:
        v1.enable_control_flow_v2()
    path = written(tmp_path / "m.pb", graph.as_graph_def())
    value = np.random.default_rng(0).standard_normal((2, 4, 4, 3)).astype(np.float32)
    session = check(path, {"x": value})
    assert not any(node.op == "If" for node in session.graph.nodes)
