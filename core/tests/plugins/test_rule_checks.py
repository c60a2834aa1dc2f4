"""Static checks of rule packs: each mistake is named, and correct rules pass."""

from __future__ import annotations

from typing import Any

import pytest

from autofusion.ir.operators import OpClass
from autofusion.kinds import CONV, FusedKind
from autofusion.rules.check import problems
from autofusion.rules.pattern import Match, Optional, Repeat, const, either, op, var
from autofusion.rules.rule import Builder, FuseRule, RewriteRule, RulePack

X = var("x")


def _rewrite(pattern: Any, rewrite: Any = lambda match, builder: [match["x"]], **more: Any) -> RulePack:
    return RulePack("p", "1", (RewriteRule("p.rule", pattern, rewrite, **more),))


def _fuse(**more: Any) -> RulePack:
    fields: dict[str, Any] = {"name": "p.fuse", "kind": CONV, "grow": iter, "roots": frozenset({"Conv"})} | more
    return RulePack("p", "1", (FuseRule(**fields),))


def _named(match: Match, builder: Builder) -> list[Any]:
    conv, scale, bias = match.node("conv"), match.array("scale"), match.get("anything")
    return [conv.output, match["x"], scale, bias]


GOOD = [
    _rewrite(op("Relu", op("Conv", X, const("w"), name="conv", open_inputs=True), name="top")),
    _rewrite(op("Mul", op("Conv", X, name="conv"), const("scale")), _named),
    _rewrite(op("Softmax", X, axis=-1)),
    _rewrite(op(["Relu", "LeakyRelu"], X, alpha=0.1)),
    _rewrite(op("Add", either(op("Mul", X, const("c")), X), const("b"))),
    _rewrite(op("Relu", Optional(op("Add", X, const("b"))))),
    _rewrite(op("mine::Op", X, beta=2)),
    _fuse(),
    _fuse(roots=frozenset(), root_classes=frozenset({OpClass.POINTWISE})),
]


@pytest.mark.parametrize("pack", GOOD)
def test_good(pack: RulePack) -> None:
    assert problems(pack) == []


BAD = [
    (_rewrite(op("Rellu", X)), "rule 'p.rule' names the operator 'Rellu', which does not exist; did you mean 'Relu'"),
    (_rewrite(op("Relu", op("Convv", X))), "names the operator 'Convv'"),
    (_rewrite(op("Softmax", X, axes=1)), "attribute 'axes', which 'Softmax' does not have; did you mean 'axis'"),
    (_rewrite(op("Relu", var("y"))), "reads the value 'x', which its pattern does not bind"),
    (_rewrite(op("Relu", X), _named), "reads the node 'conv', which its pattern does not bind"),
    (_rewrite(op("Relu", X), _named), "reads the value 'scale', which its pattern does not bind"),
    (_rewrite(op("Relu", X), stage=lambda match: None), "has a stage of type function, expected a Stage"),
    (_rewrite(op("Relu", X, name="x")), "uses 'x' both for a value and for a node"),
    (_rewrite(op("Relu", Optional(op("Add", X), through=1))), "continues through operand 1 of 'Add'"),
    (_rewrite(op("Relu", Repeat(op("Add", X), X, "chain", 3, 2))), "repeats 'chain' from 3 to 2 times"),
    (_rewrite(op([], X)), "has a pattern node without an operator"),
    (_fuse(roots=frozenset()), "has neither roots nor root classes"),
    (_fuse(roots=frozenset({"Conf"})), "names the operator 'Conf'"),
    (_fuse(kind="matmul"), "has a kind of type str, expected a FusedKind"),
    (_fuse(kind=FusedKind("conv", anchors=("Relu",))), "emits another kind 'conv' than core's"),
    (_fuse(kind=FusedKind("p.own", "banana")), "emits kind 'p.own' in version 'banana', expected a number"),
    (_fuse(kind=FusedKind("p.own", anchors=("Convv",))), "which names the operator 'Convv'"),
    (_rewrite(op("Relu", X), stage=lambda match: None), "expected members of Stage and Level"),
    (_fuse(name="fuse"), "rule 'fuse' must have a name that begins with 'p.'"),
    (RulePack("p", "1", GOOD[0].rules + GOOD[1].rules), "2 rules of pack 'p' have the name 'p.rule'"),
    (RulePack("p", "1", ("rule",)), "entry 0 of pack 'p' is of type str, expected a rule"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("pack", "problem"), BAD)
def test_bad(pack: RulePack, problem: str) -> None:
    assert any(problem in found for found in problems(pack)), problems(pack)
