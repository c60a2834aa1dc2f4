"""Models handed over as something else than a path."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autofusion as af
from autofusion.errors import AutofusionError, InputError, ModelError


def _proto() -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    weight = numpy_helper.from_array(np.array([1, -2, 3], np.float32), "w")
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class SomePath(os.PathLike[str]):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def _file(data: bytes, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "given",
    [
        lambda data, folder: data,
        lambda data, folder: bytearray(data),
        lambda data, folder: memoryview(data),
        lambda data, folder: io.BytesIO(data),
        lambda data, folder: onnx.ModelProto.FromString(data),
        lambda data, folder: SomePath(_file(data, folder)),
        lambda data, folder: _file(data, folder).open("rb"),
    ],
    ids=["bytes", "bytearray", "memoryview", "BytesIO", "ModelProto", "PathLike", "file"],
)
def test_every_form_is_the_same_model(given: Callable[[bytes, Path], Any], tmp_path: Path) -> None:
    data = _proto().SerializeToString()
    session = af.compile(given(data, tmp_path))
    for rows in (1, 2):  # a new shape is planned when whatever was written for the frontend is gone
        x = np.linspace(-1, 1, 3 * rows, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.maximum(x * np.float32([1, -2, 3]), 0))


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    af.load(_proto())
    with pytest.raises(ModelError):
        af.load(b"no model at all")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (3, InputError, "found an object of type int"),
        (None, InputError, "found an object of type NoneType"),
        (b"", InputError, "the model given as bytes is empty"),
        (io.BytesIO(), InputError, "the model read from BytesIO is empty"),
        (
            io.StringIO("text"),
            InputError,
            r"is str, expected bytes: open the file in binary mode",
        ),
        (b"not a model", ModelError, "the model given as bytes"),
        (onnx.ModelProto(ir_version=8), ModelError, "the model given as ModelProto"),
    ],
)
def test_what_is_not_a_model_is_told(given: Any, error: type[AutofusionError], message: str) -> None:
    with pytest.raises(error, match=message):
        af.compile(given)


def test_a_message_that_cannot_be_written_is_told() -> None:
    class Huge:
        def SerializeToString(self) -> bytes:
            raise ValueError("exceeds 2 GB")

    with pytest.raises(ModelError, match=r"given as Huge cannot be written as bytes: exceeds 2 GB; .*external data"):
        af.load(Huge())
