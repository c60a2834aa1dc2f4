"""The rewrite engine: fixed point, transactions, records, budgets."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from autofusion.fusion.ledger import Ledger, Verdict
from autofusion.fusion.optimise import prepare
from autofusion.fusion.rewrite import Rewriter
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.graph import Graph, Value
from autofusion.options import Options
from autofusion.refusal import Refusal
from autofusion.rules.level import Level
from autofusion.rules.pattern import Match, op, var
from autofusion.rules.rule import Builder, RewriteRule, Rule, Stage
from core.tests.fusion.fusion_graphs import Net, double_rule, fold_bn_rule, ops, pack, rewrite_rule


def run(graph: Graph, *rules: Rule, options: Options | None = None, stage: Stage | None = None) -> Ledger:
    ledger = Ledger()
    chosen = options or Options()
    switches = Switches([pack(*rules)], chosen, graph)
    for each in [stage] if stage else [Stage.CANONICALISE, Stage.FOLD]:
        Rewriter(graph, each, switches, ledger, chosen.time_budget).run()
    return ledger


def snapshot(graph: Graph) -> list[object]:
    return [
        [
            (n.op, n.name, dict(n.attrs), [v and v.name for v in n.inputs], [v.name for v in n.outputs])
            for n in graph.nodes
        ],
        [(v.name, sorted((c.name, i) for c, i in v.uses)) for v in graph.values()],
        [v.name for v in graph.outputs],
    ]


def test_fold_keeps_value_name_type_and_origins() -> None:
    net = Net()
    y = net.conv_bn(net.input("x", 1, 2, 4, 4), 2, "c1")
    graph = net.output(net.node("Relu", y, name="r"))
    type_before, name_before = y.type, y.name
    ledger = run(graph, fold_bn_rule())
    assert ops(graph) == ["Conv", "Relu"]
    conv = graph.nodes[0]
    assert conv.origin == ("c1", "c1_bn")
    assert (conv.output.type, conv.output.name) == (type_before, name_before)
    (record,) = ledger.records
    assert record.verdict is Verdict.FUSED
    assert record.rule == "test.fold_bn@1.2.3"
    assert (record.nodes, record.operators) == (("c1", "c1_bn"), ("Conv", "BatchNormalization"))
    assert record.fused_node == conv.name
    assert record.stage == "fold"
    assert ledger.rule_seconds["test.fold_bn"] > 0


def test_fixed_point_is_reached_within_one_run() -> None:
    net = Net()
    value = net.input("x", 2)
    for _ in range(101):
        value = net.node("Neg", value)
    graph = net.output(net.node("Relu", value))
    ledger = run(graph, double_rule())
    assert ops(graph) == ["Neg", "Relu"]
    assert ledger.counts()["fused"] == 50


def test_a_rewrite_wakes_roots_far_downstream_of_it() -> None:
    # Sinking moves Neg past Abs... backwards from the end: each rewrite makes the next one possible further up.
    pull = rewrite_rule(
        "test.pull",
        op("Exp", op("Abs", var("x"), name="abs")),
        lambda m, b: [b.op("Abs", b.op("Exp", m["x"]))],
    )
    net = Net()
    value = net.input("x", 2)
    for _ in range(20):
        value = net.node("Abs", value)
    graph = net.output(net.node("Exp", value))
    run(graph, pull)
    assert ops(graph) == ["Exp"] + ["Abs"] * 20


def test_losing_an_outside_use_makes_a_refused_site_match() -> None:
    net = Net()
    x = net.input("x", 1, 2, 4, 4)
    y = net.conv_bn(x, 2, "c1")
    conv = y.producer.inputs[0]  # type: ignore[union-attr]
    twice = net.node("Neg", net.node("Neg", conv))
    dropped = rewrite_rule("test.drop", op("Sub", var("a"), var("a")), lambda m, b: [m["a"]])
    graph = net.output(net.node("Add", y, net.node("Mul", net.node("Sub", twice, twice), net.const(1.0))))
    take_x = rewrite_rule(
        "test.take_x", op("Mul", var("v"), var("one")), lambda m, b: [b.op("Exp", x)], stage=Stage.FOLD
    )
    ledger = run(graph, fold_bn_rule(), double_rule(), dropped, take_x)
    assert "BatchNormalization" not in ops(graph)
    assert not list(ledger.of(Verdict.ILLEGAL))


def test_graph_output_inside_is_illegal_with_culprit() -> None:
    net = Net()
    y = net.conv_bn(net.input("x", 1, 2, 4, 4), 2, "c3")
    graph = net.output(net.node("Relu", y), y.producer.inputs[0])  # type: ignore[union-attr]
    before = snapshot(graph)
    ledger = run(graph, fold_bn_rule())
    assert snapshot(graph) == before
    (record,) = ledger.records
    assert record.verdict is Verdict.ILLEGAL
    assert record.reason == "Conv 'c3' -> BatchNormalization 'c3_bn': 'c3' is also a graph output"
    assert record.culprit == "c3"
    assert record.operators == ("Conv", "BatchNormalization")


def test_overridable_constant_is_illegal() -> None:
    net = Net()
    x = net.input("x", 1, 2, 4, 4)
    scale = net.input("scale", 2, default=np.ones(2, np.float32))
    rest = [net.const(np.ones(2), name) for name in ("b", "m", "v")]
    conv = net.node("Conv", x, net.const(np.ones((2, 2, 1, 1))), name="c")
    graph = net.output(net.node("BatchNormalization", conv, scale, *rest, name="bn"))
    ledger = run(graph, fold_bn_rule())
    assert ops(graph) == ["Conv", "BatchNormalization"]
    (record,) = ledger.records
    assert record.verdict is Verdict.ILLEGAL
    assert "override" in record.reason and record.culprit == "scale"


def test_a_shared_constant_stays_for_its_other_user() -> None:
    net = Net()
    x = net.input("x", 1, 2, 4, 4)
    w = net.const(np.ones((2, 2, 1, 1)), "w")
    kept = net.node("Conv", x, w, name="kept")
    conv = net.node("Conv", x, w, name="c")
    bn = net.node("BatchNormalization", conv, *(net.const(np.ones(2), n) for n in "sbmv"), name="bn")
    graph = net.output(kept, bn)
    run(graph, fold_bn_rule())
    assert ops(graph) == ["Conv", "Conv"]
    assert kept.producer is not None and kept.producer.inputs[1] is w


def test_a_shared_node_survives_for_its_other_consumers() -> None:
    rule = rewrite_rule("test.share", op("Neg", op("Exp", var("x"), shared=True)), lambda m, b: [b.op("Abs", m["x"])])
    net = Net()
    e = net.node("Exp", net.input("x", 2), name="e")
    graph = net.output(net.node("Neg", e, name="n"), net.node("Relu", e))
    run(graph, rule)
    assert sorted(ops(graph)) == ["Abs", "Exp", "Relu"]
    assert next(n for n in graph.nodes if n.op == "Abs").origin == ("n",)


def _refuses_late(match: Match, builder: Builder) -> Refusal:
    builder.op("Abs", builder.op("Relu", match["x"]))
    return Refusal("it is not legal", match.nodes[1], "would be if it were")


@pytest.mark.parametrize("options", [Options(), Options(disable=frozenset({"test.never"})),
                                     Options(disable_sites=frozenset({"test.never:n"}))])  # fmt: skip
def test_a_refusal_is_recorded_with_hint_and_takes_back_what_was_built(options: Options) -> None:
    rule = rewrite_rule("test.never", op("Neg", op("Exp", var("x"))), _refuses_late)
    net = Net()
    graph = net.output(net.node("Neg", net.node("Exp", net.input("x", 2), name="e"), name="n"))
    before = snapshot(graph)
    records = run(graph, rule, options=options).records
    assert snapshot(graph) == before
    if "test.never" in options.disable:
        assert records == []  # it is off, and would not have applied
        return
    (record,) = records
    assert (record.verdict, record.reason, record.culprit) == (Verdict.ILLEGAL, "it is not legal", "e")
    assert record.hint == "would be if it were"
    assert record.nodes == ("e", "n")


# ---- rules that break something -----------------------------------------------------------------------------------


def raises_midway(match: Match, builder: Builder) -> Sequence[Value]:
    builder.op("Abs", match["x"])
    raise ValueError("half way")


def wrong_type(match: Match, builder: Builder) -> Sequence[Value]:
    return [builder.op("Cast", match["x"], to=np.dtype(np.int32))]


def wrong_shape(match: Match, builder: Builder) -> Sequence[Value]:
    return [builder.op("Unsqueeze", match["x"], builder.constant([0], np.int64))]


def wrong_count(match: Match, builder: Builder) -> Sequence[Value]:
    return [builder.op("Abs", match["x"]), match["x"]]


def does_not_infer(match: Match, builder: Builder) -> Sequence[Value]:
    return [builder.op("Reshape", match["x"], builder.constant([7], np.int64))]


def returns_its_root(match: Match, builder: Builder) -> Sequence[Value]:
    return [match.root.output]


def depends_on_its_root(match: Match, builder: Builder) -> Sequence[Value]:
    return [builder.op("Abs", match.root.output.consumers[0].output)]


def edits_an_attribute(match: Match, builder: Builder) -> Sequence[Value]:
    match.nodes[1].attrs["x"] = 1
    return [builder.op("Abs", match["x"])]


def edits_operands(match: Match, builder: Builder) -> Sequence[Value]:
    new = builder.op("Abs", match["x"])
    builder.graph.replace_uses(match.root.output, new)
    match.nodes[1].set_input(0, new)
    raise RuntimeError("after editing")


def adds_behind_the_builders_back(match: Match, builder: Builder) -> Sequence[Value]:
    return [builder.graph.node("Abs", [match["x"]]).output]


def returns_nothing(match: Match, builder: Builder) -> Sequence[Value]:
    return [None]  # type: ignore[list-item]


@pytest.mark.parametrize(
    "broken",
    [
        raises_midway,
        wrong_type,
        wrong_shape,
        wrong_count,
        does_not_infer,
        returns_its_root,
        depends_on_its_root,
        edits_an_attribute,
        edits_operands,
        adds_behind_the_builders_back,
        returns_nothing,
    ],
)
def test_a_broken_rule_leaves_the_graph_as_it_was_and_others_go_on(broken: object) -> None:
    net = Net()
    x = net.input("x", 2, 3)
    sites = [net.node("Relu", net.node("Neg", net.node("Exp", x, name=f"e{i}"), name=f"n{i}")) for i in range(2)]
    graph = net.output(*sites, net.node("Neg", net.node("Exp", x, name="e"), name="out"))
    before = snapshot(graph)
    rule = rewrite_rule("test.broken", op("Neg", op("Exp", var("x"))), broken)  # type: ignore[arg-type]
    ledger = run(graph, rule)
    assert snapshot(graph) == before
    (record,) = ledger.records  # once: the rule is put aside for this graph
    assert record.verdict is Verdict.ERROR
    assert "'test.broken'" in record.reason and "'test' 1.2.3" in record.reason

    good = rewrite_rule("test.good", op("Neg", op("Exp", var("x"))), lambda m, b: [b.op("Abs", m["x"])], priority=-1)
    run(graph, rule, good)
    assert ops(graph).count("Abs") == 3


def test_a_rule_whose_pattern_is_wrong_is_reported() -> None:
    net = Net()
    graph = net.output(net.node("Neg", net.input("x", 2)))
    ledger = run(graph, rewrite_rule("test.bad", op("LeakyRelu", var("x"), alpa=1), lambda m, b: [m["x"]]))
    (record,) = ledger.of(Verdict.ERROR)
    assert "alpa" in record.reason and "test.bad" in record.reason


def test_rules_that_undo_each_other_are_stopped_and_reported() -> None:
    there = rewrite_rule("test.there", op("Neg", var("x")), lambda m, b: [b.op("Abs", m["x"])])
    back = rewrite_rule("test.back", op("Abs", var("x")), lambda m, b: [b.op("Neg", m["x"])])
    net = Net()
    value = net.input("x", 2)
    for _ in range(3):
        value = net.node("Relu", net.node("Neg", value))
    graph = net.output(value)
    ledger = run(graph, there, back)
    (record,) = ledger.of(Verdict.ERROR)
    assert "goes in circles" in record.reason
    assert "test.back@1.2.3" in record.reason or "test.there@1.2.3" in record.reason
    assert len(ops(graph)) == 6


def test_what_a_diverging_rule_made_is_undone_and_only_its_maker_is_blamed() -> None:
    grow = rewrite_rule(
        "test.grow", op("Relu", var("x")), lambda m, b: [b.op("Relu", b.op("Identity", b.op("Relu", m["x"])))]
    )
    clear = rewrite_rule("test.clear", op("Identity", var("x")), lambda m, b: [m["x"]])
    good = rewrite_rule("test.good", op("Neg", var("x")), lambda m, b: [b.op("Abs", m["x"])])
    net = Net()
    graph = net.output(net.node("Neg", net.node("Relu", net.input("x", 2))))
    found, ledger = prepare(graph, [pack(grow, clear, good)], Options())
    assert ops(found) == ["Relu", "Abs"]
    assert [r.rule for r in ledger.of(Verdict.ERROR)] == ["test.grow@1.2.3"]
    assert [r.rule for r in ledger.of(Verdict.FUSED)] == ["test.good@1.2.3"]


def _for_ever(*_: object) -> list[Value]:
    while True:
        try:
            time.sleep(0)
        except Exception:
            pass


@pytest.mark.parametrize("where", ["rewrite", "pattern"])
def test_a_rule_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setenv("AUTOFUSION_PLUGIN_SECONDS", "0.1")
    condition = _for_ever if where == "pattern" else None
    endless = rewrite_rule("test.endless", op("Neg", var("x", where=condition)), _for_ever)  # type: ignore[arg-type]
    good = rewrite_rule("test.good", op("Relu", var("x")), lambda m, b: [b.op("Abs", m["x"])])
    net = Net()
    graph = net.output(net.node("Relu", net.node("Neg", net.input("x", 2))))
    ledger = run(graph, endless, good)
    (record,) = ledger.of(Verdict.ERROR)
    assert "test.endless" in record.reason
    assert "did not end within 0.1 s (at test_rewrite.py:" in record.reason
    assert ops(graph) == ["Neg", "Abs"]


def test_a_rule_that_only_grows_is_stopped() -> None:
    grow = rewrite_rule("test.grow", op("Neg", var("x")), lambda m, b: [b.op("Neg", b.op("Relu", m["x"]))])
    net = Net()
    graph = net.output(net.node("Neg", net.input("x", 2)))
    ledger = run(graph, grow)
    assert len(list(ledger.of(Verdict.ERROR))) == 1
    assert len(graph) < 100


def test_sinking_along_a_long_chain_is_not_mistaken_for_a_circle() -> None:
    sink = rewrite_rule(
        "test.sink",
        op("Relu", op("Transpose", var("x"), name="t")),
        lambda m, b: [b.node("Transpose", [b.op("Relu", m["x"])], m.node("t").attrs).output],
    )
    net = Net()
    value = net.node("Transpose", net.input("x", 2, 3), perm=[1, 0])
    for _ in range(200):
        value = net.node("Relu", value)
    graph = net.output(value)
    ledger = run(graph, sink)
    assert ops(graph) == ["Relu"] * 200 + ["Transpose"]
    assert ledger.counts()["error"] == 0


def test_time_budgettops_the_stage_with_a_record() -> None:
    def slow(match: Match, builder: Builder) -> Sequence[Value]:
        time.sleep(0.02)
        return [match["x"]]

    net = Net()
    value = net.input("x", 2)
    for _ in range(200):
        value = net.node("Neg", value)
    graph = net.output(value)
    rule = RewriteRule("test.slow", op("Neg", op("Neg", var("x"))), slow)
    ledger = run(graph, rule, options=Options(time_budget=0.05))
    (record,) = ledger.of(Verdict.DISABLED)
    assert "time budget" in record.reason
    assert 0 < ledger.counts()["fused"] < 100


# ---- switches ------------------------------------------------------------------------------------------------------


def two_sites() -> Graph:
    net = Net()
    x = net.input("x", 2)
    return net.output(*(net.node("Neg", net.node("Neg", x, name=f"a{i}"), name=f"b{i}") for i in range(2)))


def test_a_disabled_site_is_left_and_recorded() -> None:
    graph = two_sites()
    ledger = run(graph, double_rule(), options=Options(disable_sites=frozenset({"test.neg_neg:b1"})))
    assert ops(graph) == ["Neg", "Neg"]
    (record,) = ledger.of(Verdict.DISABLED)
    assert record.nodes == ("a1", "b1") and "b1" in record.reason


@pytest.mark.parametrize(
    "options",
    [
        Options(disable=frozenset({"test.neg_neg"})),
        Options(disable=frozenset({"test"})),
        Options(only=frozenset({"test.fold_bn"})),
    ],
)
def test_a_disabled_rule_records_where_it_would_have_applied(options: Options) -> None:
    graph = two_sites()
    ledger = run(graph, double_rule(), fold_bn_rule(), options=options)
    assert ops(graph) == ["Neg"] * 4
    assert [record.site for record in ledger.of(Verdict.DISABLED)] == ["b0", "b1"]


def test_level_leaves_out_rules_above_it() -> None:
    graph = two_sites()
    rule = RewriteRule("test.full", op("Neg", op("Neg", var("x"))), lambda m, b: [m["x"]], level=Level.FULL)
    ledger = run(graph, rule, options=Options(level=Level.BASIC))
    assert len(graph) == 4
    assert all("level 'basic'" in record.reason for record in ledger.of(Verdict.DISABLED))
    assert ledger.counts()["disabled"] == 2


def test_priorities_decide_between_rules_for_one_site() -> None:
    low = rewrite_rule("test.low", op("Neg", op("Exp", var("x"))), lambda m, b: [b.op("Abs", m["x"])])
    high = rewrite_rule("test.high", op("Neg", op("Exp", var("x"))), lambda m, b: [b.op("Relu", m["x"])], priority=5)
    for options, expected in ((Options(), "Relu"), (Options(priorities={"test.low": 9}), "Abs")):
        net = Net()
        graph = net.output(net.node("Neg", net.node("Exp", net.input("x", 2))))
        run(graph, low, high, options=options)
        assert ops(graph) == [expected]
