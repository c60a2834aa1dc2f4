"""Asking packs for offers: who is asked, how often, in which order, what is refused, and what an offer costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from autofusion.cost.model import CostModel
from autofusion.errors import KernelError
from autofusion.ir.dtypes import F32
from autofusion.ir.graph import FUSED, Graph, Node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import Offer, Operand
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind
from autofusion.offers.ask import Offers
from autofusion.offers.switches import KernelSwitches
from autofusion.options import Options
from autofusion.refusal import Refusal

TARGET = Target(
    isa="generic", lanes=4, threads=1, peak_flops=1e10, l1_bytes=1 << 15, l2_bytes=1 << 20, l3_bytes=1 << 24,
    bandwidth_l2=1e11, bandwidth_l3=5e10, bandwidth_memory=2e10, transcendentals=1e9,
)  # fmt: skip
TYPE = TensorType(F32, (2, 3))


class Pack:
    version, blocks, launch_seconds = "1.0", (), 1e-6

    def __init__(
        self,
        name: str,
        answer: Callable[[Node], Any] | float = 1.0,
        *,
        kinds: Sequence[FusedKind] = (),
        is_reference: bool = False,
    ) -> None:
        self.name, self.kinds, self.is_reference = name, kinds, is_reference
        self.answer = answer
        self.asked: list[Node] = []

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        self.asked.append(node)
        answer = self.answer(node) if callable(self.answer) else self.answer
        if not isinstance(answer, float):
            return answer
        operands = tuple(None if v is None else Operand() for v in node.inputs)
        return [Offer("k", operands, tuple(Operand() for _ in node.outputs), lambda *_: None, seconds=answer)]

    def reorder(self, *_: Any) -> Offer | None:
        return None

    def assemble(self, *_: Any) -> None:
        return None


def offers(*packs: Any, switches: KernelSwitches | None = None) -> Offers:
    return Offers(packs, TARGET, CostModel(TARGET), switches)


def add(graph: Graph, weights: np.ndarray | None = None, name: str = "add") -> Node:
    x = graph.inputs[0] if graph.inputs else graph.add_input("x", TYPE)
    other = x if weights is None else graph.constant(weights)
    return graph.node("Add", [x, other], outputs=[TYPE], name=name)


def fused(graph: Graph, kind: str = "pointwise") -> Node:
    body = Graph(kind)
    body.add_output(body.node("Relu", [body.add_input("x", TYPE)], outputs=[TYPE]).output)
    x = graph.inputs[0] if graph.inputs else graph.add_input("x", TYPE)
    return graph.node(FUSED, [x], {"kind": kind, "rule": "r", "body": body}, outputs=[TYPE], name="fused")


def test_the_launch_is_counted_once_and_the_cheapest_comes_first() -> None:
    answer = offers(Pack("slow", 3e-6), Pack("fast", 2e-6)).ask(add(Graph()))
    assert [(o.pack.name, o.seconds) for o in answer.offers] == [
        ("fast", pytest.approx(3e-6)),
        ("slow", pytest.approx(4e-6)),
    ]


def _for_ever(*_: object) -> Any:
    while True:
        pass


def test_an_offer_that_does_not_end_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSION_PLUGIN_SECONDS", "0.1")
    answer = offers(Pack("endless", _for_ever), Pack("good")).ask(add(Graph()))
    assert [o.pack.name for o in answer.offers] == ["good"]
    assert "did not end within 0.1 s (at test_ask.py:" in str(answer.refusals[0])


def test_a_kernel_that_does_not_end_fails_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSION_PLUGIN_SECONDS", "0.01")
    node = add(Graph())
    offer = Offer("k", (Operand(), Operand()), (Operand(),), lambda *_: _for_ever)
    kernel = offers(Pack("endless", lambda _: [offer])).ask(node).offers[0].offer.bind(None, [], [])  # type: ignore[arg-type]
    with pytest.raises(KernelError, match=r"kernel 'k' of pack 'endless' 1.0 raised HangError: it did not end"):
        kernel([])  # type: ignore[operator]


def test_reference_packs_come_last_wherever_they_stand() -> None:
    reference, unable = Pack("reference", is_reference=True), Pack("unable", lambda node: Refusal("too small", node))
    graph = Graph()
    node = add(graph)
    answer = offers(reference, unable).ask(node)
    assert [o.pack.name for o in answer.offers] == ["reference"]
    assert [(r.pack.name, r.refusal.reason) for r in answer.refusals] == [("unable", "too small")]
    able = Pack("able")
    assert [o.pack.name for o in offers(reference, able).ask(node).offers] == ["able"]
    assert len(reference.asked) == 1


def test_a_pack_is_asked_once_for_nodes_that_are_the_same_to_it() -> None:
    pack, graph, weights = Pack("p"), Graph(), np.ones((2, 3), np.float32)
    every = offers(pack)
    for name in ("a", "b"):
        every.ask(add(graph, weights, name))
    assert len(pack.asked) == 1
    every.ask(add(graph, weights + 1, "other weights"))
    every.ask(add(graph, None, "no weights"))
    assert len(pack.asked) == 3


def test_constants_of_one_element_count_to_the_sign_of_zero() -> None:
    pack, graph = Pack("p"), Graph()
    every = offers(pack)
    for number in (0.0, -0.0, 1.0, 1.0):
        every.ask(add(graph, np.array(number, np.float32)))
    assert len(pack.asked) == 3


def test_which_results_are_used_counts() -> None:
    pack, graph = Pack("p"), Graph()
    x = graph.add_input("x", TYPE)
    every = offers(pack)
    first = graph.node("MaxPool", [x], outputs=[TYPE, TYPE])
    every.ask(first)
    second = graph.node("MaxPool", [x], outputs=[TYPE, TYPE])
    graph.add_output(second.outputs[1])
    every.ask(second)
    assert len(pack.asked) == 2


def test_what_a_pack_was_given_stays_as_it_was() -> None:
    pack, graph = Pack("p"), Graph()
    node = add(graph)
    offers(pack).ask(node)
    before = list(node.inputs)
    graph.replace_uses(graph.inputs[0], graph.node("Neg", [graph.inputs[0]], outputs=[TYPE]).output)
    assert pack.asked[0].inputs == before != node.inputs


def test_kinds_and_their_versions() -> None:
    old, new = Pack("old", kinds=[FusedKind("pointwise", "1.0")]), Pack("new", kinds=[FusedKind("pointwise", "1.2")])
    without, reference = Pack("without"), Pack("reference", is_reference=True)
    every, node = offers(reference, old, new, without), fused(Graph())
    answer = every.ask(node, FusedKind("pointwise", "1.1"))
    assert [o.pack.name for o in answer.offers] == ["new"]
    assert [str(r) for r in answer.refusals] == [
        "pack 'old' 1.0 cannot run it: it implements version 1.0 of kind 'pointwise', the rule emits 1.1",
        "pack 'without' 1.0 cannot run it: it does not implement kind 'pointwise'",
    ]
    assert not every.ask(node, FusedKind("pointwise", "2")).offers
    assert not reference.asked  # its body would run node by node: nothing is won


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda node: 1 / 0, "raised ZeroDivisionError: division by zero (test_ask.py:"),
        (lambda node: "fast", "answered with str, expected offers"),
        (lambda node: ["fast"], "made an offer that is of type str"),
        (lambda node: [Offer("k", (), (), print)], "made an offer that has 0 operands and 0 results"),
        (lambda node: [Offer("k", (None,) * 2, (Operand(),), print, seconds=-1.0)], "made an offer that takes -1.0"),
        (lambda node: [], "it offers nothing"),
    ],
)
def test_whatever_is_not_an_answer_is_a_refusal_by_name(answer: Callable[[Node], Any], words: str) -> None:
    node = add(Graph())
    said = offers(Pack("broken", answer), Pack("sound")).ask(node)
    assert [o.pack.name for o in said.offers] == ["sound"]
    (refused,) = said.refusals
    assert refused.pack.name == "broken" and words in refused.refusal.reason


def test_refusals_as_one_keep_culprit_and_hint() -> None:
    graph = Graph()
    node = add(graph)
    packs = [Pack("a", lambda n: Refusal("no")), Pack("b", lambda n: Refusal("odd", n.inputs[0], "pad it"))]
    refusal = offers(*packs).ask(node).refusal()
    assert refusal.reason == "pack 'a' 1.0 cannot run it: no; pack 'b' 1.0 cannot run it: odd"
    assert refusal.culprit is graph.inputs[0] and refusal.hint == "pad it"


def test_switches_and_quarantine_hold_for_answers_that_are_known() -> None:
    pack = Pack("p")
    every = offers(pack, switches=KernelSwitches([pack], Options(disable_kernels=frozenset({"p:k@second"}))))  # type: ignore[list-item]
    graph = Graph()
    first, second = add(graph, name="first"), add(graph, name="second")
    assert every.ask(first).offers and not every.ask(second).offers
    every.packs[0].quarantine("k", "it was wrong")
    (refused,) = every.ask(first).refusals
    assert refused.refusal.reason == "it was wrong" and len(pack.asked) == 1


def test_a_failure_names_the_node_that_ran() -> None:
    def answer(node: Node) -> list[Offer]:
        def bind(*_: Any) -> Any:
            raise ValueError("boom")

        return [Offer("k", (Operand(),) * 2, (Operand(),), bind, seconds=1.0)]

    graph, every = Graph(), offers(Pack("p", answer))
    every.ask(add(graph, name="first"))
    (offer,) = every.ask(add(graph, name="second")).offers
    with pytest.raises(KernelError, match=r"kernel 'k' of pack 'p' 1.0 raised ValueError: boom .*for Add 'second'"):
        offer.offer.bind(None, [], [])  # type: ignore[arg-type]


def test_a_kernel_that_runs_out_of_memory_is_only_to_blame_if_it_does_so_again_and_again() -> None:
    short = [True, True, False, True, True, True]

    def answer(node: Node) -> list[Offer]:
        def kernel(arrays: Any) -> list[Any]:
            if short.pop(0):
                raise MemoryError
            return [arrays[0]]

        return [Offer("k", (Operand(),) * 2, (Operand(),), lambda *_: kernel, seconds=1.0)]

    every = offers(Pack("p", answer))
    (offer,) = every.ask(add(Graph())).offers
    kernel = offer.offer.bind(None, [], [])  # type: ignore[arg-type]
    raised = []
    while short:
        try:
            kernel([1.0])
        except (MemoryError, KernelError) as error:
            raised.append(type(error).__name__)
    assert raised == ["MemoryError"] * 4 + ["KernelFailure"]
