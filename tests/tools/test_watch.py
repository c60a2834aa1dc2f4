"""Watching inside every fused site of real models: the values are right, and watching changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import autofusion as af
from autofusion.cli import cli
from autofusion.errors import OptionError
from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from tests.zoo import zoo

TOLERANCE = 1e-5
"""Of a value's range. Where level off is itself away from a double-precision run, its distance comes on top: rounding
the folded weights alone moves the detector's last sigmoid by 1.5e-5.
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppocrv4_det", "ppocrv4_rec"])
def test_every_node_inside_every_fused_site(name: str) -> None:
    from autofusion.tools.verify.exact import exact_values

    inputs = zoo.inputs(name, 0)
    shapes = {key: value.shape for key, value in inputs.items()}
    full = af.compile(zoo.model_path(name), shapes=shapes, threads=2)
    off = af.compile(zoo.model_path(name), shapes=shapes, threads=2, level="off")
    inside = sorted({origin for s in full.plan.steps if s.node.op == "Fused" for origin in s.node.origin})
    assert len(inside) > 200
    plain, watched = full.run(inputs), full.watch(inside, inputs)
    for key, value in plain.items():
        np.testing.assert_array_equal(watched.outputs[key], value)
    expected = off.watch(inside, inputs).values
    assert watched.values.keys() == expected.keys()
    exact = exact_values(full.source, inputs, list(expected))
    close = 0
    for key, want in expected.items():
        got = watched.values[key]
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        span = float(np.ptp(exact[key])) or float(np.abs(exact[key]).max()) or 1.0
        own = float(np.abs(want - exact[key]).max()) / span
        away = float(np.abs(got.astype(np.float64) - want).max()) / span
        assert away <= TOLERANCE + own, f"'{key}': {away:.2e} of its range away, level off is {own:.2e} off itself"
        # Two runs, each near the double-precision one, may be further from each other: their rounding errors add up.
        error = float(np.abs(got - exact[key]).max()) / span
        close += min(away, error) <= TOLERANCE
    assert close >= 0.99 * len(expected)


def test_the_command_line_shows_and_saves_them(tmp_path: Path) -> None:
    model, inputs = zoo.model_path("ppocr_cls"), zoo.inputs("ppocr_cls")
    data, saved = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(data, **inputs)
    session = af.compile(model, shapes={k: v.shape for k, v in inputs.items()})
    fused = next(s.node for s in session.plan.steps if s.node.op == "Fused")
    node, value = fused.origin[0], fused.body.nodes[0].output.name
    arguments = ["run", str(model), "--data", str(data), "-o", str(saved), "--watch", node, "--watch", value]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert f"watched {value}: f32[" in done.output
    archive = np.load(saved)
    np.testing.assert_array_equal(archive[value], session.watch([value], inputs).values[value])
    for key, output in session.run(inputs).items():
        np.testing.assert_array_equal(archive[key], output)


def branches() -> Graph:
    """``y`` is e to the power of ``x`` above zero (nodes ``positive``, ``power``), or ``x`` negated (``negative``)."""
    graph = Graph("branches")
    taken = graph.add_input("c", TensorType(np.dtype(bool), ()))
    x = graph.add_input("x", TensorType(F32, (2, 3)))
    bodies = []
    for steps in ((("Relu", "positive"), ("Exp", "power")), (("Neg", "negative"),)):
        body = Graph("body")
        value = body.add_input("inner", TensorType(F32, (2, 3)))
        for op, name in steps:
            value = body.node(op, [value], name=name, output_names=[f"{name}.out"], origin=(name,)).output
        body.add_output(value)
        bodies.append(body)
    attrs = {"then_branch": bodies[0], "else_branch": bodies[1], "captures": 1}
    graph.add_output(graph.node("If", [taken, x], attrs, name="either", origin=("either",)).output, "y")
    infer_graph(graph)
    return graph


def test_inside_a_branch() -> None:
    """What is in the branch that runs can be watched, fused or not; the other branch is said not to have run."""
    session = af.compile(branches())
    inputs = {"c": np.array(True), "x": np.float32([[-1, 0, 1], [2, -3, 4]])}
    seen = session.watch(["positive", "power.out", "y"], inputs)
    np.testing.assert_array_equal(seen.values["positive.out"], np.maximum(inputs["x"], 0))
    np.testing.assert_allclose(seen.values["power.out"], np.exp(np.maximum(inputs["x"], 0)), rtol=1e-6)
    np.testing.assert_array_equal(seen.outputs["y"], session.run(inputs)["y"])
    other = session.watch(["negative"], inputs | {"c": np.array(False)})
    np.testing.assert_array_equal(other.values["negative.out"], -inputs["x"])
    with pytest.raises(OptionError, match=r"'negative\.out' is in a body of control flow.*not run on these inputs"):
        session.watch(["negative"], inputs)
    with pytest.raises(OptionError, match=r"did you mean 'negative'.*what is constant, or no output needs, is gone"):
        session.watch(["negativ"], inputs)
    assert session.context.observation.observer is None


def test_inside_a_branch_that_is_run_again_with_exact_kernels() -> None:
    """An infinity makes Winograd's kernel give up, and the branch is run again without: that run is the one to see."""
    graph, shape = Graph("branches"), (1, 64, 40, 40)
    taken, x = graph.add_input("c", TensorType(np.dtype(bool), ())), graph.add_input("x", TensorType(F32, shape))
    bodies = []
    for seed in range(2):
        body = Graph("body")
        weights = 0.05 * np.random.default_rng(seed).standard_normal((64, 64, 3, 3), np.float32)
        operands = [body.add_input("inner", TensorType(F32, shape)), body.constant(weights, "w")]
        conv = body.node("Conv", operands, {"pads": [1] * 4}, name=f"conv{seed}", origin=(f"conv{seed}",))
        body.add_output(body.node("Relu", [conv.output], name=f"relu{seed}", origin=(f"relu{seed}",)).output)
        bodies.append(body)
    attrs = {"then_branch": bodies[0], "else_branch": bodies[1], "captures": 1}
    graph.add_output(graph.node("If", [taken, x], attrs, name="either", origin=("either",)).output, "y")
    infer_graph(graph)
    session = af.compile(graph, threads=2)
    inputs = {"c": np.array(True), "x": np.random.default_rng(3).standard_normal(shape, np.float32)}
    session.run(inputs)
    if not any("winograd" in step.kernel for stage in session.stages for step in stage.runner.plan.steps):
        pytest.skip("another kernel is cheaper on this machine")
    inputs["x"][0, 3, 5, 5] = np.inf
    seen, plain = session.watch(["conv0"], inputs), session.run(inputs)
    np.testing.assert_array_equal(seen.outputs["y"], plain["y"])
    (value,) = seen.values.values()
    assert np.isinf(value).any() and not np.isnan(value).any()
    np.testing.assert_allclose(np.maximum(value, 0), plain["y"], rtol=1e-4, atol=1e-5)


def test_inside_a_loop_the_last_round_is_shown(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    typed, truth = helper.make_tensor_value_info, TensorProto.BOOL
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"], name="keep"),
            helper.make_node("Mul", ["state", "two"], ["doubled"], name="double"),
            helper.make_node("Tanh", ["doubled"], ["next"], name="squash"),
        ],
        "body",
        [typed("i", TensorProto.INT64, []), typed("go", truth, []), typed("state", TensorProto.FLOAT, [3])],
        [typed("go_on", truth, []), typed("next", TensorProto.FLOAT, [3])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["rounds", "", "x"], ["y"], name="loop", body=body)],
        "loops",
        [typed("x", TensorProto.FLOAT, [3]), typed("rounds", TensorProto.INT64, [])],
        [typed("y", TensorProto.FLOAT, [3])],
        [helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "loop.onnx")
    session = af.compile(tmp_path / "loop.onnx")
    x = np.float32([0.1, -0.2, 0.3])
    seen = session.watch(["double", "loop"], {"x": x, "rounds": np.int64(3)})
    np.testing.assert_allclose(seen.values["doubled"], 2 * np.tanh(2 * np.tanh(2 * x)), rtol=1e-5)
    np.testing.assert_array_equal(seen.outputs["y"], seen.values["y"])
