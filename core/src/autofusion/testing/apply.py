"""Apply rules to a graph as a test wants it: without asking whether it pays, and run graphs by the reference kernels.

Whether a fusion is legal must not depend on which kernels happen to be installed or on what they cost. Here every fused
node has a kernel that is free, so that a fuse rule takes whatever it proposes, and the numbers say whether it may.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.cost.detect import detect
from autofusion.cost.model import CostModel
from autofusion.errors import KernelError
from autofusion.fusion.ledger import Ledger, Verdict
from autofusion.fusion.optimise import fuse, prepare
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.verify import verify
from autofusion.kernels.contract import BindContext, KernelPack, Offer, Operand
from autofusion.kernels.evaluation import run_by_reference
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind
from autofusion.offers.ask import Offers
from autofusion.options import Options
from autofusion.plugins.registry import default_registry
from autofusion.refusal import Refusal
from autofusion.rules.rule import RulePack
from autofusion.runtime.control import MAKERS
from autofusion.runtime.repeat import Loop


@functools.cache
def this_target() -> Target:
    """The machine that the tests run on."""
    return detect()


@functools.cache
def installed_reference() -> KernelPack:
    """The installed reference kernels; raise PluginError if there are none."""
    return default_registry().reference_pack(this_target())


def run_node(node: Node, operands: Sequence[Any]) -> list[Any]:
    """The results of ``node`` by the reference kernels (a fused node or control flow: by its bodies); KernelError if
    they do not run it.
    """
    if node.op in MAKERS:
        return list(MAKERS[node.op](node, _Body)(operands))
    with np.errstate(all="ignore"):
        return list(run_by_reference(installed_reference(), node, list(operands), BindContext(this_target(), {})))


def run_graph_by_reference(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of ``graph``, in order; inputs that are left out take their defaults."""
    values: dict[Value, Any] = {v: inputs[v.name] if v.name in inputs else v.default for v in graph.inputs}
    graph.sort()
    for node in graph.nodes:
        operands = [None if v is None else v.const if v.const is not None else values[v] for v in node.inputs]
        values |= dict(zip(node.outputs, run_node(node, operands), strict=False))
    return [v.const if v.const is not None else values[v] for v in graph.outputs]


class _Body:
    """A body of control flow, run by the reference kernels."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for ``inputs``."""
        return run_graph_by_reference(self._graph, dict(zip((v.name for v in self._graph.inputs), inputs, strict=True)))

    def repeat(self, inputs: Sequence[Any], loop: Loop) -> None:
        """Nothing: bodies are run step by step."""


class FreeKernels:
    """A kernel pack that offers to run every fused node for nothing; it is only ever asked, never bound."""

    name = "free"
    version = "0"
    is_reference = False
    blocks: Sequence[int] = ()
    launch_seconds = 0.0

    def __init__(self, kinds: Sequence[FusedKind]) -> None:
        self.kinds = kinds

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """A free kernel for a fused node, a slow one for any other."""

        def bind(*_: Any) -> Any:
            raise KernelError("this kernel stands for any kernel, and cannot run")

        inputs = tuple(None if v is None else Operand() for v in node.inputs)
        outputs = tuple(Operand() for _ in node.outputs)
        return [Offer(f"free.{node.op}", inputs, outputs, bind, seconds=0.0 if node.op == FUSED else 1.0)]

    def reorder(self, *_: Any) -> None:
        """None: nothing is lowered."""

    def assemble(self, *_: Any) -> None:
        """None: nothing is bound."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A graph after rules were applied to it, and what they decided."""

    graph: Graph
    ledger: Ledger

    def fired(self, rule: str) -> bool:
        """True if the rule was applied somewhere."""
        return any(r.rule.split("@")[0] == rule for r in self.ledger.of(Verdict.FUSED))

    @property
    def errors(self) -> list[str]:
        """What rules did wrong: they raised, broke the graph, or went in circles."""
        return [r.reason for r in self.ledger.of(Verdict.ERROR)]


def apply_rules(graph: Graph, packs: Sequence[RulePack], options: Options | None = None) -> Applied:
    """A copy of ``graph`` (which must verify) after all stages, with every legal fusion taken."""
    options = options or Options()
    found, ledger = prepare(graph, packs, options)
    kinds = [kind for pack in packs for kind in pack.kinds]
    if kinds:
        target = this_target()
        fuse(found, packs, Offers([FreeKernels(kinds)], target, CostModel(target)), options, ledger)
    found.sort()
    verify(found)
    return Applied(found, ledger)
