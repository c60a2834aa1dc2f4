"""Plans of new sizes are made from the graph of their class, which is given these sizes in place: nobody may notice."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import autofusion as af
from autofusion.cost.detect import detect
from autofusion.errors import KernelError
from autofusion.fusion.ledger import Verdict
from autofusion.ir.graph import Graph, Node
from autofusion.ir.text import from_text, to_text
from autofusion.kernels import Offer, Operand, Refusal, Target
from autofusion.plugins.registry import Registry, default_registry
from autofusion.runtime.session import Session
from autofusion.runtime.template import Template
from autofusion.tools import explain, profile
from tests.support.open_sizes import compiled, network, picture

RNG = np.random.default_rng(4)
WIDTHS = (37, 38, 39, 41, 42, 43)
"""All of the class of 40."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sizes") / "pictures.onnx"
    onnx.save(network(), file)
    return file


@pytest.fixture
def resized(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many graphs were given other sizes successfully, as its only element."""
    count, resize = [0], Template.resize

    def counted(self: Template, types: Any) -> None:
        resize(self, types)
        count[0] += 1

    monkeypatch.setattr(Template, "resize", counted)
    return count


def told(session: Session) -> list[object]:
    """All that reports say of the last plan."""
    plan = session.plan
    return [
        to_text(plan.graph, with_names=True),
        to_text(session.stage.graph, with_names=True),
        explain.whole(session),
        explain.as_data(session)["steps"],
        [to_text(step.node.body) for step in plan.steps if "body" in step.node.attrs],
        [(step.node.name, [str(v.type) for v in step.node.outputs], step.seconds) for step in plan.steps],
        [(node.name, str(node.output.type), how) for node, how in plan.views],
        [(view and (view.shape, view.strides, view.offset)) for step in plan.steps for view in step.inputs],
        (plan.arena_bytes, plan.peak_bytes, plan.borders),
    ]


def test_reports_and_bits_are_those_of_a_session_that_saw_nothing_else(path: Path, resized: list[int]) -> None:
    session = compiled(path)
    found = {}
    for width in WIDTHS:
        found[width] = session(picture((1, 3, 20, width)))
    assert resized[0] >= len(WIDTHS) - 1
    for width in WIDTHS:
        fresh = compiled(path)
        np.testing.assert_array_equal(fresh(picture((1, 3, 20, width))), found[width])
        np.testing.assert_array_equal(session(picture((1, 3, 20, width))), found[width])
        mine, theirs = told(session), told(fresh)
        mine[2], theirs[2] = ([line for line in lines if "s)" not in line] for lines in (mine[2], theirs[2]))
        assert mine == theirs


def test_watching_and_profiling_a_plan_after_others_were_made(path: Path) -> None:
    session, plain = compiled(path), compiled(path, level="off")
    for width in WIDTHS:
        session(picture((2, 3, 20, width)))
    for width in WIDTHS:
        x = picture((2, 3, 20, width))
        seen = session.watch(["softmax", "relu1"], {"x": x})
        expected = plain.watch(["softmax", "relu1"], {"x": x})
        np.testing.assert_array_equal(seen.outputs["y"], session(x))
        for name, value in expected.values.items():
            np.testing.assert_allclose(seen.values[name], value, rtol=1e-4, atol=1e-5)
        steps = profile.profile(session, {"x": x}).steps
        assert {size for s in steps for v in s.step.node.outputs for size in v.tensor.static_shape} & {-(-width // 2)}


def test_constants_that_follow_from_sizes(resized: list[int]) -> None:
    table = RNG.standard_normal((256, 4)).astype(np.float32)
    graph = from_text("""
    graph @positions(%x: f32[n, 4]) -> (i64[1]) {
      %s = Shape(%x) {start = 0, end = 1} : i64[1]
      return %s
    }
    """)
    (x,), size = graph.inputs, graph.outputs[0]
    zero = graph.constant(np.zeros(1, np.int64))
    rows = graph.node("Slice", [graph.constant(table, "table"), zero, size, zero]).output
    added = graph.node("Add", [graph.node("Tanh", [x]).output, rows]).output
    graph.set_output(0, graph.node("Exp", [added]).output)
    session = af.compile(graph, threads=1)
    # Up to 16 rows the constant is small enough to be a parameter, beyond that it is data.
    for count in (13, 14, 15, 13, 17, 18, 15, 17, 18, 33, 34, 35, 36, 34, 17):
        given = RNG.standard_normal((count, 4)).astype(np.float32)
        np.testing.assert_allclose(session(given), np.exp(np.tanh(given) + table[:count]), rtol=1e-5)
    assert resized[0] >= 3


def test_rewrites_are_checked_again(resized: list[int]) -> None:
    session = compiled("""
    graph @there_and_back(%x: f32[n, m]) -> (f32[?, ?]) {
      %s = Shape(%x) : i64[2]
      %flat = constant dense<[-1]> : i64[1]
      %a = Exp(%x) : f32[n, m]
      %b = Reshape(%a, %flat) : f32[?]
      %c = Reshape(%b, %s) : f32[?, ?]
      %t = Transpose(%c) {perm = [1, 0]} : f32[?, ?]
      %u = Transpose(%t) {perm = [1, 0]} : f32[?, ?]
      %r = Neg(%u) : f32[?, ?]
      return %r
    }
    """)
    for n, m in ((41, 81), (42, 82), (43, 81), (41, 43), (43, 43), (41, 83)):
        x = RNG.standard_normal((n, m)).astype(np.float32)
        np.testing.assert_allclose(session(x), -np.exp(x), rtol=1e-5)
    assert any(r.verdict is Verdict.FUSED and not r.kind for r in session.ledger.records), "nothing was rewritten"
    assert resized[0] > 1


def test_the_branch_of_an_if_holds_for_its_sizes_only(resized: list[int]) -> None:
    branches = {
        name: from_text(f"""
        graph @{name}(%v: f32[n]) -> (f32[n]) {{
          %r = {op}(%v) : f32[n]
          return %r
        }}
        """)
        for name, op in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    graph = from_text("""
    graph @long(%x: f32[n]) -> (i64[]) {
      %size = Size(%x) : i64[]
      return %size
    }
    """)
    condition = graph.node("Greater", [graph.outputs[0], graph.constant(np.array(39, np.int64))]).output
    chosen = graph.node("If", [condition, graph.inputs[0]], {**branches, "captures": 1}).output
    graph.set_output(0, graph.node("Abs", [chosen]).output)
    session = af.compile(graph, threads=1)
    for size in (41, 42, 43, 37, 38, 40, 42):
        x = RNG.standard_normal(size).astype(np.float32)
        np.testing.assert_allclose(session(x), np.abs(np.exp(x) if size > 39 else -x), rtol=1e-5)
    assert resized[0] > 0


class TanhPack:
    """Runs Tanh in NumPy, and looks at its node when it is run; ``resize`` is what its offers are resized by."""

    name, version, is_reference, blocks, launch_seconds, kinds = "tanh", "1", False, (), 1e-9, ()

    def __init__(self, resize: Any = None) -> None:
        self.resize, self.asked = resize, 0

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        if node.op != "Tanh":
            return Refusal("it only runs Tanh")
        self.asked += 1

        def kernel(arrays: Sequence[Any]) -> Sequence[Any]:
            assert arrays[0].shape == node.output.tensor.static_shape, "the node has other sizes by now"
            return [np.tanh(arrays[0])]

        return [Offer("tanh", (Operand(),), (Operand(),), lambda *_: kernel, seconds=1e-9, resize=self.resize)]

    def reorder(self, *_: object) -> None:
        return None

    def assemble(self, *_: object) -> None:
        return None


def tanh_of(graph: str, pack: TanhPack) -> Session:
    packs = [pack, *default_registry().kernel_packs(detect(threads=1))]
    registry = Registry.of(rule_packs=default_registry().rule_packs, kernel_packs=packs)
    return af.compile(from_text(graph), threads=1, registry=registry)


SUMS = """
graph @sums(%x: f32[n, 4]) -> (f32[?, 4]) {
  %d = Concat(%x, %x) {axis = 0} : f32[?, 4]
  %t = Tanh(%d) : f32[?, 4]
  return %t
}
"""


def _raise() -> Offer:
    raise RuntimeError("it cannot count")


@pytest.mark.parametrize("resize", [None, lambda: None, _raise, lambda: "rubbish"])
def test_a_pack_that_does_not_resize_is_asked_of_a_node_of_its_own(resize: Any, resized: list[int]) -> None:
    pack = TanhPack(resize)
    session = tanh_of(SUMS, pack)
    for count in (*WIDTHS, *WIDTHS[::-1]):
        x = RNG.standard_normal((count, 4)).astype(np.float32)
        np.testing.assert_allclose(session(x), np.tanh(np.concatenate([x, x])), rtol=1e-6)
        assert session.plan.steps[-1].kernel == "tanh:tanh"
    assert resized[0] >= len(WIDTHS) - 1
    assert pack.asked >= len(WIDTHS)


def test_a_kernel_that_fails_is_replaced_for_every_size(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(TanhPack):
        def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
            answer = super().offer(node, target)
            if isinstance(answer, Refusal):
                return answer

            def kernel(arrays: Sequence[Any]) -> Sequence[Any]:
                if arrays[0].shape[0] == 2 * WIDTHS[-1]:
                    raise KernelError("too long")
                return [np.tanh(arrays[0])]

            return [Offer("tanh", (Operand(),), (Operand(),), lambda *_: kernel, seconds=1e-9)]

    session = tanh_of(SUMS, Failing())
    with caplog.at_level(logging.WARNING, "autofusion"):
        for count in (*WIDTHS, *WIDTHS):
            x = RNG.standard_normal((count, 4)).astype(np.float32)
            np.testing.assert_allclose(session(x), np.tanh(np.concatenate([x, x])), rtol=1e-5)
    assert session.plan.steps[-1].kernel != "tanh:tanh"


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_sizes_in_a_row(path: Path, count: int) -> None:
    session, other = compiled(path, plan_limit=16), compiled(path, level="off", plan_limit=2)
    rng = np.random.default_rng(count)
    taken = {}
    for number in range(1, count + 1):
        # Of 30 classes: what is kept for each class, and of each size, is bounded, but not by so few.
        shape = (int(rng.integers(1, 3)), 3, int(rng.integers(17, 24)), int(rng.integers(33, 64)))
        found = session(picture(shape))
        if number % 20 == 0:
            np.testing.assert_allclose(found, other(picture(shape)), rtol=1e-4, atol=1e-5)
        if number in (count // 2, count):
            taken[number] = _resident_bytes()
    counted = session.statistics()
    assert counted.kept == 16
    if count > 100:
        assert taken[count] <= 1.05 * taken[count // 2]
        assert counted.full < counted.plans / 4


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def test_level_off_is_resized_as_well(path: Path, resized: list[int]) -> None:
    session, fused = compiled(path, level="off"), compiled(path)
    for width in (*WIDTHS, *WIDTHS):
        x = picture((1, 3, 20, width))
        np.testing.assert_allclose(session(x), fused(x), rtol=1e-4, atol=1e-5)
    assert resized[0] >= 2 * (len(WIDTHS) - 1)
    assert isinstance(session.stage.graph, Graph)
