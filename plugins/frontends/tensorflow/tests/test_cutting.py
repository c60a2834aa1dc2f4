"""Values inside a model as its inputs, signatures to choose from, ranks by stated shapes, and what refusals advise."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import autofusion as af  # noqa: E402
from autofusion.errors import AutofusionError, ModelError, OptionError, UnsupportedOperatorError  # noqa: E402
from autofusion.frontends.contract import LoadOptions  # noqa: E402
from autofusion_frontend_tensorflow.frontend import TensorflowFrontend  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import expected, graph_v1  # noqa: E402

pytestmark = pytest.mark.tensorflow

v1 = tf.compat.v1
IMAGE = np.random.default_rng(0).integers(0, 255, (5, 4, 3)).astype(np.uint8)


def decoded() -> None:
    data = v1.placeholder(tf.string, [], "data")
    image = tf.cast(tf.raw_ops.DecodeJpeg(contents=data, channels=3, name="jpeg"), tf.float32)
    tf.reduce_mean(image, [0, 1], name="out")


def queued() -> None:
    queue = v1.FIFOQueue(4, [tf.uint8, tf.int64], name="queue")
    image, label = queue.dequeue(name="dequeue")
    tf.add(tf.reduce_sum(tf.cast(image, tf.float32)), tf.cast(label, tf.float32), name="out")


def looked_up() -> None:
    words = v1.placeholder(tf.string, [None], "words")
    init = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
    ids = tf.lookup.StaticHashTable(init, 0).lookup(words, name="ids")
    tf.gather(tf.constant(np.eye(3, dtype=np.float32)), ids, name="out")


@pytest.mark.parametrize("name", ["jpeg", "jpeg:uint8", "jpeg:u8[5,4,3]", "jpeg:uint8[?, -1, 3]"])
def test_cut_behind_a_decoder(name: str, tmp_path: Path) -> None:
    path = graph_v1(tmp_path / "m.pb", decoded)
    session = af.compile(path, inputs=[name])
    np.testing.assert_allclose(session.run({"jpeg": IMAGE})["out"], IMAGE.mean((0, 1)), rtol=1e-6)
    (input_,) = session.graph.inputs
    assert input_.dtype == np.uint8
    assert input_.shape is not None
    assert input_.shape[2] == 3


def test_cut_behind_a_queue(tmp_path: Path) -> None:
    path = graph_v1(tmp_path / "m.pb", queued)
    session = af.compile(path, inputs=["dequeue", "dequeue:1"])
    got = session.run({"dequeue": IMAGE, "dequeue:1": np.array(7)})
    np.testing.assert_allclose(got["out"], IMAGE.sum() + 7, rtol=1e-6)


def test_cut_behind_a_table(tmp_path: Path) -> None:
    path = graph_v1(tmp_path / "m.pb", looked_up)
    (find,) = [n for n in nodes(path) if n.startswith("LookupTableFind") or "ids" in n]
    got = af.compile(path, inputs=[f"{find}:int64[?]"]).run({find: np.int64([2, 0])})
    np.testing.assert_array_equal(got["out"], np.eye(3)[[2, 0]])


def nodes(path: Path) -> list[str]:
    graph = v1.GraphDef.FromString(path.read_bytes())
    return [n.name for n in graph.node if n.op == "LookupTableFindV2"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jpeg:floot32[1]", "unknown element type 'floot32'"),
        ("jpeg:uint8[1,x]", "not a list of sizes"),
        ("jpg:uint8", "no node 'jpg'.*did you mean 'jpeg'"),
        ("jpeg:uint8[?,?,?,3]", "wrong rank"),
    ],
)
def test_type_that_is_not_one(name: str, message: str, tmp_path: Path) -> None:
    path = graph_v1(tmp_path / "m.pb", decoded)
    with pytest.raises(AutofusionError, match=message):
        af.compile(path, inputs=[name]).run({"jpeg": IMAGE})


@pytest.mark.parametrize(
    ("build", "node"), [(decoded, "jpeg"), (queued, "dequeue"), (looked_up, None)], ids=["decode", "queue", "table"]
)
def test_what_comes_before_the_network_is_to_be_cut_off(build: Any, node: str | None, tmp_path: Path) -> None:
    path = graph_v1(tmp_path / "m.pb", build)
    with pytest.raises(UnsupportedOperatorError, match=f"--input '{node or ''}.*:uint8"):
        af.load(path)


def test_all_unknown_operators_are_named(tmp_path: Path) -> None:
    graph = v1.GraphDef()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    graph.node.add(name="first", op="Foo", input=["x"])
    graph.node.add(name="second", op="Cdist", input=["first", "x"])
    graph.node.add(name="third", op="Foo", input=["second"])
    graph.node.add(name="unread", op="Unread", input=["x"])
    path = tmp_path / "m.pb"
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(UnsupportedOperatorError) as caught:
        af.load(path, outputs=["third"])
    message = str(caught.value)
    assert "Cdist ('second'), Foo ('third' and 1 more)" in message
    assert "Unread" not in message
    assert "did you mean" not in message


def test_graph_that_is_not_frozen(tmp_path: Path) -> None:
    weight = tf.Variable(np.ones((3, 2), np.float32))
    function = tf.function(lambda x: tf.matmul(x, weight), input_signature=[tf.TensorSpec([1, 3], tf.float32)])
    path = tmp_path / "m.pb"
    path.write_bytes(function.get_concrete_function().graph.as_graph_def().SerializeToString())
    with pytest.raises(ModelError, match=r"not frozen.*SavedModel folder"):
        af.load(path)


def test_files_of_keras_and_lite_come_with_advice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("metadata.json", "{}")
    (tmp_path / "m.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    (tmp_path / "m.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(64))
    for name, message in (("m.keras", r"model\.export"), ("m.h5", r"model\.export"), ("m.tflite", "TensorFlow Lite")):
        with pytest.raises(ModelError, match=message):
            af.load(tmp_path / name)


class _Two(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, "x")])
    def encode(self, x: Any) -> Any:
        return {"code": x * 2.0}

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, "code")])
    def decode(self, code: Any) -> Any:
        return {"x": code * 0.5}


def test_signature_of_a_saved_model(tmp_path: Path) -> None:
    module, path = _Two(), tmp_path / "saved"
    tf.saved_model.save(module, str(path), {"encode": module.encode, "decode": module.decode})
    value = np.float32([1, 2])
    np.testing.assert_array_equal(af.compile(path, signature="encode").run({"x": value})["code"], value * 2)
    np.testing.assert_array_equal(af.compile(path, signature="decode").run({"code": value})["x"], value / 2)
    reference_run = TensorflowFrontend().reference(path, LoadOptions(signature="decode"))
    np.testing.assert_array_equal(reference_run({"code": value})["x"], value / 2)
    with pytest.raises(ModelError, match=r"found: decode, encode.*--signature"):
        af.load(path)
    with pytest.raises(OptionError, match=r"no signature 'encoder'.*did you mean 'encode'"):
        af.load(path, signature="encoder")
    with pytest.raises(OptionError, match="no signatures"):
        af.load(graph_v1(tmp_path / "m.pb", decoded), signature="encode")


def test_rank_by_stated_shapes(tmp_path: Path) -> None:
    def build() -> None:
        x = v1.placeholder(tf.float32, None, "x")
        tf.raw_ops.Softmax(logits=tf.raw_ops.BiasAdd(value=x, bias=[1.0, 2.0], data_format="NCHW"), name="out")

    path = graph_v1(tmp_path / "m.pb", build)
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)
    with pytest.raises(ModelError, match="rank of 'x' is not known"):
        af.load(path)
    session = af.compile(path, shapes={"x": x.shape})
    for value in (x, x[..., :2]):
        np.testing.assert_allclose(session.run({"x": value})["out"], expected(path, {"x": value})["out"], rtol=1e-5)


def test_products_of_operands_without_a_rank(tmp_path: Path) -> None:
    def build() -> None:
        x, y = (v1.placeholder(tf.float32, None, name) for name in ("x", "y"))
        raw = tf.raw_ops
        raw.MatMul(a=x, b=y, transpose_a=True, name="matrices")
        z = v1.placeholder(tf.float32, None, "z")
        raw.BatchMatMulV2(x=z, y=z, adj_y=True, name="stack")

    path = graph_v1(tmp_path / "m.pb", build)
    rng = np.random.default_rng(0)
    feeds = {
        n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", (4, 3)), ("y", (4, 2)), ("z", (2, 5, 3, 4)))
    }
    got = af.compile(path).run(feeds)
    for name, want in expected(path, feeds).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5)
