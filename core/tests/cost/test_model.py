"""Prices: the orderings that fusion decisions rest on, and which source of a price wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from autofusion.cost.detect import detect
from autofusion.cost.model import CostModel, Price
from autofusion.cost.signature import signature
from autofusion.ir.graph import FUSED, Graph, Node, Value, copy_node
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType
from autofusion.kernels.target import Target

TARGET = Target(
    isa="avx512",
    lanes=16,
    threads=2,
    peak_flops=200e9,
    l1_bytes=48 << 10,
    l2_bytes=1 << 20,
    l3_bytes=32 << 20,
    bandwidth_l2=100e9,
    bandwidth_l3=50e9,
    bandwidth_memory=60e9,
    transcendentals=3e9,
)
MODEL = CostModel(TARGET)
ONE_THREAD = CostModel(replace(TARGET, threads=1))


@dataclass(frozen=True)
class Offer:
    kernel: str
    seconds: float | None


def nodes(ops: Sequence[str], *shape: int) -> list[Node]:
    """A chain of one-operand operators."""
    graph = Graph()
    value = graph.add_input("x", TensorType(np.dtype(np.float32), shape))
    for op in ops:
        node = graph.node(op, [value])
        infer_node(node)
        value = node.output
    graph.add_output(value)
    return graph.nodes


def fused(chain: Sequence[Node]) -> Node:
    body = Graph("pointwise")
    source = chain[0].inputs[0]
    assert source is not None
    values: dict[Value, Value] = {source: body.add_input(source.name, source.type)}
    for node in chain:
        copy_node(node, body, values)
    body.add_output(values[chain[-1].output])
    return Graph().node(FUSED, [Graph().add_input("x", source.type)], {"body": body}, outputs=[chain[-1].output.type])


def conv(channels: int, size: int) -> Node:
    graph = Graph()
    x = graph.add_input("x", TensorType(np.dtype(np.float32), (1, channels, size, size)))
    node = graph.node("Conv", [x, graph.constant(np.zeros((channels, channels, 3, 3), np.float32))], {"pads": [1] * 4})
    infer_node(node)
    return node


def test_a_large_convolution_runs_near_the_peak() -> None:
    seconds = ONE_THREAD.price(conv(64, 56)).total
    flops = 2 * 64 * 64 * 9 * 56 * 56
    assert 0.7 < flops / seconds / TARGET.peak_flops < 1.0


@pytest.mark.parametrize("shape", [(1, 64, 56, 56), (4, 1024, 1024), (8,)])
def test_fusing_a_pointwise_chain_saves_traffic_and_launches_at_every_size(shape: tuple[int, ...]) -> None:
    chain = nodes(["Relu", "Neg", "Abs"], *shape)
    launch = 1e-7
    apart = sum(MODEL.price(node, launch_seconds=launch).total for node in chain)
    together = MODEL.price(fused(chain), launch_seconds=launch).total
    assert together < 0.7 * apart
    assert together >= launch


def test_transcendental_functions_are_not_free_in_a_fused_body() -> None:
    cheap, dear = (fused(nodes(ops, 1, 64, 56, 56)) for ops in (["Relu", "Neg"], ["Exp", "Erf"]))
    assert MODEL.price(dear).transcendental > 0
    assert MODEL.price(dear).total > 2 * MODEL.price(cheap).total


def test_bandwidth_depends_on_the_level_that_holds_the_data() -> None:
    prices = [ONE_THREAD.price(nodes(["Relu"], count)[0]) for count in (1 << 15, 1 << 20, 1 << 24)]
    assert [price.level for price in prices] == ["l2", "l3", "memory"]
    rates = [2 * 4 * count / price.total for price, count in zip(prices, (1 << 15, 1 << 20, 1 << 24), strict=True)]
    assert rates[0] > 1.5 * rates[1]


def test_threads_help_large_work_only_and_never_make_more_work_cheaper() -> None:
    def speedup(count: int) -> float:
        node = nodes(["Exp"], count)[0]
        return ONE_THREAD.price(node).total / MODEL.price(node).total

    assert speedup(100) < 1.02
    assert speedup(3_000_000) > 1.8
    totals = [MODEL.price(nodes(["Exp"], count)[0]).total for count in range(100, 200_000, 3000)]
    assert totals == sorted(totals)


def test_memory_bound_work_scales_no_further_than_memory() -> None:
    node = nodes(["Relu"], 1 << 25)[0]
    many = CostModel(replace(TARGET, threads=16))
    assert many.price(node).total >= 2 * 4 * (1 << 25) / TARGET.bandwidth_memory


def test_reshapes_cost_nothing_and_permutations_more_than_copies() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(np.dtype(np.float32), (256, 256)))
    reshape = graph.node("Reshape", [x, graph.constant(np.array([-1]))])
    transpose, relu = graph.node("Transpose", [x], {"perm": [1, 0]}), graph.node("Relu", [x])
    for node in (reshape, transpose, relu):
        infer_node(node)
    assert MODEL.price(reshape, launch_seconds=1.0).total == 0
    assert MODEL.price(transpose).total > MODEL.price(relu).total


def test_kernels_by_the_book_cost_more() -> None:
    node = conv(16, 32)
    assert MODEL.price(node, is_reference=True).total > 5 * MODEL.price(node).total


def test_measured_beats_the_kernels_estimate_beats_the_model() -> None:
    node = nodes(["Relu"], 1000)[0]
    modelled = MODEL.price(node, Offer("k", None), 1e-6)
    estimated = MODEL.price(node, Offer("k", 5e-5), 1e-6)
    measured = CostModel(TARGET, {(signature(node), "k"): 7e-5})
    assert modelled.source == "model" and modelled.total > 1e-6
    assert (estimated.source, estimated.total) == ("kernel", pytest.approx(5.1e-5))
    assert measured.price(node, Offer("k", 5e-5), 1e-6) == Price(7e-5, source="measured")
    assert measured.price(node, Offer("other", 5e-5), 1e-6).source == "kernel"


def test_unknown_shapes_have_a_launch_and_no_work() -> None:
    graph = Graph()
    node = graph.node("Relu", [graph.add_input("x", TensorType(np.dtype(np.float32), ("n",)))])
    infer_node(node)
    assert MODEL.price(node, launch_seconds=1e-6).total == 1e-6


def test_the_breakdown_adds_up() -> None:
    price = MODEL.price(nodes(["Exp"], 1 << 18)[0], launch_seconds=1e-6)
    alone = max(price.compute + price.transcendental, price.memory)
    assert price.total == pytest.approx(price.launch + alone / price.speedup)


def test_signatures_are_the_same_in_every_process() -> None:
    # A stored measurement is only found again if this digest never changes by accident.
    assert signature(nodes(["Relu"], 2, 3)[0]) == signature(nodes(["Relu"], 2, 3)[0])
    assert signature(nodes(["Relu"], 2, 3)[0]) != signature(nodes(["Relu"], 3, 2)[0])
    import subprocess
    import sys

    script = (
        "import core.tests.cost.test_model as t; from autofusion.cost.signature import *; "
        "print(signature(t.fused(t.nodes(['Relu', 'Exp'], 4, 5))))"
    )
    from pathlib import Path

    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {signature(fused(nodes(["Relu", "Exp"], 4, 5))) + "\n"}


def test_the_detected_machine_is_plausible() -> None:
    target = detect()
    assert target.threads >= 1 and target.lanes in (4, 8, 16)
    assert target.l1_bytes < target.l2_bytes < target.l3_bytes
    assert target.bandwidth_l2 > target.bandwidth_l3
    assert 1e9 < target.peak_flops < 1e13
    assert detect(3).threads == 3
