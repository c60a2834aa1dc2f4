"""Plans are bounded in number and bytes and evicted by use; one is made by one thread while known shapes go on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import autofusion as af
from autofusion.cost.detect import detect
from autofusion.errors import OptionError
from autofusion.ir.graph import Graph, Node
from autofusion.ir.text import from_text
from autofusion.ir.types import TensorType
from autofusion.kernels import Offer, Operand, Refusal, Target
from autofusion.plugins.registry import Registry, default_registry
from autofusion.runtime.session import Session

TIMEOUT = 60
CHAIN = """
graph @chain(%x: f32[n, 4]) -> (f32[n, 4]) {
  %h = Add(%x, %x) : f32[n, 4]
  %y = Sigmoid(%h) : f32[n, 4]
  return %y
}
"""


def convolutions() -> Graph:
    """Two padded convolutions of an image of open size, and a sum."""
    rng = np.random.default_rng(5)
    graph = Graph("convolutions")
    x = graph.add_input("x", TensorType(np.dtype(np.float32), (1, 3, "h", "w")))
    pads = {"pads": [1, 1, 1, 1]}
    a = graph.node("Conv", [x, graph.constant(rng.standard_normal((16, 3, 3, 3), np.float32))], pads).output
    b = graph.node("Relu", [a]).output
    c = graph.node("Conv", [b, graph.constant(rng.standard_normal((16, 16, 3, 3), np.float32))], pads).output
    graph.add_output(graph.node("Add", [c, b]).output, "y")
    return graph


class SlowPack:
    """Runs Sigmoid, and lets a test hold up whoever asks it for an offer for a node of so many rows."""

    name, version, is_reference, blocks, launch_seconds = "slow", "1", False, (), 1e-9
    kinds = ()

    def __init__(self, rows: int = -1) -> None:
        self.rows, self.asked = rows, 0
        self.reached, self.go_on = threading.Event(), threading.Event()

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        if node.op != "Sigmoid":
            return Refusal("it only runs Sigmoid")
        if node.output.tensor.static_shape[0] == self.rows:
            self.asked += 1
            self.reached.set()
            assert self.go_on.wait(TIMEOUT)

        def kernel(arrays: Sequence[Any]) -> Sequence[Any]:
            return [1 / (1 + np.exp(-arrays[0]))]

        return [Offer("sigmoid", (Operand(),), (Operand(),), lambda *_: kernel, seconds=1e-9)]

    def reorder(self, *_: object) -> None:
        return None

    def assemble(self, *_: object) -> None:
        return None


def compiled(model: str | Graph, pack: SlowPack | None = None, **options: Any) -> Session:
    registry = default_registry()
    if pack is not None:
        kernel_packs = [pack, *registry.kernel_packs(detect(threads=1))]
        registry = Registry.of(rule_packs=registry.rule_packs, kernel_packs=kernel_packs)
    graph = from_text(model) if isinstance(model, str) else model
    return af.compile(graph, threads=1, registry=registry, **options)


def rows(count: int) -> np.ndarray:
    return np.linspace(-1, 1, 4 * count, dtype=np.float32).reshape(count, 4)


def test_evicted_by_use_within_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    session = compiled(CHAIN, plan_limit=2)
    with caplog.at_level(logging.INFO, "autofusion.runtime"):
        for count in (1, 2, 1, 3, 1, 2):
            session(rows(count))
    found = session.statistics()
    assert (found.plans, found.hits, found.evictions, found.kept) == (4, 2, 2, 2)
    assert [stage.graph.inputs[0].shape for stage in session.executor.stages] == [(1, 4), (2, 4)]
    assert [r.message.partition(" for ")[0] for r in caplog.records].count("new plan of graph 'chain'") == 4
    assert sum("plan evicted: f32[2, 4]" in r.message for r in caplog.records) == 1


def test_evicted_within_the_bytes() -> None:
    session = compiled(CHAIN)
    session(rows(1))
    one = session.statistics().plan_bytes
    bounded = compiled(CHAIN, plan_memory=3 * one + one // 2)
    for count in range(1, 11):
        bounded(rows(count))
    found = bounded.statistics()
    assert (found.kept, found.evictions) == (3, 7)
    tiny = compiled(CHAIN, plan_memory=1)
    tiny(rows(1)), tiny(rows(2))
    assert tiny.statistics().kept == 1, "the plan that runs is kept, whatever it takes"


@pytest.mark.parametrize(("name", "value"), [("plan_limit", 0), ("plan_memory", -1), ("plan_limit", 2.5)])
def test_bounds_are_checked(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"option '{name}' is {value}, expected a"):
        compiled(CHAIN, **{name: value})


def test_plans_of_tails_go_with_their_head() -> None:
    session = compiled(
        """
        graph @rows(%x: f32[n]) -> (f32[?]) {
          %where = NonZero(%x) : i64[1, ?]
          %0 = constant dense<0> : i64[]
          %rows = Gather(%where, %0) {axis = 0} : i64[?]
          %kept = Gather(%x, %rows) {axis = 0} : f32[?]
          %y = Exp(%kept) : f32[?]
          return %y
        }
        """,
        plan_limit=4,
    )
    for size in range(2, 12):
        for zeros in range(2):
            x = np.arange(size, dtype=np.float32)
            x[: zeros + 1] = 0
            np.testing.assert_allclose(session(x), np.exp(x[x != 0]), rtol=1e-6)
    assert session.statistics().kept <= 4


def test_known_shapes_go_on_while_another_thread_plans() -> None:
    pack = SlowPack(rows=7)
    session = compiled(CHAIN, pack)
    expected = session(rows(2))
    thread = threading.Thread(target=lambda: session(rows(7)))
    thread.start()
    try:
        assert pack.reached.wait(TIMEOUT)
        answers: list[np.ndarray] = []
        known = threading.Thread(target=lambda: answers.append(session(rows(2))), daemon=True)
        known.start()
        known.join(TIMEOUT)
        assert answers, "a known shape waited for the planning of another one"
        np.testing.assert_array_equal(answers[0], expected)
        assert thread.is_alive()
    finally:
        pack.go_on.set()
        thread.join(TIMEOUT)
    assert not thread.is_alive()


def test_two_threads_plan_one_new_shape_once() -> None:
    pack = SlowPack(rows=7)
    session = compiled(CHAIN, pack)
    answers: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: answers.append(session(rows(7)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert pack.reached.wait(TIMEOUT)
    pack.go_on.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert len(answers) == 3
    assert session.statistics().plans == 1


def test_a_plan_that_cannot_be_made_holds_up_nobody() -> None:
    session = compiled("""
        graph @sum(%x: f32[n], %y: f32[m]) -> (f32[?]) {
          %s = Add(%x, %y) : f32[?]
          return %s
        }
    """)
    x, y = np.ones(3, np.float32), np.ones(4, np.float32)
    for _ in range(2):
        with pytest.raises(af.AutofusionError):
            session(x, y)
    np.testing.assert_array_equal(session(x, x), [2, 2, 2])


def test_one_arena_for_plans_of_all_sizes_and_zeros_where_a_border_was() -> None:
    session, other = compiled(convolutions()), compiled(convolutions(), level="off", disable_kernels=["cpu"])
    rng = np.random.default_rng(0)
    for height, width in ((16, 24), (9, 7), (12, 30), (16, 24), (9, 7), (12, 30)):
        x = rng.standard_normal((1, 3, height, width), np.float32)
        np.testing.assert_allclose(session(x), other(x), rtol=1e-4, atol=1e-4)
    arenas = {stage.arena for stage in session.executor.stages}
    largest = max(stage.runner.plan.arena_bytes for stage in session.executor.stages)
    assert len(arenas) == 1
    assert session.statistics().arena_bytes == largest


def test_growing_plans_share_few_arenas() -> None:
    session = compiled(convolutions())
    for size in range(4, 44):
        session(np.ones((1, 3, size, size), np.float32))
    sizes = [stage.runner.plan.arena_bytes for stage in session.executor.stages]
    arenas = {stage.arena for stage in session.executor.stages}
    assert len(sizes) == 40
    assert sum(arena.wanted for arena in arenas) <= 3 * max(sizes), "each is at least twice the one before"


def test_threads_with_several_shapes_agree_with_one_thread() -> None:
    session = compiled(convolutions())
    rng = np.random.default_rng(1)
    given = [rng.standard_normal((1, 3, 8 + i, 20 - i), np.float32) for i in range(6)]
    expected = [compiled(convolutions())(x) for x in given]
    wrong: list[int] = []

    def work(number: int) -> None:
        order = np.random.default_rng(number).permutation(len(given) * 5) % len(given)
        wrong.extend(int(i) for i in order if not np.array_equal(session(given[i]), expected[i]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert not wrong
