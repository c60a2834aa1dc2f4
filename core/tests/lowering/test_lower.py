"""Lowered plans give the right values whatever layouts, views and shared memory were chosen."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from autofusion.cost.model import CostModel
from autofusion.errors import KernelError
from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import BindContext
from autofusion.lowering.lower import lower
from autofusion.lowering.plan import Plan
from autofusion.offers.ask import Offers
from autofusion.runtime.runner import PlanRunner

_spec = importlib.util.spec_from_file_location("lowering_packs", Path(__file__).with_name("packs.py"))
assert _spec is not None and _spec.loader is not None
packs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(packs)

RNG = np.random.default_rng(0)


def op(graph: Graph, name: str, *inputs: Value, **attrs: object) -> Value:
    return graph.node(name, inputs, attrs).output


def plan_of(graph: Graph, pack: object) -> Plan:
    infer_graph(graph)
    graph.sort()
    return lower(graph, Offers([pack], packs.TARGET, CostModel(packs.TARGET)))


def run(graph: Graph, *arrays: np.ndarray, prefer_blocked: bool = True) -> tuple[list[np.ndarray], Plan, list[str]]:
    pack = packs.FakePack(prefer_blocked)
    plan = plan_of(graph, pack)
    runner = PlanRunner(plan, BindContext(packs.TARGET, {}))
    first = runner.run(arrays)
    second = runner.run(arrays)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    return second, plan, pack.bound


def image(graph: Graph, name: str = "x", channels: int = 6) -> tuple[Value, np.ndarray]:
    shape = (1, channels, 3, 5)
    return graph.add_input(name, TensorType(F32, shape)), RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("result", [0, 1])
def test_a_dropout_of_which_one_result_is_used(result: int) -> None:
    graph = Graph()
    x, data = image(graph)
    node = graph.node("Dropout", [op(graph, "Relu", x)], outputs=2)
    graph.add_output(node.outputs[result], "y")
    infer_graph(graph)
    if result:  # the mask is no view of the operand, and the packs of this test have no kernel for it
        with pytest.raises(KernelError, match="Dropout"):
            plan_of(graph, packs.FakePack(True))
        return
    (y,), _, bound = run(graph, data)
    np.testing.assert_array_equal(y, np.maximum(data, 0))
    assert not any("Dropout" in kernel for kernel in bound)


@pytest.mark.parametrize("known", [False, True])
def test_a_dropout_that_trains_is_not_a_view(known: bool) -> None:
    graph = Graph()
    x, _ = image(graph)
    training = graph.constant(np.array(True)) if known else graph.add_input("t", TensorType(np.dtype(bool), ()))
    graph.add_output(op(graph, "Dropout", x, graph.constant(np.float32(0.5)), training), "y")
    infer_graph(graph)
    with pytest.raises(KernelError, match="Dropout"):  # the packs of this test have no kernel for it
        plan_of(graph, packs.FakePack(True))


def test_views_of_views_may_be_thousands_deep() -> None:
    graph = Graph()
    x, data = image(graph)
    value = op(graph, "Relu", x)
    shapes = [graph.constant(np.array(s, np.int64)) for s in ([6, 15], [1, 6, 3, 5])]
    for index in range(3000):
        value = op(graph, "Reshape", value, shapes[index % 2])
    graph.add_output(op(graph, "Neg", value), "y")
    (y,), _, _ = run(graph, data)
    np.testing.assert_array_equal(y, -np.maximum(data, 0))


@pytest.mark.parametrize("prefer_blocked", [True, False])
def test_a_chain_stays_in_one_layout(prefer_blocked: bool) -> None:
    graph = Graph()
    x, data = image(graph)
    graph.add_output(op(graph, "Neg", op(graph, "Relu", op(graph, "Neg", op(graph, "Relu", x)))), "y")
    (y,), plan, bound = run(graph, data, prefer_blocked=prefer_blocked)
    np.testing.assert_array_equal(y, -np.maximum(-np.maximum(data, 0), 0))
    assert sum(s.is_reorder for s in plan.steps) == (2 if prefer_blocked else 0), bound


def test_a_reorder_is_shared_by_its_readers() -> None:
    graph = Graph()
    x, data = image(graph)
    a = op(graph, "Relu", op(graph, "Neg", op(graph, "Relu", x)))
    left = op(graph, "Transpose", a, perm=[0, 2, 3, 1])
    right = op(graph, "Transpose", a, perm=[0, 1, 3, 2])
    graph.add_output(left, "left")
    graph.add_output(right, "right")
    (y, z), plan, _ = run(graph, data)
    a_data = np.maximum(-np.maximum(data, 0), 0)
    np.testing.assert_array_equal(y, a_data.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(z, a_data.transpose(0, 1, 3, 2))
    assert sum(s.is_reorder for s in plan.steps) <= 2


def test_reshape_slice_and_split_are_views() -> None:
    graph = Graph()
    x, data = image(graph, channels=8)
    flat = op(graph, "Reshape", op(graph, "Transpose", x, perm=[0, 2, 3, 1]), graph.constant(np.array([15, 8])))
    part = op(
        graph,
        "Slice",
        flat,
        graph.constant(np.array([3])),
        graph.constant(np.array([9])),
        graph.constant(np.array([0])),
    )
    graph.add_output(op(graph, "Neg", part), "y")
    (y,), plan, _ = run(graph, data)
    np.testing.assert_array_equal(y, -data.transpose(0, 2, 3, 1).reshape(15, 8)[3:9])
    assert {n.op for n, _ in plan.views} == {"Reshape", "Slice"}


def test_concat_in_place_along_channels() -> None:
    graph = Graph()
    x, data = image(graph, channels=8)
    a, b = op(graph, "Relu", x), op(graph, "Neg", x)
    whole = op(graph, "Concat", a, b, x, axis=1)
    graph.add_output(op(graph, "Neg", whole), "y")
    graph.add_output(op(graph, "Relu", b), "z")
    (y, z), plan, bound = run(graph, data)
    np.testing.assert_array_equal(y, -np.concatenate([np.maximum(data, 0), -data, data], 1))
    np.testing.assert_array_equal(z, np.maximum(-data, 0))
    assert "Concat:concat" not in bound
    assert [n.op for n, _ in plan.views] == ["Concat"]


def test_concat_of_a_concat_and_of_one_value_twice() -> None:
    graph = Graph()
    x, data = image(graph, channels=4)
    a = op(graph, "Relu", x)
    inner = op(graph, "Concat", a, op(graph, "Neg", a), axis=1)
    graph.add_output(op(graph, "Concat", inner, a, a, axis=1), "y")
    (y,), _, _ = run(graph, data)
    r = np.maximum(data, 0)
    np.testing.assert_array_equal(y, np.concatenate([r, -r, r, r], 1))


def test_channels_that_are_no_multiple_of_the_block() -> None:
    graph = Graph()
    x, data = image(graph, channels=6)
    a, b = op(graph, "Relu", x), op(graph, "Neg", x)
    graph.add_output(op(graph, "Concat", a, b, axis=1), "y")
    (y,), _, _ = run(graph, data)
    np.testing.assert_array_equal(y, np.concatenate([np.maximum(data, 0), -data], 1))


def test_outputs_that_are_inputs_constants_views_or_the_same() -> None:
    graph = Graph()
    x, data = image(graph)
    a = op(graph, "Relu", x)
    graph.add_output(x, "x_again")
    graph.add_output(a, "a")
    graph.add_output(a, "a_again")
    graph.add_output(op(graph, "Reshape", a, graph.constant(np.array([-1]))), "flat")
    graph.add_output(graph.constant(np.arange(3, dtype=np.float32)), "c")
    (x2, a1, a2, flat, c), _, _ = run(graph, data)
    np.testing.assert_array_equal(x2, data)
    np.testing.assert_array_equal(a1, np.maximum(data, 0))
    np.testing.assert_array_equal(a2, a1)
    np.testing.assert_array_equal(flat, a1.ravel())
    np.testing.assert_array_equal(c, [0, 1, 2])
    assert x2 is not data
    assert not np.shares_memory(a1, a2)


def test_in_place_spares_values_that_are_needed_later() -> None:
    graph = Graph()
    x, data = image(graph)
    a = op(graph, "Relu", x)
    b = op(graph, "Neg", a)
    c = op(graph, "Neg", b)
    graph.add_output(op(graph, "Add", c, a), "y")
    (y,), plan, _ = run(graph, data, prefer_blocked=False)
    np.testing.assert_array_equal(y, 2 * np.maximum(data, 0))
    assert plan.arena_bytes <= 3 * 64 * -(-data.nbytes // 64)


def test_an_unused_result_does_not_disturb_its_neighbours() -> None:
    graph = Graph()
    x, data = image(graph, channels=8)
    parts = graph.node("Split", [op(graph, "Relu", x)], {"axis": 1, "num_outputs": 2}, outputs=2)
    graph.add_output(op(graph, "Neg", parts.outputs[1]), "y")
    (y,), _, _ = run(graph, data)
    np.testing.assert_array_equal(y, -np.maximum(data, 0)[:, 4:])


def test_an_operator_without_a_kernel_is_named() -> None:
    graph = Graph()
    x, _ = image(graph)
    node = graph.node("Tanh", [x], name="squash", origin=("net/squash",))
    graph.add_output(node.output, "y")
    reason = "pack 'fake' 1 cannot run it: it is no operator of the fake pack"
    with pytest.raises(KernelError, match=rf"no kernel runs Tanh 'net/squash'.*{reason}"):
        plan_of(graph, packs.FakePack())
