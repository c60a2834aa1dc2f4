"""Random graphs and random rules: whatever is chosen, the graph stays acyclic and means the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest

from autofusion.fusion.ledger import Verdict
from autofusion.fusion.optimise import optimise
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.kinds import POINTWISE
from autofusion.options import Options
from autofusion.refusal import Refusal
from autofusion.rules.pattern import op, var
from autofusion.rules.rule import FuseRule, Region
from core.tests.fusion.fake_kernels import FakePack, offers
from core.tests.fusion.fusion_graphs import Net, double_rule, pack, rewrite_rule

FUNCTIONS: Mapping[str, Callable[..., np.ndarray]] = {
    "Neg": np.negative,
    "Abs": np.abs,
    "Sin": np.sin,
    "Add": np.add,
    "Mul": np.multiply,
    "Sub": np.subtract,
}
UNARY, BINARY = ("Neg", "Abs", "Sin"), ("Add", "Mul", "Sub")


def run(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Evaluate a graph of the operators above, fused ones by their bodies."""
    graph.sort()
    values: dict[Value, np.ndarray] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        operands = [v.const if v.const is not None else values[v] for v in node.inputs if v is not None]
        results = run(node.body, operands) if node.op == FUSED else [FUNCTIONS[node.op](*operands)]
        values.update(zip(node.outputs, results, strict=True))
    return [values[v] for v in graph.outputs]


def random_graph(rng: random.Random, size: int) -> Graph:
    net = Net()
    values = [net.input("x", 3), net.input("y", 3)]
    for _ in range(size):
        recent = values[-6:]
        if rng.random() < 0.5:
            values.append(net.node(rng.choice(UNARY), rng.choice(recent)))
        else:
            other = net.const(rng.choice([0.5, 2.0])) if rng.random() < 0.2 else rng.choice(values)
            values.append(net.node(rng.choice(BINARY), rng.choice(recent), other))
    outputs = {values[-1], *rng.sample(values[2:], 2)}
    return net.output(*outputs)


def random_regions(rng: random.Random, name: str, multiple: bool) -> FuseRule:
    """Connected sets around a node, of random extent: legal or not, the engine has to find out."""

    def grow(node: Node) -> Iterator[Region | Refusal]:
        for size in (6, 4, 2):
            region = {node}
            for _ in range(size):
                some = rng.choice(sorted(region, key=lambda n: n.name))
                near = [*some.output.consumers, *(v.producer for v in some.inputs if v is not None and v.producer)]
                near = [n for n in near if n.op != FUSED]
                if near:
                    region.add(rng.choice(near))
            if len(region) > 1:
                yield Region(tuple(region), node, multiple)

    return FuseRule(name, POINTWISE, grow, roots=frozenset(FUNCTIONS))


@pytest.mark.parametrize("seed", range(60))
def test_meaning_survives_any_choice(seed: int) -> None:
    rng = random.Random(seed)
    source = random_graph(rng, rng.choice([8, 20, 60]))
    rules = [
        random_regions(rng, "test.single", multiple=False),
        random_regions(rng, "test.multiple", multiple=True),
        double_rule(),
        rewrite_rule(
            "test.sub_neg", op("Sub", var("a"), op("Neg", var("b"))), lambda m, b: [b.op("Add", m["a"], m["b"])]
        ),
        rewrite_rule(
            "test.add_neg", op("Add", var("a"), op("Neg", var("b"))), lambda m, b: [b.op("Sub", m["a"], m["b"])]
        ),
    ]
    kernels = FakePack(ordinary=lambda node: 1.0 + len(node.name) % 3, fused=lambda node: len(node.body) * 0.7)
    graph, ledger = optimise(source, [pack(*rules)], offers(kernels), Options())
    assert not list(ledger.of(Verdict.ERROR))
    assert sum(node.op == FUSED for node in graph.nodes) == sum(bool(r.kind) for r in ledger.of(Verdict.FUSED))
    inputs = [np.array([0.3, -1.2, 2.0]), np.array([1.1, 0.4, -0.7])]
    for before, after in zip(run(source, inputs), run(graph, inputs), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-9)


def test_random_trials_do_fuse_regions_with_several_results() -> None:
    found = 0
    for seed in range(20):
        rng = random.Random(seed)
        rules = [random_regions(rng, "test.multiple", multiple=True)]
        graph, _ = optimise(random_graph(rng, 40), [pack(*rules)], offers(FakePack(fused=0.1)), Options())
        found += sum(len(node.outputs) > 1 for node in graph.nodes if node.op == FUSED)
    assert found > 20
