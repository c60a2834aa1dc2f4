"""Large models without their weights: they are mapped from the file, and are what the whole message has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autofusion.errors import ModelError
from autofusion.frontends import LoadOptions
from autofusion.ir.mapped import mapped_files
from autofusion_frontend_onnx import wire
from autofusion_frontend_onnx.frontend import OnnxFrontend

LARGE = np.arange(wire.TENSOR_BYTES // 4, dtype=np.float32)


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "FILE_BYTES", 1)


def model(*tensors: TensorProto) -> onnx.ModelProto:
    nodes = [helper.make_node("Identity", [t.name], [f"y{i}"], name=f"n{i}") for i, t in enumerate(tensors)]
    outputs = [helper.make_tensor_value_info(f"y{i}", t.data_type, t.dims) for i, t in enumerate(tensors)]
    graph = helper.make_graph(nodes, "g", [], outputs, list(tensors), doc_string="d" * 300)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def constants(path: Path) -> list[np.ndarray]:
    graph = OnnxFrontend().load(path, LoadOptions())
    found = [node.inputs[0].const for node in graph.nodes]
    assert all(array is not None for array in found)
    return found


def test_weights_stay_in_the_file_wherever_they_lie_in_it(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for shift in range(4):  # float32 off its alignment
        tensors = [
            numpy_helper.from_array(LARGE + i, f"w{i}" + "x" * shift)
            if i % 2
            else numpy_helper.from_array(LARGE[:5], "s")
            for i in range(4)
        ]
        del tensors[2]
        path.write_bytes(model(*tensors).SerializeToString())
        found = constants(path)
        for array, tensor in zip(found, tensors, strict=True):
            assert np.array_equal(array, numpy_helper.to_array(tensor)) and not array.flags.writeable
        assert [bool(mapped_files([array])) for array in found] == [False, True, True]


def test_the_message_is_otherwise_the_same(tmp_path: Path) -> None:
    source = model(numpy_helper.from_array(LARGE, "w"))
    source.metadata_props.add(key="k", value="v")
    path = tmp_path / "model.onnx"
    path.write_bytes(source.SerializeToString())
    short = wire.read_without_weights(path)
    assert short is not None and len(short) < 2000
    read = onnx.ModelProto.FromString(short)
    (tensor,) = read.graph.initializer
    entries = {entry.key: entry.value for entry in tensor.external_data}
    start = int(entries["offset"])
    tensor.raw_data = path.read_bytes()[start : start + int(entries["length"])]
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    assert read == source


@pytest.mark.parametrize("cut", [10, 70, 400, 5000])
def test_a_truncated_file_is_refused_as_ever(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model(numpy_helper.from_array(LARGE, "w")).SerializeToString()[:-cut])
    assert wire.read_without_weights(path) is None
    with pytest.raises(ModelError, match="is not an ONNX model"):
        constants(path)


def test_wrong_sizes_are_told_as_ever(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(LARGE, "w")
    tensor.dims[0] += 1
    path = tmp_path / "model.onnx"
    path.write_bytes(model(tensor).SerializeToString())
    with pytest.raises(ModelError, match="initialiser 'w' has"):
        constants(path)


def test_a_file_that_names_itself_only_gets_its_own_bytes(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[8], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", wire.IN_MODEL_FILE), ("offset", "4000000"), ("length", "8")):
        tensor.external_data.add(key=key, value=value)
    path = tmp_path / "model.onnx"
    path.write_bytes(model(tensor).SerializeToString())
    with pytest.raises(ModelError, match="the file is truncated or belongs to another model"):
        constants(path)
