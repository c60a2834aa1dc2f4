"""The kit's tests of rules find what is wrong: a sound pack passes them all, each seeded fault fails the right one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from autofusion.errors import PluginError
from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass
from autofusion.kinds import FusedKind
from autofusion.refusal import Refusal
from autofusion.rules.pattern import Match, const, op, var
from autofusion.rules.rule import Builder, FuseRule, Region, RewriteRule, Rule, RulePack
from autofusion.testing import RulePackTests
from tests.support.kit import failures

KIND = FusedKind("bad.kind", classes=frozenset(OpClass))
DOC = "Do something.\n\nBefore: as it was\nAfter:  as it is\nRefuses when: it must."


def kit(*rules: Rule, golden: Path | None = None) -> type[RulePackTests]:
    pack = RulePack("bad", "1.0", rules)

    class Seeded(RulePackTests):
        @classmethod
        def subject(cls) -> RulePack:
            return pack

    Seeded.golden = golden
    return Seeded


def rewrite(
    pattern: object,
    build: Callable[[Match, Builder], Sequence[Value]],
    refuses: Callable[[Match], Refusal | None] | None = None,
    name: str = "bad.rule",
    doc: str = DOC,
) -> RewriteRule:
    def unless_refused(match: Match, builder: Builder) -> Sequence[Value] | Refusal:
        assert refuses is not None
        return refuses(match) or build(match, builder)

    return RewriteRule(name, pattern, build if refuses is None else unless_refused, doc=doc)  # type: ignore[arg-type]


def fuse(grow: Callable[[Node], Iterator[Region | Refusal]], *roots: str, kind: FusedKind = KIND) -> FuseRule:
    return FuseRule("bad.region", kind, grow, frozenset(roots), doc=DOC)


HALVED = op("Mul", var("x"), const("half", 0.5))


def _halve(match: Match, builder: Builder) -> list[Value]:
    return [builder.op("Div", match["x"], builder.constant(2.0, match["x"].dtype))]


def _enlarged(match: Match) -> Refusal | None:
    return Refusal("the number enlarges it", match["half"]) if match["half"].shape else None


def _pair(node: Node) -> Iterator[Region]:
    consumers = node.output.consumers
    if len(consumers) == 1 and consumers[0].op in ("Relu", "Sigmoid") and not node.output.is_output:
        yield Region((node, consumers[0]), node)


def test_a_sound_pack_passes() -> None:
    assert failures(kit(rewrite(HALVED, _halve, _enlarged), fuse(_pair, "Conv", "Add"))) == {}


# ---- faults --------------------------------------------------------------------------------------------------------


def _any_constant(match: Match, builder: Builder) -> list[Value]:
    """Takes whatever constant is there for the one that the author had in mind."""
    return [builder.op("Div", match["x"], builder.constant(2.0, match["x"].dtype))]


def _ignores_override(match: Match, builder: Builder) -> list[Value]:
    factor = match["c"].const if match["c"].const is not None else match["c"].default
    assert factor is not None
    return [builder.op("Div", match["x"], builder.constant(1.0 / factor))]


def _has_number(value: Value) -> bool:
    data = value.const if value.const is not None else value.default
    return data is not None and data.dtype.kind == "f" and data.size == 1 and bool(data.all())


def _single_only(match: Match, builder: Builder) -> list[Value]:
    return [builder.op("Div", match["x"], builder.constant(2.0, np.float32))]


def _no_nan(match: Match, builder: Builder) -> list[Value]:
    """x * 0 is 0: not for NaN and infinity."""
    x = match["x"]
    return [builder.op("And", builder.op("IsNaN", x), builder.op("Not", builder.op("IsNaN", x)))]


def _flag(match: Match, builder: Builder) -> list[Value]:
    return [builder.op("Max", match["x"], builder.constant(0.0, match["x"].dtype))]


_count = itertools.count()


def _every_other_time(match: Match) -> Refusal | None:
    return Refusal("not this time", match.root) if next(_count) % 2 else None


def _by_name(match: Match) -> Refusal | None:
    return None if match.root.name.startswith("Mul") else Refusal("another name", match.root)


def _edits(match: Match) -> Refusal | None:
    match.root.attrs["seen"] = 1
    return Refusal("looked at it", match.root)


def _raises_on_scalars(match: Match) -> Refusal | None:
    shape = match["x"].shape
    assert shape is not None and len(shape) > 2, "always an image"
    return None


def _slower(match: Match, builder: Builder) -> list[Value]:
    x = match["x"]
    two = builder.constant(2.0, x.dtype)
    return [builder.op("Div", builder.op("Div", builder.op("Mul", x, two), two), two)]


def _turns(match: Match, builder: Builder) -> list[Value]:
    return [builder.op("Mul", builder.op("Neg", match["x"]), builder.constant(-0.5, match["x"].dtype))]


def _turns_back(match: Match, builder: Builder) -> list[Value]:
    return [builder.op("Mul", match["x"], builder.constant(0.5, match["x"].dtype))]


def _loose_region(node: Node) -> Iterator[Region]:
    """Takes a reader of the reader, but not what lies between."""
    for consumer in node.output.consumers:
        for second in consumer.output.consumers:
            yield Region((node, second), second)


def _asymmetric(match: Match) -> Refusal | None:
    return None if match.root.inputs[1] is match["half"] else Refusal("only x * 0.5, not 0.5 * x", match.root)


def _as_if_default(match: Match, builder: Builder) -> list[Value]:
    x = match["x"]
    return [builder.op("Max", x, builder.op("Mul", x, builder.constant(0.01, x.dtype)))]


def _without_attributes(match: Match, builder: Builder) -> list[Value]:
    return [builder.op("Conv", match["x"], builder.constant(-match.array("w")))]


def _region_out_of_order(node: Node) -> Iterator[Region]:
    yield Region((), node)


FAULTS: dict[str, tuple[type[RulePackTests], str]] = {
    "a name without the pack's": (kit(rewrite(HALVED, _halve, _enlarged, name="halve")), "test_rules_are_well_formed"),
    "an operator that does not exist": (
        kit(rewrite(op("Mull", var("x"), const("half", 0.5)), _halve)),
        "test_rules_are_well_formed",
    ),
    "a variable that the pattern does not bind": (
        kit(rewrite(HALVED, lambda match, builder: [match["y"]])),
        "test_rules_are_well_formed",
    ),
    "a kind of a version that is none": (
        kit(fuse(_pair, "Conv", kind=FusedKind("bad.kind", "banana"))),
        "test_rules_are_well_formed",
    ),
    "a body that its kind does not allow": (
        kit(fuse(_pair, "Conv", "Add", kind=FusedKind("bad.kind", anchors=("MatMul",)))),
        "test_bodies_keep_to_their_kind",
    ),
    "no documentation": (kit(rewrite(HALVED, _halve, _enlarged, doc="")), "test_documented"),
    "a constant that may be any": (kit(rewrite(op("Mul", var("x"), const("half")), _any_constant)), "test_near_misses"),
    "a number that may be overridden": (
        kit(rewrite(op("Mul", var("x"), var("c", _has_number)), _ignores_override)),
        "test_near_misses",
    ),
    "an attribute that is never read": (kit(rewrite(op("LeakyRelu", var("x")), _as_if_default)), "test_variants"),
    "attributes that get lost": (
        kit(rewrite(op("Neg", op("Conv", var("x"), const("w"))), _without_attributes)),
        "test_variants",
    ),
    "other numbers": (
        kit(rewrite(op("Gelu", var("x")), lambda m, b: [b.op("Sigmoid", m["x"])])),
        "test_numbers",
    ),
    "one element type only": (kit(rewrite(HALVED, _single_only, _enlarged)), "test_numbers"),
    "a result of another shape": (kit(rewrite(op("Mul", var("x"), var("y")), lambda m, b: [m["x"]])), "test_numbers"),
    "NaN lost": (
        kit(rewrite(op("Sub", var("x"), var("x")), lambda m, b: [b.op("Mul", m["x"], b.constant(0, m["x"].dtype))]),
            rewrite(op("IsNaN", var("x")), _no_nan, name="bad.nan")),
        "test_special_numbers",
    ),
    "state between matches": (kit(rewrite(HALVED, _halve, _every_other_time)), "test_repeatable"),
    "decides by names": (kit(rewrite(HALVED, _halve, _by_name)), "test_names_do_not_matter"),
    "edits what it refuses": (kit(rewrite(HALVED, _halve, _edits), rewrite(op("Gelu", var("x")), _flag, name="bad.b")),
                              "test_networks"),
    "raises on some shapes": (kit(rewrite(HALVED, _halve, _raises_on_scalars)), "test_numbers"),
    "worse by the cost model": (kit(rewrite(HALVED, _slower, _enlarged)), "test_never_worse"),
    "goes in circles": (
        kit(
            rewrite(HALVED, _turns),
            rewrite(op("Mul", op("Neg", var("x")), const("c", -0.5)), _turns_back, name="bad.b"),
        ),
        "test_networks",
    ),
    "one order of operands": (kit(rewrite(HALVED, _halve, _asymmetric)), "test_spellings"),
    "a region with a gap": (kit(fuse(_loose_region, "Conv")), "test_fires"),
    "a region without its anchor": (kit(fuse(_region_out_of_order, "Conv")), "test_networks"),
    "never fires": (kit(rewrite(HALVED, _halve, lambda match: Refusal("never", match.root))), "test_fires"),
    "shadowed by another": (
        kit(rewrite(HALVED, _halve, _enlarged), rewrite(HALVED, _halve, _enlarged, name="bad.second")),
        "test_fires",
    ),
}  # fmt: skip


def test_there_are_twelve() -> None:
    assert len(FAULTS) >= 12


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault: str) -> None:
    seeded, expected = FAULTS[fault]
    found = failures(seeded)
    assert expected in found, found


# ---- nobody drops a standard test --------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, lambda self, rule: None], ids=["dropped", "overridden"])
def test_standard_tests_cannot_be_replaced(value: object) -> None:
    with pytest.raises(PluginError, match=r"class 'Lenient' drops or overrides the standard test 'test_numbers'"):
        type("Lenient", (RulePackTests,), {"test_numbers": value})


def test_a_mixin_cannot_replace_them_either() -> None:
    mixin = type("Mixin", (), {"test_spellings": lambda self, rule: None})
    with pytest.raises(PluginError, match="test_spellings"):
        type("Lenient", (mixin, RulePackTests), {})
    with pytest.raises(PluginError, match="pytest_generate_tests"):
        type("Lenient", (RulePackTests,), {"pytest_generate_tests": lambda self, metafunc: None})


def test_replacing_them_later_is_noticed() -> None:
    class Late(RulePackTests):
        plugin = "conv"

    Late.test_numbers = lambda self, rule: None  # type: ignore[method-assign]
    assert "test_standard_tests_are_complete" in failures(Late)


def test_what_a_plugin_states_of_itself_is_known_wherever_it_is_installed() -> None:
    stated = {f"test_never_worse[layout.{rule}]" for rule in ("lift_transpose", "drop_expand")}
    layout = type("TestIt", (RulePackTests,), {"plugin": "layout", "known_failures": {"test_networks": "why"}})
    assert set(layout.known()) == {*stated, "test_networks"}
    assert type("TestIt", (RulePackTests,), {"plugin": "no_such_plugin"}).known() == {}
