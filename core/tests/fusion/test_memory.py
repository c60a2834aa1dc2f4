"""Bytes of live activations: what a budget is held against, and what the ledger says of each site."""

from __future__ import annotations

import numpy as np

from autofusion.fusion.ledger import Verdict
from autofusion.fusion.memory import live_bytes, peak_bytes
from autofusion.fusion.optimise import optimise
from autofusion.ir.graph import Graph, Node
from autofusion.options import Options
from core.tests.fusion.fake_kernels import FakePack, offers
from core.tests.fusion.fusion_graphs import Net, chain_rule, pack

SIZE = 4 * 8 * 4
"""Bytes of one value f32[4, 8]."""


def residual() -> tuple[Graph, list[Node]]:
    net = Net()
    x = net.input("x", 4, 8)
    a = net.node("Relu", x, name="a")
    b = net.node("Neg", a, name="b")
    c = net.node("Exp", b, name="c")
    graph = net.output(net.node("Add", a, c, name="d"))
    graph.sort()
    return graph, graph.nodes


def test_a_value_lives_from_its_step_to_its_last_use() -> None:
    graph, nodes = residual()
    # a; a b; a b c; a c d (the graph's own input belongs to the caller)
    assert [live_bytes(graph, {})[n] for n in nodes] == [SIZE, 2 * SIZE, 3 * SIZE, 3 * SIZE]
    assert peak_bytes(graph, {}) == 3 * SIZE


def test_values_inside_a_region_take_no_memory() -> None:
    graph, nodes = residual()
    inside = tuple(nodes[1:])
    live = live_bytes(graph, dict.fromkeys(inside, inside))
    assert [live[n] for n in nodes] == [SIZE, 2 * SIZE, 2 * SIZE, 2 * SIZE]
    assert peak_bytes(graph, dict.fromkeys(inside, inside)) == 2 * SIZE


def test_the_ledger_says_what_each_fusion_does_to_memory() -> None:
    net = Net()
    value = net.input("x", 4, 8)
    for index, name in enumerate(("Sin", "Relu", "Neg", "Exp")):
        value = net.node(name, value, name=f"{name.lower()}{index}")
    _, ledger = optimise(net.output(value), [pack(chain_rule())], offers(FakePack()), Options())
    (record,) = ledger.of(Verdict.FUSED)
    assert record.site == "relu1"
    # While the three run one by one, an operand and a result are alive, at the end of the graph as in the middle.
    assert (record.memory_before, record.memory_after) == (2 * SIZE, 2 * SIZE)


def test_a_fusion_that_spares_a_large_value_shows() -> None:
    net = Net()
    x = net.input("x", 4, 8)
    wide = net.node("Expand", x, net.graph.constant(np.array([64, 4, 8], np.int64), "shape"), name="wide")
    small = net.node("ReduceSum", net.node("Relu", wide, name="relu"), name="sum", keepdims=0)
    graph = net.output(small)
    from autofusion.ir.infer import infer_graph

    infer_graph(graph)
    graph.sort()
    nodes = {n.name: n for n in graph.nodes}
    inside = (nodes["relu"], nodes["sum"])
    before, after = live_bytes(graph, {}), live_bytes(graph, dict.fromkeys(inside, inside))
    assert before[nodes["relu"]] == 2 * 64 * SIZE
    assert after[nodes["relu"]] == after[nodes["sum"]] == 64 * SIZE + 4
