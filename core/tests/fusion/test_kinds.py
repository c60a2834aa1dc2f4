"""Fused kinds: anchors, bodies, versions, and that one object is all there is to a new one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from autofusion.cli.rules import command
from autofusion.ir.graph import Node
from autofusion.ir.text import from_text
from autofusion.kinds import ATTENTION, CONV, POINTWISE, STANDARD, AttentionParts, FusedKind, table
from autofusion.plugins import registry as registries
from autofusion.plugins.registry import Registry
from autofusion.refusal import Refusal
from autofusion.rules.rule import FuseRule, Region, RulePack
from autofusion.testing import RulePackTests

ATTENTION_TEXT = """
graph @net(%q: f32[2, 5, 4], %k: f32[2, 7, 4], %m: f32[5, 7], %v: f32[2, 7, 3]) -> (y: f32[2, 5, 3]) {
  %0 = Fused(%q, %k, %m, %v) {kind = "attention", rule = "r@1"} : f32[2, 5, 3] {
    body = graph(%i0: f32[2, 5, 4], %i1: f32[2, 7, 4], %i2: f32[5, 7], %i3: f32[2, 7, 3]) -> (f32[2, 5, 3]) {
      %c0 = constant dense<4.0> : f32[]
      %c1 = constant dense<0.5> : f32[]
      %0 = Div(%i0, %c0) : f32[2, 5, 4]
      %1 = Transpose(%i1) {perm = [0, 2, 1]} : f32[2, 4, 7]
      %2 = Mul(%1, %c1) : f32[2, 4, 7]
      %3 = MatMul(%0, %2) : f32[2, 5, 7]
      %4 = Add(%3, %i2) : f32[2, 5, 7]
      %5 = Softmax(%4) {axis = AXIS} : f32[2, 5, 7]
      %6 = MatMul(%5, %i3) : f32[2, 5, 3]
      return %6
    }
  }
  return %0
}
"""
CONV_TEXT = """
graph @net(%x: f32[1, 3, 8, 8], %w: f32[4, 3, 1, 1]) -> (y: f32[1, 4, 8, 8]) {
  %0 = Fused(%x, %w) {kind = "conv", rule = "r@1"} : f32[1, 4, 8, 8] {
    body = graph(%i0: f32[1, 3, 8, 8], %i1: f32[4, 3, 1, 1]) -> (f32[1, 4, 8, 8]) {
      %0 = Conv(%i0, %i1) : f32[1, 4, 8, 8]
      %1 = LAST(%0) : f32[1, 4, 8, 8]
      return %1
    }
  }
  return %0
}
"""


def fused(text: str, *changes: str) -> Node:
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        text = text.replace(old, new)
    return from_text(text).nodes[0]


def test_an_attention_is_taken_apart() -> None:
    node = fused(ATTENTION_TEXT, "AXIS", "-1")
    parts = ATTENTION.read(node)
    assert isinstance(parts, AttentionParts)
    assert [f.source.name for f in (parts.q, parts.k, parts.v)] == ["i0", "i1", "i3"]
    assert [n.op for n in parts.k.moves] == ["Transpose"] and parts.factor == 0.125
    assert [n.op for n in parts.masking] == ["Add"] and parts.softmax is ATTENTION.anchor(node)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (("AXIS", "1"), "does not run along the keys"),
        (("Softmax(%4) {axis = AXIS}", "Relu(%4)"), "expected one Softmax in the body, found 0"),
        (("AXIS", "-1", 'kind = "attention"', 'kind = "conv"'), "is not a fused node"),
    ],
)
def test_what_is_no_attention_is_refused(changes: tuple[str, ...], reason: str) -> None:
    found = ATTENTION.read(fused(ATTENTION_TEXT, *changes))
    assert isinstance(found, Refusal) and reason in found.reason


def test_anchors_and_bodies() -> None:
    node = fused(CONV_TEXT, "LAST", "Relu")
    anchor = CONV.anchor(node)
    assert isinstance(anchor, Node) and anchor.op == "Conv" and CONV.misfit(node.body) is None
    assert isinstance(POINTWISE.anchor(node), Refusal)
    misfit = CONV.misfit(fused(CONV_TEXT, "LAST", "Softmax").body)
    assert misfit is not None and "has no place for Softmax" in misfit.reason


@pytest.mark.parametrize(
    ("implemented", "emitted", "runs"),
    [("1", "1", True), ("1.2", "1.1", True), ("1.1", "1.2", False), ("2", "1", False), ("1", "2", False)],
)
def test_versions(implemented: str, emitted: str, runs: bool) -> None:
    assert FusedKind("k", implemented).runs(FusedKind("k", emitted)) is runs
    assert not FusedKind("other", implemented).runs(FusedKind("k", emitted))


def test_one_object_is_all_there_is_to_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = FusedKind("acme.swish", "1.3", ("Sigmoid",), body="a value with its own gate", operands="the value")

    def grow(node: Node) -> Iterator[Region]:
        yield Region((node, node.output.consumers[0]), node)

    pack = RulePack("acme", "1", (FuseRule("acme.rule", kind, grow, frozenset(kind.anchors)),))
    assert pack.kinds == (kind,)
    monkeypatch.setattr(registries, "default_registry", lambda: Registry.of(rule_packs=[pack]))
    printed = CliRunner().invoke(command, ["--kinds"])
    assert "| `acme.swish` | 1.3 | a value with its own gate | the value | Sigmoid |" in printed.output
    assert "makes 'acme.swish'" in CliRunner().invoke(command, ["acme.rule"]).output
    assert "`acme.swish`" in table((*STANDARD, kind))


def test_the_kit_holds_rules_to_their_kind() -> None:
    def grow(node: Node) -> Iterator[Region]:
        for user in node.output.consumers[:1]:
            yield Region((node, user), node)

    kind = FusedKind("bad.kind", anchors=("Softmax",), classes=frozenset())
    rule = FuseRule("bad.rule", kind, grow, frozenset({"Softmax"}), doc="Before: a\nAfter: b")

    class Seeded(RulePackTests):
        @classmethod
        def subject(cls) -> RulePack:
            return RulePack("bad", "1", (rule,))

    with pytest.raises(AssertionError, match="has no place for"):
        Seeded().test_bodies_keep_to_their_kind("bad.rule")
