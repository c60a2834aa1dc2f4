"""What is told when a pack is installed: where its rules meet others', and what no installed kernel pack runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autofusion.errors import OptionError
from autofusion.fusion.overlaps import overlaps, unserved
from autofusion.ir.operators import OpClass
from autofusion.kinds import FusedKind
from autofusion.rules.pattern import Operand, const, either, op, var
from autofusion.rules.priority import BANDS, parse_priority, priority_text
from autofusion.rules.rule import FuseRule, RewriteRule, RulePack, Stage
from tests.support.distributions import Distribution
from tests.support.projects import CONTRIB, install, run


def rewriting(pack: str, pattern: Any, **more: Any) -> RulePack:
    return RulePack(pack, "1", (RewriteRule(f"{pack}.rule", pattern, lambda m, b: [m["x"]], **more),))


def fusing(pack: str, *roots: str, kind: str = "conv", version: str = "1", **more: Any) -> RulePack:
    def grow(node: Any) -> Iterator[Any]:
        yield from ()

    rule = FuseRule(f"{pack}.fuse", FusedKind(kind, version), grow, frozenset(roots), **more)
    return RulePack(pack, "1", (rule,))


HALF, TWO = const("c", 0.5), const("c", 2.0)


@pytest.mark.parametrize(
    ("a", "b", "meet"),
    [
        (op("Mul", var("x"), HALF), op("Mul", var("x"), var("y")), True),
        (op("Mul", var("x"), HALF), op("Mul", HALF, var("x")), True),
        (op("Mul", var("x"), HALF), op("Mul", var("x"), TWO), False),
        (op("Div", var("x"), HALF), op("Div", HALF, op("Exp", var("x"))), False),
        (op("Mul", var("x"), HALF), op("Add", var("x"), HALF), False),
        (op(("Add", "Mul"), var("x"), HALF), op(("Mul", "Sub"), var("x"), HALF), True),
        (op("Relu", op("Add", var("x"), HALF)), op("Relu", op("Mul", var("x"), HALF)), False),
        (op("Relu", op("Add", var("x"), HALF)), op("Relu", either(op("Mul", var("x"), HALF), var("x"))), True),
        (op("Softmax", var("x"), axis=1), op("Softmax", var("x"), axis=2), False),
        (op("Softmax", var("x"), axis=1), op("Softmax", var("x"), axis=lambda a: a > 0), True),
        (op("Conv", var("x"), open_inputs=True), op("Conv", var("x"), var("w"), var("b")), True),
        (op("Clip", var("x")), op("Clip", var("x"), var("low")), False),
    ],
)
def test_patterns_that_meet(a: Operand, b: Operand, meet: bool) -> None:
    found = overlaps([rewriting("a", a), rewriting("b", b)])
    assert bool(found) is meet
    assert bool(overlaps([rewriting("b", b), rewriting("a", a)])) is meet


def test_who_goes_first() -> None:
    pattern = op("Mul", var("x"), HALF)
    (found,) = overlaps([rewriting("a", pattern), rewriting("b", pattern)])
    assert str(found) == "a.rule overlaps b.rule on Mul; precedence: a.rule first (both normal, packs by name)"
    assert not found.decided
    (found,) = overlaps([rewriting("a", pattern), rewriting("b", pattern, priority=BANDS["early"])])
    assert str(found) == "b.rule overlaps a.rule on Mul; precedence: b.rule first (early before normal)"
    (found,) = overlaps([rewriting("a", pattern), rewriting("b", pattern)], {"b.rule": "late-3", "a.rule": "late+1"})
    assert "a.rule first (late+1 before late-3)" in str(found)
    assert found.decided


def test_fuse_rules_meet_at_their_roots() -> None:
    region = RulePack(
        "b",
        "1",
        (FuseRule("b.region", FusedKind("k"), lambda n: iter(()), root_classes=frozenset({OpClass.POINTWISE})),),
    )
    (found,) = overlaps([fusing("a", "Sigmoid", "Conv"), region])
    assert found.ops == ("Sigmoid",)
    assert found.why == "whichever saves more at a site (both normal)"
    assert overlaps([fusing("a", "Conv"), fusing("b", "MatMul")]) == []


def test_other_stages_and_the_same_pack_do_not_meet() -> None:
    pattern = op("Mul", var("x"), HALF)
    assert overlaps([rewriting("a", pattern), rewriting("b", pattern, stage=Stage.FOLD)]) == []
    rules = (rewriting("a", pattern).rules[0], RewriteRule("a.other", pattern, lambda m, b: [m["x"]]))
    assert overlaps([RulePack("a", "1", rules)]) == []


class Kernels:
    def __init__(self, name: str, **kinds: str) -> None:
        self.name, self.version = name, "3.1"
        self.kinds = [FusedKind(kind, version) for kind, version in kinds.items()]


def test_kinds_that_no_pack_runs() -> None:
    packs = [fusing("a", "Conv"), fusing("b", "Conv", version="1.2"), fusing("c", "Conv", kind="c.own")]
    found = unserved(packs, [Kernels("old", conv="1.1"), Kernels("none")])  # type: ignore[list-item]
    assert [str(f) for f in found] == [
        "b.fuse emits kind 'conv' version 1.2: pack 'old' 3.1 has version 1.1",
        "c.fuse emits kind 'c.own' version 1: no installed kernel pack has the kind",
    ]
    assert unserved(packs[:2], [Kernels("new", conv="1.2")]) == []  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("text", "number"),
    [("early", 100), ("early+5", 105), ("late - 3", -103), ("normal", 0), ("7", 7), ("-7", -7), (12, 12)],
)
def test_priorities_by_name(text: str | int, number: int) -> None:
    assert parse_priority(text) == number
    assert parse_priority(priority_text(number)) == number


@pytest.mark.parametrize("text", ["soon", "earlyish", "early+", "", None, True, 1.5])
def test_what_is_no_priority(text: Any) -> None:
    with pytest.raises(OptionError, match="neither a number nor a band"):
        parse_priority(text)


NEWER = Distribution(
    "af-newer",
    """
from autofusion.hooks import hookimpl

@hookimpl
def autofusion_rule_packs():
    from autofusion.rules import FusedKind, FuseRule, Region, RulePack
    def grow(node):
        if len(node.output.consumers) == 1:
            yield Region((node, node.output.consumers[0]), node)
    rule = FuseRule("af-newer.gate", FusedKind("pointwise", "2"), grow, frozenset({"Sigmoid"}))
    return [RulePack("af-newer", "1.0", (rule,))]
""",
    group="autofusion.rules",
)
LIST = ["-m", "autofusion", "plugins"]


def test_it_is_shown_when_a_pack_is_installed(tmp_path: Path) -> None:
    folder = tmp_path / "installed"
    install(folder, CONTRIB / "template-rules")
    NEWER.install(folder)
    done = run(folder, LIST)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "af-newer.gate emits kind 'pointwise' version 2: pack 'cpu'" in done.stdout, "told, and no failure"
    assert (
        "acme.gate overlaps af-newer.gate on Sigmoid; precedence: whichever saves more at a site (both normal)" in lines
    )
    assert (
        "acme.gate overlaps pointwise.region on Sigmoid; precedence: whichever saves more at a site (both normal)"
        in lines
    )


def test_a_kind_that_no_pack_runs_is_a_record_at_its_site(tmp_path: Path) -> None:
    NEWER.install(tmp_path)
    code = """
import numpy as np, autofusion
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
graph = Graph("g")
x = graph.add_input("x", TensorType(np.dtype(np.float32), (64, 64)))
gate = graph.node("Sigmoid", [x], name="gate", origin=["gate"])
graph.add_output(graph.node("Mul", [x, gate.output], name="mul", origin=["mul"]).output, "y")
for r in autofusion.compile(graph, disable=["pointwise"]).ledger.records:
    print(r.rule, r.verdict.value, r.reason)
"""
    done = run(tmp_path, ["-c", code])
    assert "af-newer.gate@1.0 no-kernel" in done.stdout, done.stdout + done.stderr
    assert "implements version 1.1 of kind 'pointwise', the rule emits 2" in done.stdout
    assert " fused" not in done.stdout
