"""What explain tells of the whole model, of one place, and of one rule."""

from __future__ import annotations

import json

import pytest

import autofusion as af
from autofusion.errors import OptionError
from autofusion.fusion.ledger import Verdict
from autofusion.runtime.session import Session
from autofusion.tools import baseline, explain
from core.tests.tools.tool_nets import feeds, network


@pytest.fixture(scope="module")
def session() -> Session:
    return af.compile(network(), threads=1)


@pytest.fixture(scope="module")
def off(session: Session) -> Session:
    return baseline.unfused(session)


def test_the_data_is_json_and_complete(session: Session, off: Session) -> None:
    data = json.loads(json.dumps(explain.as_data(session, off)))
    assert (data["level"], data["threads"]) == ("full", 1)
    assert sum(data["counts"].values()) == len(data["records"]) == len(session.ledger.records)
    assert len(data["steps"]) == len(session.plan.steps) < data["before"]["steps"] == len(off.plan.steps)
    assert data["predicted"] == pytest.approx(sum(s["predicted"] for s in data["steps"]))
    assert data["predicted"] < data["before"]["predicted"]
    assert (data["peak_bytes"], data["before"]["peak_bytes"]) == (session.plan.peak_bytes, off.plan.peak_bytes)
    assert data["arena_bytes"] == session.plan.arena_bytes
    (fused,) = [r for r in data["records"] if r["site"] == "first" and r.get("kind") == "conv"]
    assert fused["verdict"] == "fused" and fused["rule"].startswith("conv.") and "@" in fused["rule"] + fused["kernel"]
    assert fused["before"] > fused["after"] > 0
    # One by one, an operand and a result are alive (or two operands and a result: x * clip(x)); fused, only the result.
    one = 8 * 16 * 16 * 4
    assert fused["memory_before"] >= 2 * one and fused["memory_after"] == one


def test_the_baseline_is_the_same_model_at_level_off(session: Session, off: Session) -> None:
    assert off.context.options.level.name == "OFF" and off.ledger.records == []
    given = feeds()
    assert abs(off.run(given)["y"] - session.run(given)["y"]).max() < 1e-5
    assert {n.op for n in off.plan.graph.nodes} == {n.op for n in session.source.nodes}


def test_the_baseline_has_the_shapes_of_the_session() -> None:
    session = af.compile(network(batch="n"), threads=1, shapes={"x": (3, 8, 16, 16)})
    off = baseline.unfused(session)
    assert [v.tensor.static_shape for v in off.plan.graph.inputs] == [(3, 8, 16, 16)]


def test_a_memory_budget_is_kept_or_said_to_be_exceeded(session: Session) -> None:
    peak = session.plan.peak_bytes
    kept = af.compile(network(), threads=1, memory_budget=peak)
    assert f"memory budget: {peak / 1e3:.1f} kB, kept" in explain.summary(kept)
    assert explain.as_data(kept)["memory_budget"] == peak and explain.as_data(session)["memory_budget"] is None
    tight = af.compile(network(), threads=1, memory_budget=1000)
    (told,) = [line for line in explain.summary(tight) if line.startswith("memory budget: 1.0 kB, exceeded by ")]
    assert f"{(tight.plan.peak_bytes - 1000) / 1e3:.1f} kB" in told
    assert not any("memory budget" in line for line in explain.summary(session))


def test_the_whole_model_as_text(session: Session, off: Session) -> None:
    text = "\n".join(explain.whole(session, off))
    assert f"steps: {len(off.plan.steps)} at level off -> {len(session.plan.steps)}" in text
    assert "predicted: " in text and "memory: " in text and "alive" in text
    assert "fused, by predicted gain (2):" in text
    assert "first + swish.add + swish.clip + swish.mul + swish.div" in text
    assert "1x pointwise.hard_swish@" in text
    assert "illegal at 'branch': Conv 'branch' -> Relu 'kept': 'branch' is also used by GlobalLpPool" in text
    assert "at fault: 'pooled'" in text
    assert "would fuse if GlobalLpPool 'pooled' did not use 'branch', or could join" in text
    assert "cpu:pointwise.operator" in text


def test_level_off_says_that_no_rule_ran(off: Session) -> None:
    assert explain.summary(off)[0] == "verdicts: none (no rule ran)"


def test_a_node_inside_a_site(session: Session) -> None:
    text = "\n".join(explain.node(session, "swish.clip"))
    assert "Clip(swish.add f32[1, 8, 16, 16]" in text
    assert "rewritten by:" in text and "pointwise.hard_swish@" in text
    assert "fused by:" in text and "at 'first': predicted" in text and "memory alive" in text
    assert "runs with 4 other nodes in cpu:conv" in text and "slower: cpu:conv" in text


def test_a_node_says_what_is_beside_it(session: Session) -> None:
    lines = explain.node(session, "pooled")
    assert not any(r.site == "pooled" or "pooled" in r.nodes for r in session.ledger.records)
    at = lines.index("  no rule found a site with it; beside it are:")
    assert lines[at + 1].strip() == "'branch' from Conv 'branch', read by Fused pointwise 'kept' as well"
    assert lines[at + 2].strip().startswith("'pooled' for ")
    lines = explain.node(session, "branch")
    at = lines.index("  beside it are:")
    assert lines[at + 1].strip().endswith("from Fused conv 'first'")
    assert {"Fused pointwise 'kept'", "GlobalLpPool 'pooled'"} == set(lines[at + 2].split(" for ")[1].split(", "))


def test_each_kernel_that_lost_is_named_once(session: Session) -> None:
    for step in session.plan.steps:
        told = [line.partition(", predicted")[0] for line in explain._slower(step)]
        assert len(told) == len(set(told)) == len({kernel for kernel, _ in step.losers})
        assert f"    slower: {step.kernel}" not in told


def test_a_refused_node_and_a_fused_one_by_its_name_in_the_plan(session: Session) -> None:
    refused = "\n".join(explain.node(session, "branch"))
    assert "not fused by:" in refused and "illegal at 'branch'" in refused
    (fused,) = [r for r in session.ledger.of(Verdict.FUSED) if r.site == "first" and r.kind]
    assert explain.node(session, fused.fused_node)[1:] == explain.node(session, "first")[1:]


def test_a_rule_lists_what_it_did(session: Session) -> None:
    text = "\n".join(explain.node(session, "conv.activation"))
    assert text.startswith("rule conv.activation: 2 records")
    assert "applied:" in text and "not applied:" in text and "'branch'" in text
    silent = explain.node(session, "conv.fold_batch_norm")
    assert silent[0].startswith("rule conv.fold_batch_norm: 0 records")


@pytest.mark.parametrize(("name", "near"), [("branhc", "branch"), ("conv.activaton", "conv.activation")])
def test_an_unknown_name_is_an_error_with_the_nearest(session: Session, name: str, near: str) -> None:
    with pytest.raises(OptionError, match=f"no node '{name}'.*'{near}'"):
        explain.node(session, name)


def test_a_node_that_became_a_constant_says_so() -> None:
    graph = network(batch="n")
    shape = graph.node("Shape", [graph.inputs[0]], name="shape", origin=("shape",)).output
    first = graph.constant(af.ir.graph.np.array([0]), "zero")
    graph.add_output(graph.node("Gather", [shape, first], {"axis": 0}, name="rows", origin=("rows",)).output, "n")
    session = af.compile(graph, threads=1, shapes={"x": (1, 8, 16, 16)})
    assert "not run" in "\n".join(explain.node(session, "rows"))
