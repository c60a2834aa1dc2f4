"""The page as a file: what is in it, and that it needs nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import autofusion as af
from autofusion.cli import cli
from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph
from autofusion.ir.text import from_text
from autofusion.ir.types import TensorType
from autofusion.plugins.registry import default_registry
from autofusion.tools import baseline
from autofusion.tools.profile import profile
from autofusion.tools.view.data import page_data
from autofusion.tools.view.dense import regions
from tests.support.view_pages import Net, data_of, page_of, small


def nodes(data: dict[str, Any], side: int) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in data["sides"][side]["graph"]["nodes"]}


def test_both_sides_and_all_decisions_are_there() -> None:
    data = data_of(page_of(small()))
    off, on = nodes(data, 0), nodes(data, 1)
    assert [side["label"] for side in data["sides"]] == ["Level off", "Level full"]
    assert {"first", "swish.add", "swish.div", "branch", "kept</script><b>", "gate"} <= off.keys()
    fused = on["first"]
    assert fused["rule"].startswith("conv.") and fused["kind"] == "conv"
    assert set(fused["origin"]) >= {"first", "swish.add", "swish.clip", "swish.mul", "swish.div"}
    (body,) = fused["bodies"]
    assert body["nodes"][0]["op"] == "Conv" and len(body["nodes"]) > 1
    assert body["edges"] == [[i, i + 1] for i in range(len(body["nodes"]) - 1)]
    assert {"kernel", "version", "predicted"} <= fused.keys() and fused["predicted"] > 0
    told = [r for r in data["records"] if r["verdict"] == "illegal" and r["site"] == "branch"]
    assert told and "also used by GlobalAveragePool 'pooled'" in told[0]["reason"]
    assert told[0]["hint"] == "would fuse if GlobalAveragePool 'pooled' did not use 'branch', or could join"
    for side, told_nodes in zip(data["sides"], (off, on), strict=True):
        assert side["steps"] == sum(("kernel" in n) + len(n.get("copies", ())) for n in told_nodes.values())
    assert sum("kernel" in n for n in off.values()) == 10 > sum("kernel" in n for n in on.values())
    assert all(s["peak"] > 0 and s["arena"] >= s["peak"] for s in data["sides"])


def test_edges_follow_the_data() -> None:
    side = data_of(page_of(small()))["sides"][0]["graph"]
    names = [node["name"] for node in side["nodes"]]
    edges = {(names[a], names[b]) for a, b in side["edges"]}
    assert {("x", "first"), ("first", "swish.add"), ("first", "swish.mul"), ("swish.clip", "swish.mul")} <= edges
    assert all(a < b for a, b in side["edges"])
    assert [n["name"] for n in side["nodes"] if n["op"] == "Output"] == ["out_gate", "out_pooled"]


def test_the_page_needs_no_network_and_no_name_ends_it_early() -> None:
    text = page_of(small())
    assert "://" not in re.sub(r'"[^"]*"', "", text.split('id="data"')[0])
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert text.count("</script>") == 2
    assert "default-src 'none'" in text
    assert "kept</script>" not in text and "kept\\u003c/script>" in text


def test_dense_regions_are_chains_of_small_operators() -> None:
    net = Net()
    h = net.hard_swish("a", net.conv("c1", net.x))
    skip = net.node("Add", "skip", net.conv("c2", h), h)  # tied to both: the long way must not join them
    y = net.node("Relu", "relu", skip)
    data = data_of(page_of(net.done(net.conv("c3", y))))
    off = data["sides"][0]
    names = [node["name"] for node in off["graph"]["nodes"]]
    (region,) = off["regions"]
    assert [names[i] for i in region["nodes"]] == ["a.add", "a.clip", "a.mul", "a.div"]
    assert region["operators"] == 4 and region["steps"] == 1 and region["predicted"] > 0


@pytest.mark.parametrize(
    ("classes", "edges", "expected"),
    [
        (["pointwise"] * 4, [[0, 1], [1, 2], [2, 3]], [[0, 1, 2, 3]]),
        (["pointwise"] * 3, [[0, 1], [1, 2]], []),
        (["pointwise", "contraction", "pointwise", "pointwise", "pointwise"], [[0, 1], [1, 2], [2, 3], [3, 4]], []),
        # 0 is read by the contraction 1 and, over it, by 2: not neighbours.
        (
            ["pointwise", "contraction", *["pointwise"] * 4],
            [[0, 1], [0, 2], [1, 2], [2, 3], [3, 4], [4, 5]],
            [[2, 3, 4, 5]],
        ),
        (["opaque"] * 6, [[i, i + 1] for i in range(5)], []),
    ],
)
def test_what_is_dense(classes: list[str], edges: list[list[int]], expected: list[list[int]]) -> None:
    assert regions([{"cls": c} for c in classes], edges) == expected


def test_views_do_not_make_a_place_dense() -> None:
    nodes = [{"cls": "pointwise"}, {"cls": "movement", "free": "view"}, {"cls": "movement", "free": "view"}]
    chain = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    assert regions([*nodes, {"cls": "pointwise"}, {"cls": "pointwise"}], chain[:4]) == []
    assert regions([*nodes, *[{"cls": "pointwise"}] * 3], chain) == [[0, 1, 2, 3, 4, 5]]


def test_the_largest_region_has_most_operators_that_take_time() -> None:
    free, busy = {"cls": "movement", "free": "a view"}, {"cls": "pointwise"}
    nodes = [*[busy] * 4, *[free] * 4, {"cls": "contraction"}, *[busy] * 5]
    edges = [[i, i + 1] for i in range(len(nodes) - 1)]
    assert regions(nodes, edges) == [[9, 10, 11, 12, 13], [0, 1, 2, 3, 4, 5, 6, 7]]


def test_measured_times_are_shown_of_both_sides() -> None:
    graph = small()
    session = af.compile(graph, threads=1)
    off = baseline.unfused(session)
    feeds = {"x": np.ones((1, 8, 16, 16), np.float32)}
    profiles = (profile(off, feeds, 2), profile(session, feeds, 2))
    data = page_data("small", session, off, profiles)
    for side, found in zip(data["sides"], profiles, strict=True):
        timed = [n["seconds"] for n in side["graph"]["nodes"] if "kernel" in n]
        assert all(t > 0 for t in timed)
        copies = [c["seconds"] for n in side["graph"]["nodes"] for c in n.get("copies", ())]
        assert sum(timed) + sum(copies) == pytest.approx(found.seconds) == side["seconds"]


def test_parts_that_are_planned_as_they_run_are_joined() -> None:
    graph = from_text(
        """
graph @late(%x: f32[8]) -> (f32[?]) {
  %mask = Relu(%x) : f32[8]
  %where = NonZero(%mask) : i64[1, ?]
  %0 = constant dense<0> : i64[]
  %rows = Gather(%where, %0) {axis = 0} : i64[?]
  %kept = Gather(%x, %rows) {axis = 0} : f32[?]
  %e = Exp(%kept) : f32[?]
  %y = Neg(%e) : f32[?]
  return %y
}
"""
    )
    side = data_of(page_of(graph))["sides"][1]["graph"]
    ops = [n["op"] for n in side["nodes"]]
    assert ops[0] == "Input" and ops[-1] == "Output" and {"Relu", "NonZero", "Gather"} <= set(ops)
    reached = {b for _, b in side["edges"]}
    assert all(i in reached for i, op in enumerate(ops) if op != "Input"), "a node hangs in the air"


def test_control_flow_bodies_are_drawn_inside() -> None:
    type_ = TensorType(F32, (4,))
    bodies = {}
    for name, op in (("then_branch", "Relu"), ("else_branch", "Neg")):
        body = bodies[name] = Graph(name)
        body.add_output(body.node(op, [body.add_input("a", type_)], outputs=[type_]).output)
    graph = Graph("branches")
    operands = [graph.add_input("c", TensorType(np.dtype(np.bool_), ())), graph.add_input("x", type_)]
    graph.add_output(graph.node("If", operands, {**bodies, "captures": 1}, outputs=[type_]).output)
    data = data_of(page_of(graph))
    (branch,) = [n for n in data["sides"][1]["graph"]["nodes"] if n["op"] == "If"]
    assert {b["name"]: [n["op"] for n in b["nodes"]] for b in branch["bodies"]} == {
        "then_branch": ["Relu"],
        "else_branch": ["Neg"],
    }


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    model, page = tmp_path / "net.onnx", tmp_path / "out.html"
    default_registry().frontend("onnx").export(small(), model, inline=True)  # type: ignore[attr-defined]
    result = CliRunner().invoke(
        cli, ["view", str(model), "-o", str(page), "--profile", "--runs", "1", "--threads", "1"]
    )
    assert result.exit_code == 0, result.output
    data = data_of(page.read_text(encoding="utf-8"))
    assert data["name"] == "net.onnx" and data["profiled"] and data["loaded"] == 10
    assert str(page) in result.output


def test_a_page_at_level_off_shows_one_network() -> None:
    data = data_of(page_of(small(), level="off"))
    assert data["level"] == "off" and data["records"] == []
    assert [n["op"] for n in data["sides"][0]["graph"]["nodes"]] == [
        n["op"] for n in data["sides"][1]["graph"]["nodes"]
    ]
