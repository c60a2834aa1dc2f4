"""Patterns against graphs: what matches, what does not, and what a near-miss says."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.errors import PluginError
from autofusion.fusion.matcher import Matcher
from autofusion.ir.graph import Node, Value
from autofusion.rules.pattern import Match, Miss, Operand, Optional, Repeat, const, either, op, var
from core.tests.fusion.fusion_graphs import Net


def producer(value: Value) -> Node:
    assert value.producer is not None
    return value.producer


def matched(pattern: Operand, value: Value) -> Match:
    found = Matcher(pattern).match(producer(value))  # type: ignore[arg-type]
    assert isinstance(found, Match), found
    return found


def missed(pattern: Operand, value: Value) -> Miss:
    found = Matcher(pattern).match(producer(value))  # type: ignore[arg-type]
    assert isinstance(found, Miss)
    return found


SILU = op("Mul", var("x"), op("Sigmoid", var("x"), name="sigmoid"))


@pytest.mark.parametrize("swap", [False, True])
def test_commutative_operands_match_in_both_orders(swap: bool) -> None:
    net = Net()
    x = net.input("x", 2, 3)
    s = net.node("Sigmoid", x)
    y = net.node("Mul", *((s, x) if swap else (x, s)))
    net.output(y)
    match = matched(SILU, y)
    assert match["x"] is x
    assert match.node("sigmoid") is s.producer
    assert match.nodes == [y.producer, s.producer]


def test_a_name_is_one_value() -> None:
    net = Net()
    x, z = net.input("x", 2, 3), net.input("z", 2, 3)
    y = net.node("Mul", z, net.node("Sigmoid", x))
    net.output(y)
    miss = missed(SILU, y)
    assert "not the same value" in miss.reason
    assert miss.depth == 2


def test_order_is_found_by_backtracking_over_nested_commutative_operators() -> None:
    # (a * b) + c in every spelling, where the names only fit one way: c must be what Neg consumes.
    pattern = op("Add", op("Mul", var("a"), op("Neg", var("c"))), var("c"))
    for inner in (False, True):
        for outer in (False, True):
            net = Net()
            a, c = net.input("a", 2), net.input("c", 2)
            n = net.node("Neg", c)
            m = net.node("Mul", *((n, a) if inner else (a, n)))
            y = net.node("Add", *((c, m) if outer else (m, c)))
            net.output(y)
            assert matched(pattern, y)["c"] is c


def test_non_commutative_operands_keep_their_order() -> None:
    net = Net()
    x = net.input("x", 2)
    y = net.node("Sub", net.node("Neg", x), x)
    net.output(y)
    matched(op("Sub", op("Neg", var("x")), var("x")), y)
    missed(op("Sub", var("x"), op("Neg", var("x"))), y)


@pytest.mark.parametrize(
    ("value", "fits"), [(0.5, True), (0.5 * (1 + 1e-6), True), (0.5001, False), (0.4999, False), (-0.5, False)]
)
def test_constants_are_compared_tightly(value: float, fits: bool) -> None:
    net = Net()
    y = net.node("Mul", net.input("x", 2), net.const(value, "half"))
    net.output(y)
    found = Matcher(op("Mul", var("x"), const("half", equals=0.5))).match(producer(y))
    assert isinstance(found, Match) is fits


def test_a_half_precision_constant_counts_as_its_rounding() -> None:
    net = Net()
    third = net.graph.constant(np.float16(1 / 3), "third")
    y = net.node("Exp", net.input("x", 2))
    z = net.graph.node("Mul", [y, third], name="m").output
    net.output(z)
    matched(op("Mul", var("x"), const("third", equals=1 / 3)), z)
    missed(op("Mul", var("x"), const("third", equals=0.334)), z)


@pytest.mark.parametrize(
    ("shape", "fits"), [((), True), ((1,), True), ((3,), True), ((2, 3), True), ((4, 1, 1), False), ((1, 1, 1), False)]
)
def test_a_uniform_constant_is_a_scalar_unless_it_enlarges_the_result(shape: tuple[int, ...], fits: bool) -> None:
    net = Net()
    y = net.node("Mul", net.input("x", 2, 3), net.const(np.full(shape, 0.5), "half"))
    net.output(y)
    found = Matcher(op("Mul", var("x"), const("half", equals=0.5))).match(producer(y))
    assert isinstance(found, Match) is fits
    if isinstance(found, Miss):
        assert "enlarge" in found.reason


def test_an_overridable_default_is_no_constant() -> None:
    net = Net()
    w = net.input("w", default=np.float32(0.5))
    y = net.node("Mul", net.input("x", 2), w)
    net.output(y)
    miss = missed(op("Mul", var("x"), const("w")), y)
    assert "override" in miss.reason
    assert miss.culprit is w


def test_interior_graph_output_is_a_miss_that_names_it() -> None:
    net = Net()
    y = net.conv_bn(net.input("x", 1, 2, 4, 4), 2, "c3")
    inner = producer(y).inputs[0]
    assert inner is not None
    net.output(y, inner)
    pattern = op("BatchNormalization", op("Conv", var("x"), const("w")), const("s"), const("b"), const("m"), const("v"))
    miss = missed(pattern, y)
    assert miss.reason == "'c3' is also a graph output"
    assert miss.culprit is inner
    assert Matcher(pattern).find(producer(y)) == miss
    assert [node.name for node in miss.nodes] == ["c3_bn", "c3"]


def test_interior_use_by_another_node_is_a_miss_unless_shared() -> None:
    net = Net()
    x = net.input("x", 2)
    e = net.node("Exp", x, name="e")
    y, z = net.node("Neg", e), net.node("Abs", e, name="other")
    net.output(y, z)
    miss = missed(op("Neg", op("Exp", var("x"))), y)
    assert miss.reason == "'e' is also used by Abs 'other'"
    match = matched(op("Neg", op("Exp", var("x"), shared=True)), y)
    assert match.shared == {e.producer}


def test_a_diamond_inside_the_match_is_private() -> None:
    net = Net()
    x = net.input("x", 2)
    e = net.node("Exp", x)
    y = net.node("Sub", net.node("Neg", e), net.node("Abs", e))
    net.output(y)
    exp = op("Exp", var("x"), name="exp")
    match = matched(op("Sub", op("Neg", exp), op("Abs", exp)), y)
    assert len(match.nodes) == 4


def test_attributes_use_schema_defaults_and_predicates() -> None:
    net = Net()
    x = net.input("x", 2, 3)
    y = net.node("LeakyRelu", x)
    net.output(y)
    matched(op("LeakyRelu", var("x"), alpha=0.01), y)
    matched(op("LeakyRelu", var("x"), alpha=lambda a: a < 0.1), y)
    miss = missed(op("LeakyRelu", var("x"), alpha=0.2), y)
    assert "alpha" in miss.reason and "0.2" in miss.reason


def test_list_attributes_compare_by_content() -> None:
    net = Net()
    y = net.node("Transpose", net.input("x", 2, 3), perm=(1, 0))
    net.output(y)
    matched(op("Transpose", var("x"), perm=[1, 0]), y)
    missed(op("Transpose", var("x"), perm=[0, 1]), y)


def test_an_attribute_that_the_operator_lacks_is_refused_when_the_pattern_is_prepared() -> None:
    with pytest.raises(PluginError, match=r"'alpa'.*did you mean 'alpha'"):
        Matcher(op("LeakyRelu", var("x"), alpa=0.2))


def test_absent_operands() -> None:
    net = Net()
    x = net.input("x", 2, 3)
    low, high = net.const(0.0), net.const(6.0)
    both, only_high = net.node("Clip", x, low, high), net.node("Clip", x, None, high)
    net.output(both, only_high)
    pattern = op("Clip", var("x"), var("low", optional=True), const("high", equals=6.0))
    assert matched(pattern, both)["low"] is low
    assert matched(pattern, only_high).get("low") is None
    assert "3 operands" in missed(op("Clip", var("x"), var("low", optional=True)), only_high).reason
    assert "absent" in missed(op("Clip", var("x"), const("low"), const("high")), only_high).reason
    missed(op("Clip", var("x")), both)
    matched(op("Clip", var("x"), open_inputs=True), both)


def test_either_takes_the_first_alternative_that_lets_the_rest_match() -> None:
    net = Net()
    x = net.input("x", 2)
    half = net.const(2.0, "two")
    for spelling in ("Div", "Mul"):
        y = net.node("Erf", net.node(spelling, x, half))
        net.output(y)
        scaled = either(op("Div", var("x"), const("two", equals=2.0)), op("Mul", var("x"), const("two", equals=2.0)))
        assert matched(op("Erf", scaled), y)["x"] is x


def test_optional_node_is_used_or_passed_through() -> None:
    net = Net()
    x = net.input("x", 1, 2, 4, 4)
    plain = net.node("Relu", net.node("Neg", x, name="n1"))
    with_cast = net.node("Relu", net.node("Identity", net.node("Neg", x, name="n2"), name="i"))
    net.output(plain, with_cast)
    pattern = op("Relu", Optional(op("Identity", op("Neg", var("x"), name="neg"), name="identity")))
    assert "identity" not in matched(pattern, plain).named
    match = matched(pattern, with_cast)
    assert match.node("identity").name == "i"
    assert match.node("neg").name == "n2"


def test_repeat_binds_the_chain_and_respects_its_bounds() -> None:
    net = Net()
    value = x = net.input("x", 2)
    constants = [net.const(float(i), f"c{i}") for i in range(3)]
    for i, c in enumerate(constants):
        value = net.node("Add", value, c, name=f"a{i}")
    y = net.node("Relu", value)
    net.output(y)

    def pattern(low: int, high: int) -> Operand:
        step = op("Add", var("_"), const("c"))
        return op("Relu", Repeat(step, var("x"), "adds", low, high))

    match = matched(pattern(1, 4), y)
    assert [node.name for node in match.chains["adds"]] == ["a2", "a1", "a0"]
    assert match["x"] is x
    assert [match[f"adds[{i}].c"] for i in range(3)] == constants[::-1]
    assert len(matched(pattern(0, 2), y).chains["adds"]) == 2
    assert missed(pattern(4, 5), y).reason == "'x' is a graph input, expected Add"
    assert matched(op("Relu", Repeat(op("Mul", var("_"), const("c")), var("x"), "muls")), y).chains["muls"] == []


def test_miss_keeps_the_deepest_reason() -> None:
    net = Net()
    x = net.input("x", 2)
    y = net.node("Mul", net.node("Mul", net.node("Add", net.node("Tanh", x), net.const(1.0)), x), net.const(0.5))
    net.output(y)
    gelu = op(
        "Mul",
        op("Mul", op("Add", op("Erf", var("x")), const("one", equals=1.0)), var("x")),
        const("half", equals=0.5),
    )
    matcher = Matcher(gelu)
    miss = missed(gelu, y)
    assert miss.depth == 3
    assert "Tanh" in miss.reason and "Erf" in miss.reason
    assert matcher.size == 4 and matcher.depth == 4
    assert matcher.find(producer(y)) == miss
    shallow = net.node("Mul", net.node("Mul", net.node("Exp", x), x), net.const(0.5))
    assert missed(gelu, shallow).depth == 2
    assert matcher.find(producer(shallow)) is None, "two products alone are no near-miss"
    assert matcher.find(producer(net.node("Mul", x, net.const(0.5)))) is None


def test_root_condition_and_results_other_than_the_first() -> None:
    net = Net()
    x = net.input("x", 4, 2)
    split = net.graph.node("Split", [x], {"num_outputs": 2, "axis": 0}, outputs=2)
    y, z = (net.node("Neg", v) for v in split.outputs)
    net.output(y, z)
    matched(op("Neg", op("Split", var("x"), result=1, shared=True, open_inputs=True)), z)
    assert "result 0" in missed(op("Neg", op("Split", var("x"), result=1, shared=True)), y).reason
    missed(op("Neg", var("x"), where=lambda node: node.name == "nobody"), z)
