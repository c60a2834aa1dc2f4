"""The fuse stage: which regions are chosen, what is recorded, and what the fused nodes look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from autofusion.cost.signature import signature
from autofusion.errors import OptionError
from autofusion.fusion.ledger import Ledger, Verdict
from autofusion.fusion.optimise import optimise, prepare
from autofusion.fusion.rule_switches import Switches
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.kinds import POINTWISE, FusedKind
from autofusion.options import Options
from autofusion.refusal import Refusal
from autofusion.rules.level import Level
from autofusion.rules.rule import FuseRule, Region, Rule
from core.tests.fusion.fake_kernels import FakePack, body_ops, offers
from core.tests.fusion.fusion_graphs import Net, chain_rule, fold_bn_rule, ops, pack


def plan(
    graph: Graph,
    *rules: Rule,
    kernels: Sequence[FakePack] | FakePack | None = None,
    options: Options | None = None,
) -> tuple[Graph, Ledger]:
    chosen = [FakePack()] if kernels is None else [kernels] if isinstance(kernels, FakePack) else kernels
    return optimise(graph, [pack(*rules)], offers(*chosen), options or Options())


def chain(*names: str, x: Value | None = None, net: Net | None = None) -> Graph:
    net = net or Net()
    value = x or net.input("x", 4, 8)
    for index, name in enumerate(names):
        value = net.node(name, value, name=f"{name.lower()}{index}")
    return net.output(value)


def fused_nodes(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == FUSED]


def test_a_chain_becomes_one_node_that_holds_its_meaning() -> None:
    source = chain("Sin", "Relu", "Neg", "Exp")
    graph, ledger = plan(source, chain_rule())
    assert ops(source) == ["Sin", "Relu", "Neg", "Exp"]
    assert ops(graph) == ["Sin", FUSED]
    (node,) = fused_nodes(graph)
    assert body_ops(node) == ["Relu", "Neg", "Exp"]
    assert (node.attrs["kind"], node.attrs["rule"]) == ("pointwise", "test.chain@1.2.3")
    assert node.origin == ("relu1", "neg2", "exp3")
    assert node.name == "relu1"
    assert node.output.type == source.outputs[0].type
    assert node.output.name == "exp3"
    assert [v.type for v in node.body.inputs] == [v.type for v in node.inputs if v is not None]
    (record,) = ledger.records
    assert record.verdict is Verdict.FUSED
    assert (record.before, record.after, record.gain) == (3.0, 1.0, 2.0)
    assert (record.kernel, record.kind, record.site) == ("fast@0.9.0", "pointwise", "relu1")
    assert record.nodes == ("relu1", "neg2", "exp3")
    assert record.fused_node == node.name
    assert ledger.rule_seconds["test.chain"] > 0


def test_weights_are_operands_and_scalars_are_in_the_body() -> None:
    net = Net()
    x = net.input("x", 1, 2, 4, 4)
    w, scale, vector = (
        net.const(np.ones((2, 2, 1, 1)), "w"),
        net.const(2.0, "scale"),
        net.const(np.ones((2, 1, 1)), "v"),
    )
    y = net.node("Conv", x, w, name="c")
    y = net.node("Mul", y, scale, name="m")
    y = net.node("Add", y, vector, name="a")
    axes = net.graph.constant(np.array([2, 3]), "axes")
    y = net.node("ReduceMean", y, axes, name="r")
    graph, _ = plan(net.output(y), whole_rule("Conv", 4, kind="conv"))
    (node,) = fused_nodes(graph)
    assert [v.name for v in node.inputs if v is not None] == ["x", "w", "v"]
    inner = {n.name: n for n in node.body.nodes}
    assert inner["m"].inputs[1].const == np.float32(2.0)  # type: ignore[union-attr]
    assert inner["r"].inputs[1].const.tolist() == [2, 3]  # type: ignore[union-attr]
    assert inner["c"].inputs[1] is node.body.inputs[1]


def whole_rule(root: str, length: int, kind: str = "pointwise", **more: object) -> FuseRule:
    """The root and the ``length - 1`` nodes after it in graph order, as they are."""

    def grow(node: Node) -> Iterator[Region | Refusal]:
        assert node.graph is not None
        nodes = node.graph.nodes
        start = nodes.index(node)
        yield Region(tuple(nodes[start : start + length]), node, bool(more.get("multiple")))

    return FuseRule(f"test.whole_{root.lower()}", FusedKind(kind), grow, roots=frozenset({root}))


def test_a_single_element_weight_of_a_contraction_stays_an_operand() -> None:
    net = Net()
    y = net.node("Conv", net.input("x", 1, 1, 4, 4), net.const(np.ones((1, 1, 1, 1)), "w"), net.const([1.0], "b"))
    graph, _ = plan(net.output(net.node("Relu", y)), whole_rule("Conv", 2, kind="conv"))
    assert [v.name for v in fused_nodes(graph)[0].inputs if v is not None] == ["x", "w", "b"]


def test_no_kernel_falls_back_to_the_next_smaller_region() -> None:
    kernels = FakePack(fused=lambda node: "more than two operators" if len(node.body) > 2 else 1.0)
    graph, ledger = plan(chain("Relu", "Neg", "Exp", "Abs"), chain_rule(), kernels=kernels)
    assert body_ops(fused_nodes(graph)[0]) == ["Relu", "Neg"]
    (refused,) = ledger.of(Verdict.NO_KERNEL)
    assert refused.reason == "pack 'fake' 0.9.0 cannot run it: more than two operators"
    assert refused.nodes == ("relu0", "neg1", "exp2", "abs3")
    assert ledger.counts()["fused"] == 1


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ((), "does not implement kind 'pointwise'"),
        ((FusedKind("pointwise", "2"),), "implements version 2"),
        ((FusedKind("pointwise", "1.4"),), ""),
    ],
)
def test_kinds_and_their_versions_are_checked_before_a_pack_is_asked(kinds: tuple[FusedKind, ...], said: str) -> None:
    kernels = FakePack(kinds=kinds)
    graph, ledger = plan(chain("Relu", "Neg"), chain_rule(), kernels=kernels)
    assert bool(fused_nodes(graph)) is not bool(said)
    assert any(node.op == FUSED for node in kernels.asked) is not bool(said)
    if said:
        (record,) = ledger.records
        assert record.verdict is Verdict.NO_KERNEL and said in record.reason


def test_a_pack_that_raises_is_a_pack_that_does_not_offer() -> None:
    def broken(node: Node) -> float:
        raise RuntimeError("boom")

    graph, ledger = plan(chain("Relu", "Neg"), chain_rule(), kernels=FakePack(ordinary=1.0, fused=broken))
    assert not fused_nodes(graph)
    assert "raised RuntimeError: boom" in next(ledger.of(Verdict.NO_KERNEL)).reason


def test_what_does_not_pay_is_left_with_both_prices() -> None:
    graph, ledger = plan(chain("Relu", "Neg", "Exp"), chain_rule(), kernels=FakePack(ordinary=1.0, fused=5.0))
    assert ops(graph) == ["Relu", "Neg", "Exp"]
    (record,) = ledger.records
    assert (record.verdict, record.before, record.after) == (Verdict.UNPROFITABLE, 3.0, 5.0)


def test_a_smaller_region_that_saves_more_is_preferred() -> None:
    slow_exp = FakePack(ordinary=1.0, fused=lambda node: 2.5 if "Exp" in body_ops(node) else 0.1)
    graph, ledger = plan(chain("Relu", "Neg", "Exp"), chain_rule(), kernels=slow_exp)
    assert body_ops(fused_nodes(graph)[0]) == ["Relu", "Neg"]
    assert ledger.counts()["fused"] == 1


def test_two_anchors_that_want_one_node_share_by_saving_and_fall_back() -> None:
    # Two chains meet in an Add: only one of them can take it.
    net = Net()
    x = net.input("x", 4, 8)
    big = net.node("Neg", net.node("Relu", x, name="r1"), name="n1")
    small = net.node("Neg", net.node("Relu", x, name="r2"), name="n2")
    source = net.output(net.node("Add", big, small, name="add"))
    rule = chain_rule(follows=["Neg", "Add"])
    kernels = FakePack(ordinary=lambda n: 5.0 if n.name in ("r1", "n1") else 1.0)
    graph, ledger = plan(source, rule, kernels=kernels)
    bodies = sorted(tuple(body_ops(node)) for node in fused_nodes(graph))
    assert bodies == [("Relu", "Neg"), ("Relu", "Neg", "Add")]
    assert next(n for n in fused_nodes(graph) if len(n.body) == 3).name == "r1"
    assert ledger.counts()["fused"] == 2 and ledger.counts()["overlapped"] == 0


def test_the_loser_without_an_alternative_is_recorded_with_the_winner() -> None:
    source = chain("Relu", "Neg")
    first = chain_rule("test.first")
    second = chain_rule("test.second", kind="conv")
    kernels = FakePack(fused=lambda node: 0.5 if node.attrs["kind"] == "conv" else 1.0)
    graph, ledger = plan(source, first, second, kernels=kernels)
    assert len(fused_nodes(graph)) == 1
    (lost,) = ledger.of(Verdict.OVERLAPPED)
    assert lost.rule == "test.first@1.2.3"
    assert lost.reason == "by test.second@1.2.3 at 'relu0'"
    assert (lost.culprit, lost.hint) == ("relu0", "would get its turn with --disable-site test.second:relu0")
    assert (lost.before, lost.after) == (2.0, 1.0)


def test_priority_goes_before_saving() -> None:
    first, second = chain_rule("test.first"), chain_rule("test.second", kind="conv")
    kernels = FakePack(fused=lambda node: 0.5 if node.attrs["kind"] == "conv" else 1.0)
    options = Options(priorities={"test.first": 1})
    graph, _ = plan(chain("Relu", "Neg"), first, second, kernels=kernels, options=options)
    assert fused_nodes(graph)[0].attrs["kind"] == "pointwise"


def test_several_small_sites_beat_one_large_one_if_they_save_more_together() -> None:
    # Sin-Relu | Relu-Sin: the middle region (Relu, Relu) saves most by itself but spoils both others.
    source = chain("Sin", "Relu", "Tanh", "Neg")
    left = chain_rule("test.left", roots=["Sin"], follows=["Relu"])
    right = chain_rule("test.right", roots=["Tanh"], follows=["Neg"])
    middle = chain_rule("test.middle", roots=["Relu"], follows=["Tanh"])
    kernels = FakePack(ordinary=10.0, fused=lambda n: 8.0 if body_ops(n) == ["Relu", "Tanh"] else 10.0)
    graph, ledger = plan(source, left, right, middle, kernels=kernels)
    assert [body_ops(n) for n in fused_nodes(graph)] == [["Sin", "Relu"], ["Tanh", "Neg"]]
    assert [r.rule for r in ledger.of(Verdict.OVERLAPPED)] == ["test.middle@1.2.3"]


def test_what_a_fusion_leaves_over_is_fused_in_the_next_round() -> None:
    # The pointwise rule wants all four; the other rule takes the middle away, and the ends remain possible.
    def grow(node: Node) -> Iterator[Region | Refusal]:
        region = [node]
        while region[-1].output.consumers and region[-1].output.consumers[0].op in ("Relu", "Neg", "Abs"):
            region.append(region[-1].output.consumers[0])
        if node.inputs[0] is not None and node.inputs[0].producer is not None and node.inputs[0].producer.op == "Relu":
            return
        if len(region) > 1:
            yield Region(tuple(region), node)

    everything = FuseRule("test.all", POINTWISE, grow, roots=frozenset({"Relu"}))
    source = chain("Relu", "Neg", "Abs", "Tanh", "Sin", "Relu", "Abs", "Neg")
    head = chain_rule("test.head", roots=["Tanh"], follows=["Sin", "Relu"], kind="conv")
    graph, _ = plan(source, everything, head)
    assert [body_ops(n) for n in fused_nodes(graph)] == [["Relu", "Neg", "Abs"], ["Tanh", "Sin", "Relu"]]


def test_an_interior_graph_output_or_other_consumer_is_illegal() -> None:
    net = Net()
    x = net.input("x", 4, 8)
    a = net.node("Relu", x, name="a")
    b = net.node("Neg", a, name="b")
    c = net.node("Relu", x, name="c")
    d = net.node("Neg", c, name="d")
    source = net.output(b, a, d, net.node("Sin", c, name="other"))

    def grow(node: Node) -> Iterator[Region | Refusal]:
        yield Region((node, node.output.consumers[0]), node)

    graph, ledger = plan(source, FuseRule("test.blind", POINTWISE, grow, roots=frozenset({"Relu"})))
    assert not fused_nodes(graph)
    assert [(r.verdict, r.reason, r.culprit) for r in ledger.records] == [
        (Verdict.ILLEGAL, "'a' is also a graph output", "a"),
        (Verdict.ILLEGAL, "'c' is also used by Sin 'other'", "c"),
    ]


def test_growth_refusals_are_recorded() -> None:
    net = Net()
    a = net.node("Relu", net.input("x", 4, 8), name="a")
    _, ledger = plan(net.output(net.node("Neg", a, name="b"), a), chain_rule())
    (record,) = ledger.records
    assert (record.verdict, record.culprit) == (Verdict.ILLEGAL, "a")


def test_several_results_need_permission_and_a_convex_region() -> None:
    def build(middle_inside: bool) -> tuple[Graph, list[Node]]:
        net = Net()
        a = net.node("Relu", net.input("x", 4, 8), name="a")
        m = net.node("Sin", a, name="m")
        b = net.node("Add", a, m, name="b")
        graph = net.output(b, *([] if middle_inside else [net.node("Abs", m)]))
        return graph, [v.producer for v in (a, m, b) if v.producer is not None]

    def rule(multiple: bool, names: set[str]) -> FuseRule:
        def grow(node: Node) -> Iterator[Region | Refusal]:
            assert node.graph is not None
            yield Region(tuple(n for n in node.graph.nodes if n.name in names), node, multiple)

        return FuseRule("test.multi", POINTWISE, grow, roots=frozenset({"Relu"}))

    graph, ledger = plan(build(False)[0], rule(True, {"a", "b"}))
    assert not fused_nodes(graph)
    assert "leaves the region through Sin 'm'" in ledger.records[0].reason
    graph, _ = plan(build(False)[0], rule(False, {"a", "m", "b"}))
    assert not fused_nodes(graph)
    graph, _ = plan(build(False)[0], rule(True, {"a", "m", "b"}))
    (node,) = fused_nodes(graph)
    assert [v.name for v in node.outputs] == ["m", "b"]
    graph.sort()


def test_two_regions_that_are_convex_alone_but_not_together() -> None:
    net = Net()
    x, z = net.input("x", 4, 8), net.input("z", 4, 8)
    a1 = net.node("Relu", x, name="a1")
    b1 = net.node("Sigmoid", a1, name="b1")
    b2 = net.node("Sigmoid", z, name="b2")
    a2 = net.node("Relu", b2, name="a2")
    source = net.output(b1, a2)

    def rule(name: str, root: str, members: set[str]) -> FuseRule:
        def grow(node: Node) -> Iterator[Region | Refusal]:
            assert node.graph is not None
            if node.name == min(members):
                yield Region(tuple(n for n in node.graph.nodes if n.name in members), node, True)

        return FuseRule(name, POINTWISE, grow, roots=frozenset({root}))

    graph, ledger = plan(source, rule("test.a", "Relu", {"a1", "a2"}), rule("test.b", "Sigmoid", {"b1", "b2"}))
    assert len(fused_nodes(graph)) == 1  # and no cycle: the graph sorts
    graph.sort()
    assert ledger.counts()["overlapped"] == 1


@pytest.mark.parametrize("yields", [False, True])
def test_growth_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch, yields: bool) -> None:
    monkeypatch.setenv("AUTOFUSION_PLUGIN_SECONDS", "0.1")

    def grow(node: Node) -> Iterator[Region | Refusal]:
        while True:
            if yields:
                yield Refusal("no", node)

    endless = FuseRule("test.endless", POINTWISE, grow, frozenset({"Sin"}), priority=1)
    source = chain("Sin", "Relu", "Neg", "Exp")
    graph, ledger = plan(source, chain_rule(), endless)
    assert ops(graph) == ops(plan(source, chain_rule())[0])
    assert [("did not end" in r.reason) for r in ledger.of(Verdict.ERROR)] == ([] if yields else [True])


def test_a_rule_that_raises_is_put_aside_and_the_rest_goes_on() -> None:
    def grow(node: Node) -> Iterator[Region | Refusal]:
        if node.name == "relu2":
            raise KeyError("oops")
        yield Region((node, node.output.consumers[0]), node)

    broken = FuseRule("test.broken", POINTWISE, grow, roots=frozenset({"Relu"}))
    good = chain_rule(roots=["Sin"], follows=["Cos"])
    graph, ledger = plan(chain("Relu", "Neg", "Relu", "Neg", "Sin", "Cos"), broken, good)
    (error,) = ledger.of(Verdict.ERROR)
    assert "test.broken" in error.reason and "KeyError" in error.reason and "1.2.3" in error.reason
    assert [body_ops(n) for n in fused_nodes(graph)] == [["Sin", "Cos"]]


def test_regions_that_make_no_sense_are_the_rules_error() -> None:
    def grow(node: Node) -> Iterator[Region | Refusal]:
        yield Region((node.output.consumers[0],), node)

    graph, ledger = plan(chain("Relu", "Neg"), FuseRule("test.odd", POINTWISE, grow, roots=frozenset({"Relu"})))
    assert not fused_nodes(graph)
    assert "anchor" in next(ledger.of(Verdict.ERROR)).reason


def test_repeated_blocks_are_priced_once() -> None:
    kernels = FakePack()
    graph, _ = plan(chain(*["Relu", "Neg", "Sin"] * 20), chain_rule(), kernels=kernels)
    assert len(fused_nodes(graph)) == 20
    assert sum(node.op == FUSED for node in kernels.asked) == 1
    assert len(kernels.asked) == 4 - 1


def test_oracle_kernels_price_ordinary_nodes_only_where_nothing_else_does() -> None:
    fast = FakePack(ordinary=lambda node: 1.0 if node.op == "Relu" else "not mine")
    is_reference = FakePack(ordinary=7.0, kinds=(), name="book", is_reference=True)
    _, ledger = plan(chain("Relu", "Neg"), chain_rule(), kernels=[is_reference, fast])
    assert next(ledger.of(Verdict.FUSED)).before == 8.0


def test_dynamic_shapes_are_not_fused_but_said() -> None:
    net = Net()
    source = net.output(net.node("Neg", net.node("Relu", net.input("x", "n", 8))))
    graph, ledger = plan(source, chain_rule())
    assert not fused_nodes(graph)
    (record,) = ledger.of(Verdict.NO_KERNEL)
    assert "not static" in record.reason


# ---- options ----------------------------------------------------------------------------------------------------


def test_level_off_is_untouched_and_empty() -> None:
    source = chain("Relu", "Neg")
    graph, ledger = plan(source, chain_rule(), options=Options(level=Level.OFF))
    assert graph is source
    assert not ledger.records and ledger.level == "off"


def test_level_basic_leaves_full_rules_out_and_says_so() -> None:
    basic = chain_rule("test.basic", roots=["Sin"], follows=["Cos"], level=Level.BASIC)
    options = Options(level=Level.BASIC)
    graph, ledger = plan(chain("Sin", "Cos", "Relu", "Neg"), basic, chain_rule(), options=options)
    assert ops(graph) == [FUSED, "Relu", "Neg"]
    (record,) = ledger.of(Verdict.DISABLED)
    assert (record.rule, record.site) == ("test.chain@1.2.3", "relu2")
    assert record.reason == "level 'basic' leaves out rules of level 'full'"


def test_site_switches_apply_to_any_source_node_of_the_region() -> None:
    source = chain("Relu", "Neg", "Sin", "Relu", "Exp", "Abs")
    options = Options(disable_sites=frozenset({"exp4"}))
    graph, ledger = plan(source, chain_rule(), options=options)
    assert ops(graph) == [FUSED, "Sin", "Relu", "Exp", "Abs"]
    (record,) = ledger.of(Verdict.DISABLED)
    assert record.reason == "site switch 'exp4'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(disable=frozenset({"test.chian"})), r"'test.chian'.*did you mean 'test.chain'"),
        (Options(only=frozenset({"tset"})), r"'tset'.*did you mean 'test'"),
        (Options(priorities={"test.chains": 1}), r"'test.chains'.*did you mean 'test.chain'"),
    ],
)
def test_unknown_names_are_errors_with_the_nearest(options: Options, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        prepare(chain("Relu"), [pack(chain_rule())], options)


def test_unknown_sites_are_errors_with_the_nearest() -> None:
    options = Options(disable_sites=frozenset({"test.chain:relu00"}))
    with pytest.raises(OptionError, match=r"'relu00'.*did you mean 'relu0'"):
        Switches([pack(chain_rule())], options, chain("Relu"))
    net = Net()
    loop = net.graph.node("Loop", [net.input("x", 2)], {"body": chain("Relu")})
    Switches([pack(chain_rule())], Options(disable_sites=frozenset({"relu0"})), net.output(loop.output))


def test_time_budget_leaves_sites_with_a_record() -> None:
    graph, ledger = plan(chain("Relu", "Neg"), chain_rule(), options=Options(time_budget=0.0))
    assert not fused_nodes(graph)
    assert any("time budget" in r.reason for r in ledger.of(Verdict.DISABLED))


def test_memory_budget_refuses_what_would_lift_the_peak() -> None:
    # Fused, the large operand has to live until the late operand is there; alone, it shrinks at once.
    def build() -> Graph:
        net = Net()
        big = net.node("Sin", net.input("x", 1024, 64), name="big")
        small = net.node("ReduceMax", big, net.graph.constant(np.array([1]), "axes"), name="shrink")
        late = net.input("z", 1024, 1)
        for index in range(3):
            late = net.node("MatMul", net.node("Cos", net.input(f"w{index}", 1024, 1024)), late, name=f"late{index}")
        return net.output(net.node("Add", small, late, name="add"))

    def grow(node: Node) -> Iterator[Region | Refusal]:
        yield Region((node, node.output.consumers[0]), node)

    rule = FuseRule("test.shrink_add", POINTWISE, grow, roots=frozenset({"ReduceMax"}))
    graph, ledger = plan(build(), rule)
    assert len(fused_nodes(graph)) == 1
    graph, ledger = plan(build(), rule, options=Options(memory_budget=4_300_000))
    assert not fused_nodes(graph)
    (record,) = ledger.of(Verdict.DISABLED)
    assert "memory budget of 4300000 bytes" in record.reason
    graph, _ = plan(build(), rule, options=Options(memory_budget=10_000_000))
    assert len(fused_nodes(graph)) == 1


def test_all_stages_run_and_prepare_stops_before_fusion() -> None:
    net = Net()
    y = net.node("Relu", net.conv_bn(net.input("x", 1, 2, 4, 4), 2, "c1"), name="r")
    source = net.output(y)
    rules = (fold_bn_rule(), chain_rule(roots=["Conv"], kind="conv"))
    graph, ledger = prepare(source, [pack(*rules)], Options())
    assert ops(graph) == ["Conv", "Relu"] and ledger.counts()["fused"] == 1
    graph, ledger = plan(source, *rules)
    assert ops(graph) == [FUSED]
    assert fused_nodes(graph)[0].origin == ("c1", "c1_bn", "r")
    assert ledger.counts()["fused"] == 2


def test_ledgers_of_two_steps_join_without_repeats() -> None:
    net = Net()
    y = net.conv_bn(net.input("x", 1, 2, 4, 4), 2, "c3")
    source = net.output(y, y.producer.inputs[0])  # type: ignore[union-attr]
    _, first = prepare(source, [pack(fold_bn_rule())], Options())
    _, second = prepare(source, [pack(fold_bn_rule())], Options())
    whole = Ledger.joined(first, [second, second])
    assert len(whole.records) == 1
    assert whole.rule_seconds["test.fold_bn"] > second.rule_seconds["test.fold_bn"]
    assert Ledger.joined(first, []).records == first.records


def test_a_refusal_of_preparation_is_forgotten_once_optimising_has_fused_the_place() -> None:
    static = chain("Relu", "Neg")
    dynamic = Net()
    source = dynamic.output(dynamic.node("Neg", dynamic.node("Relu", dynamic.input("x", "n", 8))))
    _, refused = plan(source, chain_rule())
    _, fused = plan(static, chain_rule())
    whole = Ledger.joined(refused, [fused])
    assert [r.verdict for r in whole.records] == [Verdict.FUSED]


def test_signatures_do_not_depend_on_names_or_weights_but_on_everything_else() -> None:
    def conv(name: str, channels: int = 2, fill: float = 1.0, **attrs: object) -> str:
        net = Net()
        x = net.input(f"x{name}", 1, channels, 4, 4)
        w = net.const(np.full((channels, channels, 1, 1), fill), f"w{name}")
        y = net.node("Conv", x, w, name=name, **attrs)
        graph, _ = plan(net.output(net.node("Relu", y, name=f"r{name}")), whole_rule("Conv", 2, kind="conv"))
        return signature(fused_nodes(graph)[0])

    assert conv("a") == conv("b", fill=2.0)
    assert conv("a") != conv("a", channels=3)
    assert conv("a") != conv("a", strides=[2, 2])
