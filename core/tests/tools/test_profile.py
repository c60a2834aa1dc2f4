"""Times of every step, what the machine could do, and how they are told."""

from __future__ import annotations

import itertools
import json

import pytest

import autofusion as af
from autofusion.ir.text import from_text
from autofusion.runtime.session import Session
from autofusion.tools import profile as profiler
from autofusion.tools.profile import Profile, profile
from core.tests.tools.tool_nets import feeds, network


@pytest.fixture(scope="module")
def session() -> Session:
    return af.compile(network(), threads=1)


@pytest.fixture(scope="module")
def found(session: Session) -> Profile:
    return profile(session, feeds(), runs=3)


def test_every_step_is_timed_in_order(session: Session, found: Profile) -> None:
    assert [s.step for s in found.steps] == session.plan.steps
    assert all(s.seconds > 0 for s in found.steps)
    assert found.seconds == pytest.approx(sum(s.seconds for s in found.steps))


def test_work_is_counted_from_the_node(found: Profile) -> None:
    conv = next(s for s in found.steps if s.what == "Fused conv")
    multiply_adds = 8 * 16 * 16 * 8 * 9
    assert conv.work.flops >= 2 * multiply_adds
    assert conv.gflops == pytest.approx(conv.work.flops / conv.seconds / 1e9)
    assert conv.gbytes == pytest.approx((conv.work.bytes_read + conv.work.bytes_written) / conv.seconds / 1e9)
    assert conv.label == "first + 4 more"
    reorder = next(s for s in found.steps if s.step.is_reorder)
    assert reorder.work.flops == 0 and reorder.work.bytes_read > 0


def test_totals_add_up(found: Profile) -> None:
    for key in ("kernel", "operator"):
        rows = found.by(key)
        assert sum(seconds for _, seconds, _ in rows) == pytest.approx(found.seconds)
        assert sum(count for _, _, count in rows) == len(found.steps)
        assert [s for _, s, _ in rows] == sorted((s for _, s, _ in rows), reverse=True)


def test_headroom_is_what_is_above_the_roofline(found: Profile) -> None:
    assert found.peak_flops > 1e8 and found.bandwidth > 1e8
    for step in found.steps:
        assert 0 <= found.headroom(step) <= step.seconds


def test_the_text_names_kernels_and_hot_spots(found: Profile) -> None:
    text = "\n".join(profiler.lines(found, most=2))
    assert f"in {len(found.steps)} steps" in text and "cpu:conv" in text and "first + 4 more" in text
    assert "next hot spots" in text
    assert sum("predicted" in line for line in text.splitlines()) == 1


def test_the_data_and_the_trace_are_json(found: Profile) -> None:
    data = json.loads(json.dumps(profiler.as_data(found)))
    assert len(data["steps"]) == len(found.steps)
    assert {"kernel", "operator", "origin", "seconds", "predicted", "gflops", "gbytes", "headroom"} <= data["steps"][
        0
    ].keys()
    trace = json.loads(json.dumps(profiler.chrome_trace(found)))
    events = trace["traceEvents"]
    assert [e["ph"] for e in events] == ["X"] * len(found.steps)
    for before, after in itertools.pairwise(events):
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])


def test_before_and_after_by_operator(session: Session, found: Profile) -> None:
    off = profile(af.compile(network(), threads=1, level="off"), feeds(), runs=2)
    lines = profiler.compare_lines(off, found)
    assert lines[0].startswith("level off ") and f"in {len(found.steps)} steps" in lines[0]
    conv = next(line for line in lines if line.lstrip().startswith("Conv "))
    assert "(2 steps)" in conv and "(1 steps)" in conv
    site, alone, count = next(row for row in profiler.sites(off, found) if row[0].label == "first + 4 more")
    names = set(site.step.node.origin)
    parts = [s for s in off.steps if not s.step.is_reorder and names & set(s.step.node.origin)]
    assert count == len(parts) == 5 and alone == pytest.approx(sum(s.seconds for s in parts))
    assert any("( 5 steps)" in line and line.endswith("Fused conv: first + 4 more") for line in lines)


def test_steps_of_later_parts_count() -> None:
    graph = from_text(
        """
graph @late(%x: f32[8]) -> (f32[?]) {
  %where = NonZero(%x) : i64[1, ?]
  %0 = constant dense<0> : i64[]
  %rows = Gather(%where, %0) {axis = 0} : i64[?]
  %kept = Gather(%x, %rows) {axis = 0} : f32[?]
  %e = Exp(%kept) : f32[?]
  return %e
}
"""
    )
    session = af.compile(graph, threads=1)
    (name,) = [v.name for v in session.graph.inputs]
    x = feeds()["x"].reshape(-1)[:8]
    found = profile(session, {name: x}, runs=2)
    assert next(s.what for s in found.steps) == "NonZero" and found.steps[-1].what == "Exp"
