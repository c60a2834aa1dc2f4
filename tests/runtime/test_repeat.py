"""Loops whose bodies run natively, many times in one call, compute what they do step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import autofusion as af
from autofusion.errors import InputError
from autofusion.offers.guard import GuardedPack, GuardedSegment
from autofusion.runtime.repeat import RUNS
from autofusion.runtime.runner import PlanRunner

SIZE = 4
S0 = np.full((1, SIZE), 0.25, np.float32)
FEW, MANY = RUNS.start - 1, 300


def info(name: str, kind: int = T.FLOAT, shape: Sequence[Any] | None = (1, SIZE)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def loop(nodes: Iterable[onnx.NodeProto], count: int, state: Sequence[Any] = (1, SIZE), **more: np.ndarray) -> bytes:
    """A Loop over one state ``s`` -> ``t`` that stacks ``y``."""
    body = helper.make_graph(
        list(nodes),
        "body",
        [info("i", T.INT64, []), info("c", T.BOOL, []), info("s", shape=state)],
        [info("d", T.BOOL, []), info("t", shape=state), info("y", shape=None)],
    )
    constants = {"n": np.array(count), "go": np.array(True), **more}
    graph = helper.make_graph(
        [node("Loop", "n go s0", "last ys", body=body)],
        "g",
        [info("s0", shape=state)],
        [info("last", shape=None), info("ys", shape=None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each native call had."""
    counts: list[int] = []
    repeat = PlanRunner.repeat

    def counted(self: PlanRunner, chunks: Iterable[np.ndarray]) -> None:
        chunks = list(chunks)
        counts.append(sum(map(len, chunks)))
        repeat(self, chunks)

    monkeypatch.setattr(PlanRunner, "repeat", counted)
    return counts


DECAY = (node("Mul", "s half", "h"), node("Add", "h one", "t"), node("Neg", "t", "y"))
CONSTANTS = {"half": np.float32(0.5), "one": np.float32(1)}


def decayed(count: int) -> tuple[np.ndarray, np.ndarray]:
    state, rows = S0, []
    for _ in range(count):
        state = state * np.float32(0.5) + np.float32(1)
        rows.append(-state)
    return state, np.stack(rows)


@pytest.mark.parametrize("condition", ["passed on", "constant"])
@pytest.mark.parametrize("count", [1, FEW, MANY, MANY + 1])
@pytest.mark.parametrize("threads", [1, 2])
def test_loop(repeats: list[int], count: int, condition: str, threads: int) -> None:
    ends = node("Identity", "c", "d") if condition == "passed on" else node("Or", "go go", "d")
    session = af.compile(loop([*DECAY, ends], count, **CONSTANTS), threads=threads)
    last, ys = decayed(count)
    for _ in range(2):
        found = session.run({"s0": S0})
        np.testing.assert_allclose(found["last"], last, rtol=1e-6)
        np.testing.assert_allclose(found["ys"], ys, rtol=1e-6)
    assert repeats == ([count] * 2 if count in RUNS else [])
    np.testing.assert_array_equal(S0, 0.25)


def test_loop_that_ends_by_what_it_computes(repeats: list[int]) -> None:
    ends = [node("ReduceMax", "t", "m", keepdims=0), node("Less", "m bound", "d")]
    session = af.compile(loop([*DECAY, *ends], MANY, bound=np.float32(1.9), **CONSTANTS))
    found = session.run({"s0": S0})
    last, ys = decayed(len(found["ys"]))
    np.testing.assert_allclose(found["last"], last, rtol=1e-6)
    assert found["last"].max() >= 1.9 > -ys[-2].max() and repeats == []


def test_a_state_that_grows_and_one_that_stays(repeats: list[int]) -> None:
    grows = [node("Concat", "s s1", "t", axis=0), node("Neg", "s1", "y"), node("Identity", "c", "d")]
    grown = af.compile(loop(grows, 20, state=["rows", SIZE], s1=S0)).run({"s0": S0})
    assert grown["last"].shape == (21, SIZE) and repeats == []
    stays = [node("Identity", "s", "t"), node("Exp", "s", "y"), node("Identity", "c", "d")]
    stayed = af.compile(loop(stays, 20)).run({"s0": S0})
    np.testing.assert_array_equal(stayed["last"], S0)
    np.testing.assert_allclose(stayed["ys"], np.exp(np.stack([S0] * 20)), rtol=1e-6)


def test_the_number_of_a_run_is_told_and_a_wrong_index_is_an_error(repeats: list[int]) -> None:
    nodes = [node("Gather", "table i", "row", axis=0), node("Add", "s row", "t"), node("Neg", "row", "y")]
    table = np.arange(MANY * SIZE, dtype=np.float32).reshape(MANY, 1, SIZE)
    model = loop([*nodes, node("Identity", "c", "d")], MANY, table=table)
    found = af.compile(model).run({"s0": S0})
    np.testing.assert_array_equal(found["ys"], -table)
    np.testing.assert_allclose(found["last"], S0 + table.sum(0), rtol=1e-6)
    short = af.compile(loop([*nodes, node("Identity", "c", "d")], MANY, table=table[:-1]))
    with pytest.raises(InputError, match="index"):
        short.run({"s0": S0})
    assert repeats == [MANY] * 2


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [FEW, MANY])
def test_scan(repeats: list[int], length: int, axis: int, back: int) -> None:
    body = helper.make_graph(
        [node("Add", "s x", "h"), node("Tanh", "h", "t"), node("Mul", "t x", "y")],
        "body",
        [info("s", shape=[SIZE]), info("x", shape=[SIZE])],
        [info("t", shape=[SIZE]), info("y", shape=[SIZE])],
    )
    ends = {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    ends |= {"scan_input_directions": [back], "scan_output_directions": [back]}
    shape = [SIZE, SIZE]
    shape[axis] = length
    graph = helper.make_graph(
        [node("Scan", "s0 xs", "last ys", body=body, num_scan_inputs=1, **ends)],
        "g",
        [info("s0", shape=[SIZE]), info("xs", shape=shape)],
        [info("last", shape=None), info("ys", shape=None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    xs = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    rows = np.moveaxis(xs, axis, 0)[:: -1 if back else 1]
    state, made = S0[0], []
    for row in rows:
        state = np.tanh(state + row)
        made.append(state * row)
    found = af.compile(model).run({"s0": S0[0], "xs": xs})
    np.testing.assert_allclose(found["last"], state, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["ys"], np.moveaxis(np.stack(made[:: -1 if back else 1]), 0, axis), atol=1e-5)
    assert repeats == ([length] if length in RUNS else [])


def test_a_segment_that_runs_once_at_a_time_is_run_for_each_row() -> None:
    class Once:
        def __init__(self) -> None:
            self.seen: list[list[int]] = []

        def run(self, addresses: Sequence[int], start: int = 0, stop: int | None = None) -> None:
            self.seen.append(list(addresses))

        run_timed: Callable[..., Any] = run

    class Pack:
        name, version, is_reference, blocks, launch_seconds, kinds = "once", "1", False, (), 0.0, ()

    segment = Once()
    GuardedSegment(segment, GuardedPack(Pack()), "x").repeat(np.arange(6).reshape(3, 2))  # type: ignore[arg-type]
    assert segment.seen == [[0, 1], [2, 3], [4, 5]]
