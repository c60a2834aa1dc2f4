"""Sessions are closed, copied and pickled; feeds that are not a mapping are told, and may be of other libraries."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autofusion as af
from autofusion.errors import InputError, ModelError
from autofusion.ir.graph import Graph
from autofusion.plugins.registry import default_registry

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nodes = [helper.make_node("Relu", ["x"], ["r"], name="relu"), helper.make_node("Exp", ["r"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(tmp_path / "m.onnx")
    )
    return tmp_path / "m.onnx"


def test_a_closed_session_lets_go_of_everything_and_says_so(path: Path) -> None:
    with af.compile(path, threads=1) as session:
        session.run({"x": X})
        assert session.statistics().kept == 1
    assert session.statistics().kept == 0 and session.statistics().plans == 1 and not session.context.cache
    for act in (
        lambda: session.run({"x": X}),
        lambda: session(X),
        lambda: session.prepare({"x": (3, 4)}),
        session.__enter__,
    ):
        with pytest.raises(InputError, match="the session of 'g' is closed: compile the model again"):
            act()
    session.close()


def test_a_pickle_is_compiled_again_with_the_same_options(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = Path("settings.toml")
    config.write_text('[fusion]\nlevel = "basic"\n', "utf-8")
    first = af.compile("m.onnx", threads=1, disable_sites={"relu"}, config=config, plan_limit=3, shapes={"x": (3, 4)})
    data = pickle.dumps(first)
    monkeypatch.chdir("/")
    for again in (pickle.loads(data), copy.deepcopy(first), copy.copy(first)):
        assert again is not first and again.context.options == first.context.options
        assert again.statistics().kept == 1 and np.array_equal(again.run({"x": X})["y"], first.run({"x": X})["y"])
    path.unlink()
    with pytest.raises(ModelError, match=r"m\.onnx"):
        pickle.loads(data)


def test_a_session_of_a_graph_or_with_a_registry_says_why_it_is_not_pickled(path: Path) -> None:
    graph = Graph("made")
    graph.add_output(graph.node("Relu", [graph.add_input("x", af.load(path).inputs[0].type)]).outputs[0], "y")
    for session in (af.compile(graph, threads=1), af.compile(path, threads=1, registry=default_registry())):
        with pytest.raises(TypeError, match="cannot be copied or pickled: it was not compiled from a file alone"):
            pickle.dumps(session)


@pytest.mark.parametrize(
    ("given", "found"), [([X], "a list of 1"), (None, "None"), (X, "an object of type ndarray"), ((), "a tuple of 0")]
)
def test_feeds_that_are_not_a_mapping_are_told(path: Path, given: Any, found: str) -> None:
    with pytest.raises(
        InputError, match=rf"expected a mapping from input names.*'x' f32\[n, 4\].*found {found}; inputs in"
    ):
        af.compile(path, threads=1).run(given)


class Tensor:
    """A tensor of a library that only speaks DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class Elsewhere(Tensor):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the tensor is on another device")


def test_tensors_of_other_libraries_come_and_go_by_dlpack(path: Path) -> None:
    session = af.compile(path, threads=1)
    result = session.run({"x": Tensor(X)})["y"]
    assert np.array_equal(result, session.run({"x": X})["y"])
    assert np.from_dlpack(Tensor(result)) is not None and result.flags.writeable
    with pytest.raises(InputError, match=r"input 'x' has the wrong dtype: expected f32.*found float64"):
        session.run({"x": Tensor(X.astype(np.float64))})
    with pytest.raises(InputError, match=r"input 'x' is not a tensor.*found Elsewhere: the tensor is on"):
        session.run({"x": Elsewhere(X)})
