"""Sessions of one file share weights and what is packed of them; a mapped model may be replaced while it is in use."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autofusion as af
from autofusion.errors import ModelError
from autofusion_frontend_onnx import wire
from autofusion_kernels_cpu.packed import _entries

CHANNELS = 64


def write(path: Path, seed: int = 0) -> Path:
    """A convolution with a BatchNormalization to fold, then a product and a table that is read where it lies."""
    rng = np.random.default_rng(seed)
    arrays = {
        "w": rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 24,
        "m": rng.standard_normal((CHANNELS, 400)),
        "table": rng.standard_normal((800, 400)),
    }
    arrays |= {name: rng.uniform(0.5, 1.5, CHANNELS) for name in ("scale", "shift", "mean", "var")}
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["b"]),
        helper.make_node("ReduceMean", ["b"], ["r"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["r", "m"], ["p"]),
        helper.make_node("Gather", ["table", "ids"], ["g"]),
        helper.make_node("Add", ["p", "g"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", CHANNELS, "h", "w"]),
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 400])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def inputs(size: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(size).standard_normal((1, CHANNELS, size, size)).astype(np.float32)
    return {"x": x, "ids": np.array([size])}


def packed_weights() -> set[Any]:
    """Keys of the packed weights of all sessions, those of small arrays left out."""
    return {key for key in _entries._entries if key[0] in ("conv.weights", "conv.winograd", "matmul.panels")}


@pytest.fixture(autouse=True)
def _map_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "FILE_BYTES", 1)


def test_sessions_of_one_file_share_what_is_packed_until_the_last_one_goes(tmp_path: Path) -> None:
    path, known = write(tmp_path / "a.onnx"), packed_weights()
    first = af.compile(path, threads=1)
    expected = first.run(inputs(12))["y"]
    ours = packed_weights() - known
    second = af.compile(path, threads=1)
    assert np.array_equal(second.run(inputs(12))["y"], expected)
    assert len(ours) == 2 and packed_weights() - known == ours
    kept = weakref.ref(_entries._entries[next(iter(ours))])
    del first
    gc.collect()
    assert kept() is not None and np.array_equal(second.run(inputs(12))["y"], expected)
    del second
    gc.collect()
    assert kept() is None


def test_models_of_other_weights_share_nothing_that_differs(tmp_path: Path) -> None:
    one, other = (af.compile(write(tmp_path / f"{seed}.onnx", seed), threads=1) for seed in (1, 2))
    alone = af.compile(write(tmp_path / "alone.onnx", 2), threads=1, level="off")
    one.run(inputs(10))
    assert np.allclose(other.run(inputs(10))["y"], alone.run(inputs(10))["y"], atol=1e-3)


def test_known_shapes_run_on_when_the_model_is_overwritten_and_new_ones_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx")
    session = af.compile(path, threads=1)
    expected = session.run(inputs(12))["y"]
    path.write_bytes(b"\0" * 100)
    assert np.array_equal(session.run(inputs(12))["y"], expected)
    with pytest.raises(ModelError, match=r"m\.onnx' was overwritten while a session"):
        session.run(inputs(13))
    assert np.array_equal(session.run(inputs(12))["y"], expected)


def test_a_model_that_is_deleted_or_replaced_is_used_as_it_was(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx")
    session = af.compile(path, threads=1)
    expected = af.compile(path, threads=1).run(inputs(13))["y"]
    write(tmp_path / "new.onnx", 7).replace(path)
    assert np.array_equal(session.run(inputs(13))["y"], expected)
    path.unlink()
    session.run(inputs(14))
