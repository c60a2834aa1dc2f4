"""The standard tests of a frontend, on graphs written here: neither writing nor judging them needs TensorFlow."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from google.protobuf import text_format

from autofusion.testing import FrontendTests
from autofusion.testing.frontends import Model
from autofusion_frontend_tensorflow.protos import graph_def

Arrays = Mapping[str, np.ndarray]
RNG = np.random.default_rng(0)
KERNEL = RNG.standard_normal((3, 3, 3, 4)).astype(np.float32)
WEIGHT = RNG.standard_normal((6, 5)).astype(np.float32)
BIAS = RNG.standard_normal(4).astype(np.float32)
FLOAT = 'attr { key: "T" value { type: DT_FLOAT } }'


def placeholder(name: str, *shape: int) -> str:
    dims = " ".join(f"dim {{ size: {size} }}" for size in shape)
    return (
        f'node {{ name: "{name}" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }}'
        f' attr {{ key: "shape" value {{ shape {{ {dims} }} }} }} }}'
    )


def constant(name: str, array: np.ndarray) -> str:
    kind, field = ("DT_INT32", "int_val") if array.dtype.kind == "i" else ("DT_FLOAT", "float_val")
    dims = " ".join(f"dim {{ size: {size} }}" for size in array.shape)
    values = " ".join(f"{field}: {value!r}" for value in array.ravel().tolist())
    return (
        f'node {{ name: "{name}" op: "Const" attr {{ key: "dtype" value {{ type: {kind} }} }}'
        f' attr {{ key: "value" value {{ tensor {{ dtype: {kind} tensor_shape {{ {dims} }} {values} }} }} }} }}'
    )


def node(name: str, op: str, *inputs: str, attrs: str = FLOAT) -> str:
    return f'node {{ name: "{name}" op: "{op}" {" ".join(f"input: {each!r}" for each in inputs)} {attrs} }}'


def dense() -> tuple[list[str], Arrays, Arrays]:
    """Two results, one of which is used again; the batch is open."""
    x = RNG.standard_normal((3, 6)).astype(np.float32)
    hidden = x @ WEIGHT
    nodes = [
        placeholder("x", -1, 6),
        constant("w", WEIGHT),
        node("hidden", "MatMul", "x", "w"),
        node("act", "Relu", "hidden"),
        node("out", "Softmax", "act"),
    ]
    exp = np.exp(np.maximum(hidden, 0))
    return nodes, {"x": x}, {"out": exp / exp.sum(-1, keepdims=True)}


def convolution() -> tuple[list[str], Arrays, Arrays]:
    """Channels last, padded as the framework pads, with a control edge and a bias."""
    x = RNG.standard_normal((1, 6, 6, 3)).astype(np.float32)
    conv = FLOAT + (
        ' attr { key: "padding" value { s: "SAME" } } attr { key: "data_format" value { s: "NHWC" } }'
        ' attr { key: "strides" value { list { i: 1 i: 1 i: 1 i: 1 } } }'
    )
    nodes = [
        placeholder("x", 1, 6, 6, 3),
        constant("kernel", KERNEL),
        constant("bias", BIAS),
        node("block/conv", "Conv2D", "x", "kernel", attrs=conv),
        node("block/bias", "BiasAdd", "block/conv", "bias"),
        node("block/relu6", "Relu6", "block/bias", "^bias"),
    ]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    result = np.einsum("nhwcij,ijcd->nhwd", windows, KERNEL) + BIAS
    return nodes, {"x": x}, {"block/relu6": np.clip(result, 0, 6)}


def shapes() -> tuple[list[str], Arrays, Arrays]:
    """A result with several outputs, of which one is named, and a shape that is computed."""
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    split = FLOAT + ' attr { key: "num_split" value { i: 2 } }'
    reshape = FLOAT + ' attr { key: "Tshape" value { type: DT_INT32 } }'
    nodes = [
        placeholder("x", 2, 3, 4),
        constant("axis", np.asarray(2, np.int32)),
        constant("flat", np.asarray([2, -1], np.int32)),
        node("split", "Split", "axis", "x", attrs=split),
        node("apart", "Sub", "split:1", "split"),
        node("y", "Reshape", "apart", "flat", attrs=reshape),
    ]
    return nodes, {"x": x}, {"y": (x[:, :, 2:] - x[:, :, :2]).reshape(2, -1)}


GRAPHS: Sequence[Callable[[], tuple[list[str], Arrays, Arrays]]] = (dense, convolution, shapes)


FOLDER = tempfile.TemporaryDirectory(prefix="graphs-")


@functools.cache
def written() -> tuple[Model, ...]:
    """Each graph, as a binary file and as text."""
    found = []
    for make in GRAPHS:
        nodes, inputs, expected = make()
        text = "\n".join(nodes) + "\nversions { producer: 1087 }\n"
        folder = Path(FOLDER.name) / make.__name__
        folder.mkdir()
        (folder / "model.pbtxt").write_text(text)
        (folder / "model.pb").write_bytes(text_format.Parse(text, graph_def()).SerializeToString())
        found += [Model(folder / name, inputs, expected, rtol=1e-4) for name in ("model.pb", "model.pbtxt")]
    return tuple(found)


class TestTensorflow(FrontendTests):
    plugin = "tensorflow"

    @classmethod
    def models(cls) -> Sequence[Model]:
        return written()
