"""New input shapes take over what was decided for their class of sizes: right results, the same bits in any order, the
same ledger as if they had come first, and decisions of their own where those of the class do not hold.
"""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import autofusion as af
from autofusion.fusion.ledger import Verdict
from autofusion.ir.graph import FUSED
from autofusion.ir.text import from_text
from autofusion.ir.types import TensorType
from autofusion.runtime.classes import representative, round_size
from autofusion.runtime.session import Session
from autofusion.tools import explain
from tests.support.open_sizes import compiled, network, picture, pictures

RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("shapes") / "pictures.onnx"
    onnx.save(network(), file)
    return file


def sites(session: Session) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(r.rule, r.verdict.value, r.nodes) for r in session.ledger.records]


def test_two_hundred_shapes_in_a_row(path: Path) -> None:
    session, plain = compiled(path, plan_limit=24), compiled(path, level="off", plan_limit=2)
    theirs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for number, shape in enumerate(pictures(200)):
        x = picture(shape)
        found = session(x)
        np.testing.assert_allclose(found, theirs.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
        if number % 10 == 0:
            np.testing.assert_allclose(found, plain(x), rtol=1e-4, atol=1e-5)
    counted = session.statistics()
    assert counted.kept <= 24
    assert counted.replays > 100


def test_memory_stays_flat(path: Path) -> None:
    session = compiled(path, plan_limit=8)
    taken = []
    tracemalloc.start()
    try:
        for round_ in range(3):
            for height in range(16, 24):
                for width in range(30, 42):
                    session(picture((1, 3, height, width)))
            gc.collect()
            taken.append(tracemalloc.get_traced_memory()[0])
            assert session.statistics().evictions == (round_ + 1) * 96 - 8, "every shape has been planned again"
    finally:
        tracemalloc.stop()
    assert max(taken[1:]) <= 1.05 * taken[0]


def test_bits_do_not_depend_on_the_order_of_shapes(path: Path) -> None:
    shapes = pictures(24)
    forwards, backwards = compiled(path), compiled(path)
    one = {shape: forwards(picture(shape)) for shape in shapes}
    other = {shape: backwards(picture(shape)) for shape in reversed(shapes)}
    for shape in shapes:
        np.testing.assert_array_equal(one[shape], other[shape])
    stated = compiled(path, shapes={"x": shapes[3]})
    np.testing.assert_array_equal(stated(picture(shapes[3])), one[shapes[3]])


def test_the_ledger_is_that_of_a_shape_that_came_first(path: Path) -> None:
    session = compiled(path)
    for shape in ((1, 3, 20, 44), (2, 3, 20, 40), (1, 3, 21, 45), (1, 3, 1, 45)):
        session(picture(shape))
        first = compiled(path)
        first(picture(shape))
        assert sites(session) == sites(first)
        assert any(r.verdict is Verdict.FUSED and r.kind == "conv" for r in session.ledger.records)
        fused = [n.name for n in session.plan.graph.nodes if n.op == FUSED]
        assert fused == [n.name for n in first.plan.graph.nodes if n.op == FUSED]
        assert [s.kernel for s in session.plan.steps] == [s.kernel for s in first.plan.steps]


def test_near_sizes_share_decisions_and_say_for_which_they_were_made(path: Path) -> None:
    session = compiled(path)
    for width in range(37, 44):
        session(picture((1, 3, 20, width)))
    counted = session.statistics()
    assert (counted.plans, counted.replays, counted.full) == (7, 7, 1)
    said = "decided for 'x' f32[1, 3, 20, 40] and taken over for near sizes"
    assert session.ledger.decided == [said]
    assert f"sizes: {said}" in explain.whole(session)
    assert explain.as_data(session)["sizes"] == [said]
    session(picture((1, 3, 20, 40)))
    assert session.ledger.decided == []


def test_a_dim_of_one_gets_decisions_of_its_own(path: Path) -> None:
    session, plain = compiled(path), compiled(path, level="off")
    session(picture((1, 3, 18, 40)))
    for shape in ((1, 3, 17, 1), (1, 3, 1, 1), (3, 3, 1, 17), (1, 3, 2, 41)):
        np.testing.assert_allclose(session(picture(shape)), plain(picture(shape)), rtol=1e-4, atol=1e-5)


ADDED = """
graph @added(%x: f32[n, 4], %y: f32[m, 4]) -> (f32[?, 4]) {
  %a = Add(%x, %y) : f32[?, 4]
  %b = Relu(%a) : f32[?, 4]
  %c = Exp(%b) : f32[?, 4]
  return %c
}
"""


def test_a_broadcast_that_appears_and_disappears() -> None:
    session = compiled(ADDED)
    for n, m in ((17, 17), (19, 19), (19, 1), (1, 19), (1, 1), (18, 18), (9, 1), (0, 0), (1, 0)):
        x, y = RNG.standard_normal((n, 4), np.float32), RNG.standard_normal((m, 4), np.float32)
        np.testing.assert_allclose(session(x, y), np.exp(np.maximum(x + y, 0)), rtol=1e-5)
    with pytest.raises(af.AutofusionError):
        session(np.ones((18, 4), np.float32), np.ones((19, 4), np.float32))


def test_sizes_that_are_equal_by_chance() -> None:
    text = """
    graph @split(%x: f32[n, m]) -> (f32[?, ?]) {
      %s = Shape(%x) : i64[2]
      %0 = constant dense<0> : i64[]
      %1 = constant dense<1> : i64[]
      %a = Gather(%s, %0) {axis = 0} : i64[]
      %b = Gather(%s, %1) {axis = 0} : i64[]
      %z = constant dense<[0]> : i64[1]
      %au = Unsqueeze(%a, %z) : i64[1]
      %bu = Unsqueeze(%b, %z) : i64[1]
      %to = Concat(%bu, %au) {axis = 0} : i64[2]
      %r = Reshape(%x, %to) : f32[?, ?]
      %e = Exp(%r) : f32[?, ?]
      %y = Neg(%e) : f32[?, ?]
      return %y
    }
    """
    session = compiled(text)
    for n, m in ((16, 16), (16, 17), (17, 16), (17, 17), (20, 20), (21, 19), (1, 17), (17, 1)):
        x = RNG.standard_normal((n, m), np.float32)
        np.testing.assert_allclose(session(x), -np.exp(x.reshape(m, n)), rtol=1e-5)
    # In a square the Reshape does nothing and goes; whoever is near a square keeps it, and the other way round.
    session(np.ones((17, 19), np.float32))
    assert "alone, not as for 'x'" in session.ledger.decided[0] or "Reshape" in str(session.plan.graph.nodes)


def test_a_value_of_sizes_that_decides_a_branch() -> None:
    then, other = (
        from_text(f"""
        graph @{name}(%v: f32[n]) -> (f32[n]) {{
          %r = {op}(%v) : f32[n]
          return %r
        }}
        """)
        for name, op in (("then", "Exp"), ("other", "Neg"))
    )
    graph = from_text("""
    graph @long(%x: f32[n]) -> (i64[]) {
      %size = Size(%x) : i64[]
      return %size
    }
    """)
    limit = graph.constant(np.array(18, np.int64))
    condition = graph.node("Greater", [graph.outputs[0], limit]).output
    branches = {"then_branch": then, "else_branch": other, "captures": 1}
    chosen = graph.node("If", [condition, graph.inputs[0]], branches).output
    graph.set_output(0, graph.node("Abs", [chosen]).output)
    graph.inputs[0].type = TensorType(np.dtype(np.float32), ("n",))
    session = af.compile(graph, threads=1)
    for size in (16, 17, 18, 19, 20, 21, 40):
        x = RNG.standard_normal(size).astype(np.float32)
        np.testing.assert_allclose(session(x), np.abs(np.exp(x) if size > 18 else -x), rtol=1e-5)


def test_a_model_that_does_not_take_the_representative() -> None:
    text = """
    graph @thirds(%x: f32[n], %y: f32[m]) -> (f32[?]) {
      %xx = Concat(%x, %x, %x) {axis = 0} : f32[?]
      %s = Add(%xx, %y) : f32[?]
      %r = Relu(%s) : f32[?]
      %z = Exp(%r) : f32[?]
      return %z
    }
    """
    session = compiled(text)
    for size in (17, 18, 19, 33, 9):
        x, y = np.ones(size, np.float32), np.arange(3 * size, dtype=np.float32) / size
        np.testing.assert_allclose(session(x, y), np.exp(1 + y), rtol=1e-5)
    assert any("alone, not as for" in line for line in session.ledger.decided)


def test_a_cache_that_grows_with_its_mask() -> None:
    text = """
    graph @step(%cache: f32[1, past, 8], %new: f32[1, 1, 8], %mask: f32[1, total, 1]) -> (f32[1, ?, 8]) {
      %all = Concat(%cache, %new) {axis = 1} : f32[1, ?, 8]
      %m = Mul(%all, %mask) : f32[1, ?, 8]
      %t = Tanh(%m) : f32[1, ?, 8]
      return %t
    }
    """
    session = compiled(text)
    for past in range(20, 60):
        cache, new = RNG.standard_normal((1, past, 8), np.float32), RNG.standard_normal((1, 1, 8), np.float32)
        mask = RNG.standard_normal((1, past + 1, 1), np.float32)
        expected = np.tanh(np.concatenate([cache, new], 1) * mask)
        np.testing.assert_allclose(session(cache, new, mask), expected, rtol=1e-5, atol=1e-6)
    counted = session.statistics()
    assert counted.plans == 40
    assert counted.full < 8


def test_a_memory_budget_is_kept_by_every_shape(path: Path) -> None:
    session = compiled(path, memory_budget=100_000)
    for width in (37, 38, 39):
        session(picture((1, 3, 20, width)))
    assert session.statistics().replays == 0


def test_rounding() -> None:
    exact = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 32, 48, 64, 96, 224, 256, 320, 384, 448, 640, 768)
    assert [round_size(size) for size in exact] == list(exact)
    assert [round_size(size) for size in (9, 11, 15, 17, 33, 100, 960, 1000)] == [10, 12, 16, 16, 32, 96, 1024, 1024]
    for size in range(1, 5000):
        rounded = round_size(size)
        assert abs(rounded - size) <= size / 8
        assert round_size(rounded) == rounded
        assert rounded % (size & -size) == 0, "multiples of a power of two stay such multiples"


def test_only_open_dims_are_rounded() -> None:
    graph = from_text("""
    graph @two(%x: f32[n, 9, 50], %y: f32[m]) -> (f32[m]) {
      return %y
    }
    """)
    x, y = TensorType(np.dtype(np.float32), (50, 9, 50)), TensorType(np.dtype(np.float32), (51,))
    stand = representative(graph, (x, y))
    assert [t.static_shape for t in stand if isinstance(t, TensorType)] == [(48, 9, 50), (49,)]
