"""What the imported graph is: names, parts of it, state, and what its converters may be given."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofusion as af
from autofusion.errors import InputError, OptionError
from autofusion.frontends import LoadOptions, UnsupportedOperatorError
from autofusion.ir.graph import Graph
from autofusion.ir.verify import verify
from autofusion.tools.export import export
from autofusion_frontend_mindspore import registry
from autofusion_frontend_mindspore.frontend import MindsporeFrontend
from plugins.frontends.mindspore.tests import mindir_cache

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="mindspore is not installed"),
]

FRONTEND = MindsporeFrontend()


def load(name: str, **options: Any) -> Graph:
    return FRONTEND.load(mindir_cache.exported(name).path, LoadOptions(**options))


def test_loading_does_not_import_mindspore() -> None:
    path = mindir_cache.exported("crnn").path
    code = (
        "import sys, autofusion as af, autofusion_frontend_mindspore\n"
        f"af.load({str(path)!r})\n"
        "print('mindspore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


@pytest.mark.parametrize("name", ["crnn", "bert", "nested_loops", "counter", "return_from_loop", "dynamic_dense"])
def test_graphs_are_sound(name: str) -> None:
    verify(load(name))


def test_names_are_those_of_the_source() -> None:
    graph = load("crnn")
    assert [v.name for v in graph.inputs] == ["image"] and graph.output_names == ["out0"]
    first = next(node for node in graph.nodes if node.op == "Conv")
    assert first.origin == ("features-SequentialCell/0-Conv2d/Conv2D-op0",)
    assert all(len(node.origin) == 1 for node in graph.nodes)


def test_parameters_keep_their_names() -> None:
    names = {v.name for v in load("shared_parameter").constants()}
    assert {"first.weight", "first.bias", "second.bias"} <= names and "second.weight" not in names


def test_tuples_are_flattened_from_left_to_right() -> None:
    graph = load("nested_tuples")
    assert graph.output_names == ["out0", "out1", "out2", "out3", "out4"]
    assert graph.outputs[2].const is not None and graph.outputs[2].const.shape == ()


def test_part_of_a_model() -> None:
    network = mindir_cache.exported("crnn")
    squeeze = "Squeeze-op0"
    whole = af.compile(network.path, outputs=[squeeze]).run({"image": network.inputs[0]})
    tail = af.compile(network.path, inputs=[squeeze])
    assert [v.name for v in tail.graph.inputs] == [squeeze]
    result = tail.run({squeeze: whole[squeeze]})["out0"]
    assert np.allclose(result, network.outputs[0], atol=1e-4)


def test_part_that_is_not_there() -> None:
    with pytest.raises(OptionError, match="no value 'Squeeze-op' to be an output; did you mean 'Squeeze-op0'"):
        load("crnn", outputs=("Squeeze-op",))
    with pytest.raises(OptionError, match="no value 'nothing' to be an input"):
        load("crnn", inputs=("nothing",))
    with pytest.raises(OptionError, match="do not suffice: the outputs also need ids"):
        load("bert", inputs=("kinds", "mask"))


def test_assigned_parameters_are_inputs_with_a_default_and_outputs() -> None:
    network = mindir_cache.exported("counter")
    session = af.compile(network.path)
    assert session.graph.output_names == ["out0", "out1", "out2", "out3", "p", "q"]
    first = session.run({"x": network.inputs[0]})
    assert np.allclose(first["out0"], network.outputs[0])
    # The caller may carry the state on: MindSpore's second call begins with what the first left.
    state = {v.name: first[v.name] for v in session.graph.inputs if v.default is not None}
    second = session.run({"x": network.inputs[0], **state})
    assert np.allclose(second["out0"], first["p"] * network.inputs[0])


def test_state_is_exported_under_two_names(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    network = mindir_cache.exported("counter")
    session = af.compile(network.path)
    export(session, tmp_path / "counter.onnx")
    exported = onnxruntime.InferenceSession(str(tmp_path / "counter.onnx"), providers=["CPUExecutionProvider"])
    assert [v.name for v in exported.get_inputs()] == ["x"]
    names = [v.name for v in exported.get_outputs()]
    assert names == ["out0", "out1", "out2", "out3", "p_out", "q"]  # q is never read before it is written
    ours = session.run({"x": network.inputs[0]})
    for name, theirs in zip(names, exported.run(None, {"x": network.inputs[0]}), strict=True):
        np.testing.assert_allclose(ours[name.removesuffix("_out")], theirs, rtol=1e-5, atol=1e-6)
    state = {"p": ours["p"]}
    for name, theirs in zip(names, exported.run(None, {"x": network.inputs[0], **state}), strict=True):
        again = session.run({"x": network.inputs[0], **state})
        np.testing.assert_allclose(again[name.removesuffix("_out")], theirs, rtol=1e-5, atol=1e-6)


def test_parameters_that_nobody_assigns_are_constants() -> None:
    assert [v.name for v in load("assign_in_loop").inputs] == ["x", "n", "p"]
    assert [v.name for v in load("shared_parameter").inputs] == ["x"]


def test_loops_carry_only_what_changes() -> None:
    loop = next(node for node in load("loop_in_method").nodes if node.op == "Loop")
    # Which exit, the tensor, the counter; the weights and the number of iterations are captured.
    assert len(loop.outputs) == 3 and loop.attrs["captures"] >= 1


def test_converters_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Mish" in registry.TABLE
    monkeypatch.delitem(registry.TABLE._entries, "Mish")

    class Added:
        names = ("Mish",)

        def find(self, primitive: str) -> Any:
            return (lambda call: call.emit("Mish", call.operand(0))) if primitive == "Mish" else None

        def failure(self, primitive: str) -> str:
            return ""

    assert any(node.op == "Mish" for node in load("activations", converters=Added()).nodes)
    with pytest.raises(UnsupportedOperatorError, match=r"'Mish'.*autofusion.converters.mindspore"):
        load("activations")


def test_oracle_runs_mindspore() -> None:
    network = mindir_cache.exported("counter")
    reference_run = FRONTEND.reference(network.path, LoadOptions())
    for _ in range(2):  # every run begins with the parameters of the file
        results = reference_run({"x": network.inputs[0]})
        assert all(np.array_equal(results[f"out{i}"], y) for i, y in enumerate(network.outputs))
    with pytest.raises(InputError, match="needs the inputs x"):
        reference_run({})
    with pytest.raises(OptionError, match="as a whole"):
        FRONTEND.reference(network.path, LoadOptions(outputs=("out0",)))
