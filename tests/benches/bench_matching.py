"""How long the installed rule packs take on large graphs: 4,000, 16,000 and 64,000 nodes of Conv, BatchNormalization,
Relu and Add blocks.

    python -m tests.benches.bench_matching [NODES ...]

Kernels are priced by the cost model alone (a stand-in pack takes every fused kind), so that the time is the engine's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autofusion.cost.detect import detect
from autofusion.cost.model import CostModel
from autofusion.fusion.ledger import Ledger
from autofusion.fusion.optimise import fuse, prepare
from autofusion.ir.graph import Graph, Node
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import Offer, Operand
from autofusion.kernels.target import Target
from autofusion.offers.ask import Offers
from autofusion.options import Options
from autofusion.plugins.registry import default_registry
from autofusion.rules.rule import RulePack

CHANNELS = 16
REPEATS = 3


def blocks(nodes: int) -> Graph:
    """Residual blocks: Conv, BatchNormalization, Relu, Conv, BatchNormalization, Add, Relu."""
    rng = np.random.default_rng(0)
    graph = Graph("blocks")
    weights = graph.constant(rng.standard_normal((CHANNELS, CHANNELS, 1, 1), np.float32), "w")
    affine = [graph.constant(rng.random(CHANNELS, np.float32) + 0.5, name) for name in ("scale", "b", "mean", "var")]

    def add(op: str, *inputs: Any) -> Any:
        node = graph.node(op, inputs)
        node.origin = (node.name,)
        infer_node(node)
        return node.output

    value = graph.add_input("x", TensorType(np.dtype(np.float32), (1, CHANNELS, 14, 14)))
    while len(graph) < nodes:
        inner = add("Relu", add("BatchNormalization", add("Conv", value, weights), *affine))
        value = add("Relu", add("Add", add("BatchNormalization", add("Conv", inner, weights), *affine), value))
    graph.add_output(value)
    return graph


class Willing:
    """A kernel pack that runs whatever the rules emit, at the model's price."""

    name, version, is_reference, launch_seconds = "willing", "0", False, 1e-7
    blocks: Sequence[int] = ()

    def __init__(self, packs: Sequence[RulePack]) -> None:
        self.kinds = [kind for pack in packs for kind in pack.kinds]

    def offer(self, node: Node, target: Target) -> Sequence[Offer]:
        """One offer for anything."""
        inputs = tuple(None if v is None else Operand() for v in node.inputs)
        return [Offer("any", inputs, tuple(Operand() for _ in node.outputs), lambda *_: None)]

    def reorder(self, *_: Any) -> None:
        """None needed."""

    def assemble(self, *_: Any) -> None:
        """Nothing runs."""


def measure(graph: Graph, packs: Sequence[RulePack]) -> tuple[float, float, Ledger, int]:
    """Seconds of the rewrite stages and of the fuse stage, the ledger, and the nodes left."""
    options = Options()
    target = detect()
    start = time.perf_counter()
    prepared, ledger = prepare(graph, packs, options)
    rewritten = time.perf_counter()
    fuse(prepared, packs, Offers([Willing(packs)], target, CostModel(target)), options, ledger)
    return rewritten - start, time.perf_counter() - rewritten, ledger, len(prepared)


def rows(sizes: Sequence[int], packs: Sequence[RulePack]) -> Iterator[tuple[int, float, float, Ledger, int]]:
    """The quickest of a few runs for each size."""
    for size in sizes:
        graph = blocks(size)
        runs = [measure(graph, packs) for _ in range(REPEATS)]
        yield (len(graph), *min(runs, key=lambda run: run[0] + run[1]))


def main(arguments: Sequence[str]) -> None:
    """Print one line a size, and the slowest rules of the last."""
    packs = default_registry().rule_packs
    print(f"{len(packs)} packs, {sum(len(pack.rules) for pack in packs)} rules")
    print(f"{'nodes':>7} {'rewrite s':>10} {'fuse s':>8} {'all s':>8} {'ratio':>6} {'left':>7}  verdicts")
    last = 0.0
    ledger = Ledger()
    for nodes, rewrite, fusing, ledger, left in rows([int(a) for a in arguments] or [4000, 16000, 64000], packs):
        total = rewrite + fusing
        counts = ", ".join(f"{verdict} {n}" for verdict, n in ledger.counts().items() if n)
        ratio = f"{total / last:.2f}" if last else ""
        print(f"{nodes:7} {rewrite:10.3f} {fusing:8.3f} {total:8.3f} {ratio:>6} {left:7}  {counts}", flush=True)
        last = total
    for rule, seconds in sorted(ledger.rule_seconds.items(), key=lambda item: -item[1])[:8]:
        print(f"  {seconds:8.3f} s  {rule}")


if __name__ == "__main__":
    main(sys.argv[1:])
