"""The conformance tests of a rule pack. An author subclasses ``RulePackTests`` and names the pack's entry point."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from autofusion.cost.model import CostModel, is_free, is_static
from autofusion.errors import PluginError
from autofusion.ir.dtypes import dtype_from_name
from autofusion.ir.graph import FUSED, Graph
from autofusion.ir.text import to_text
from autofusion.options import Options
from autofusion.plugins.registry import default_registry
from autofusion.rules.check import problems
from autofusion.rules.rule import Rule, RulePack
from autofusion.testing import numbers
from autofusion.testing.apply import Applied, apply_rules, run_graph_by_reference, this_target
from autofusion.testing.corpus import corpus
from autofusion.testing.golden import GoldenCase, check_golden
from autofusion.testing.graphs import near_misses, renamed, spellings, with_type
from autofusion.testing.sites import Site, golden_of, sites_of, static_graph
from autofusion.testing.standard import StandardTests
from autofusion.testing.variants import variants
from autofusion.tools.mutate import FOCUS

NO_WORSE = 1.01
"""What a graph may cost with a rule, relative to what it costs without: rounding of the model."""
LAUNCH_SECONDS = 1e-7
"""What each step costs beside its work: a native dispatch, the least there is."""


class RulePackTests(StandardTests):
    """Everything that must hold of a rule pack, whatever its rules are about::

        class TestAcme(RulePackTests):
            plugin = "acme"
            golden = Path(__file__).parent / "golden"

    ``golden`` is a folder of ``.ir`` files (see ``autofusion.testing.golden``). ``dtypes`` are the element types that
    the sites are tried with, where their operators take them. A rule whose sites the kit can neither find in its own
    networks nor make from the pattern needs a golden case.
    """

    group = "autofusion.rules"
    golden: ClassVar[Path | str | None] = None
    dtypes: ClassVar[tuple[str, ...]] = ("f32", "f64", "f16", "bf16")

    @classmethod
    def rule_pack(cls) -> RulePack:
        """The pack under test."""
        pack: RulePack = cls.subject()
        return pack

    @classmethod
    def parameters(cls) -> dict[str, list[Any]]:
        """What the tests run over: the names of the rules, and the golden cases."""
        try:
            rules = [rule.name for rule in cls.rule_pack().rules]
        except PluginError:  # test_plugin_is_loaded says why
            rules = []
        chosen = os.environ.get(FOCUS, "").split(",")
        return {"rule": [r for r in rules if chosen == [""] or r in chosen], "case": golden_of(cls.golden)}

    # ---- the pack as it is -------------------------------------------------------------------------------------

    def test_rules_are_well_formed(self) -> None:
        """Names, operators and attributes exist, patterns bind what the rules read, emitted kinds are stated."""
        assert problems(self.rule_pack()) == []

    def test_documented(self, rule: str) -> None:
        """The rule says what it matches and what comes of it, as text that ``autofusion rules NAME`` shows."""
        doc = self._rule(rule).doc
        assert "Before:" in doc and "After:" in doc, f"rule '{rule}' has no 'Before:' and 'After:' in its doc"

    def test_golden(self, case: GoldenCase) -> None:
        """What the pack makes of the graph, its refusals and its numbers are those that the file states."""
        check_golden(case, [self.rule_pack()], run_graph_by_reference)

    # ---- each rule where it fires ------------------------------------------------------------------------------

    def test_fires(self, rule: str) -> None:
        """There is a graph on which the rule does something, also beside the other rules of its pack."""
        sites = self._sites(rule)
        self.need(
            bool(sites),
            f"rule '{rule}' fires on no golden case, no network of the kit and no graph made from its pattern; "
            "add a golden case where it does",
        )
        self.need(
            any(apply_rules(s.graph, [s.pack]).fired(rule) for s in sites),
            f"rule '{rule}' fires alone, but never beside the other rules of its pack: one of them is always first",
        )

    def test_numbers(self, rule: str) -> None:
        """The result computes what the graph computed, for every element type."""
        for site in self._sites(rule):
            for name in self.dtypes:
                graph = with_type(site.graph, dtype_from_name(name))
                if graph is not None:
                    self._same(site, graph, f"{site} in {name}")

    def test_special_numbers(self, rule: str) -> None:
        """NaN, infinities and zeros of both signs go through as they did."""
        for site in self._sites(rule):
            self._same(site, site.graph, f"{site} with special numbers", special=True)

    def test_bodies_keep_to_their_kind(self, rule: str) -> None:
        """What a fuse rule wraps is what the kind's contract allows: kernels of other packs rely on it."""
        kinds = {kind.name: kind for kind in self.rule_pack().kinds}
        for site in self._sites(rule):
            for node in apply_rules(site.graph, [site.pack]).graph.nodes:
                if node.op == FUSED:
                    misfit = kinds[node.attrs["kind"]].misfit(node.body)
                    assert misfit is None, f"{site}: {misfit.reason}"

    def test_spellings(self, rule: str) -> None:
        """Swapping the operands of a commutative operator changes neither whether the rule fires nor the numbers."""
        for site in self._sites(rule):
            for what, graph in spellings(site.graph):
                applied = self._same(site, graph, f"{site}, {what}")
                assert applied.fired(rule), f"{site} no longer fires: {what}"

    def test_near_misses(self, rule: str) -> None:
        """Another reader, another output, another constant, an overridable one: fused or not, the numbers stay."""
        for site in self._sites(rule):
            for what, graph in near_misses(site.graph):
                self._same(site, graph, f"{site}, {what}")

    def test_variants(self, rule: str) -> None:
        """Another value of any attribute, other integers and shapes of operands: fused or not, the numbers stay."""
        for site in self._sites(rule):
            for what, graph in variants(site.graph):
                self._same(site, graph, f"{site}, {what}", ties=True)

    def test_names_do_not_matter(self, rule: str) -> None:
        """The same graph under other names of nodes and values gives the same result."""
        for site in self._sites(rule):
            ours, theirs = to_text(site.apply().graph), to_text(site.apply(renamed(site.graph)).graph)
            assert ours == theirs, f"{site} makes something else of the same graph under other names"

    def test_repeatable(self, rule: str) -> None:
        """The same graph gives the same result again: rules keep no state."""
        for site in self._sites(rule):
            assert to_text(site.apply().graph) == to_text(site.apply().graph), f"{site} is not repeatable"

    def test_settles(self, rule: str) -> None:
        """Applied to its own result, the pack finds nothing more to do."""
        for site in self._sites(rule):
            once = site.apply()
            twice = site.apply(once.graph)
            assert to_text(once.graph) == to_text(twice.graph), f"{site} goes on changing its own result"

    def test_keeps_origins(self, rule: str) -> None:
        """Every node still says which source nodes it stands for; reports speak in those names."""
        for site in self._sites(rule):
            known = {name for node in site.graph.nodes for name in node.origin}
            for node in site.apply().graph.nodes:
                assert node.origin, f"{site} leaves {node.label} without an origin"
                assert set(node.origin) <= known, f"{site} gives {node.label} origins that the model does not have"

    def test_never_worse(self, rule: str) -> None:
        """By the cost model, what all installed packs make of a graph costs no more with this rule than without it."""
        model = CostModel(this_target())
        for site in self._sites(rule):
            packs = [site.pack, *(p for p in default_registry().rule_packs if p.name != site.pack.name)]
            without = apply_rules(site.graph, packs, Options(disable=frozenset({rule})))
            before, after = _seconds(without.graph, model), _seconds(apply_rules(site.graph, packs).graph, model)
            assert after <= NO_WORSE * before, f"{site}: {after:.3g} s by the cost model, {before:.3g} s without it"

    # ---- the pack where it should do nothing wrong ---------------------------------------------------------------

    def test_networks(self) -> None:
        """On the kit's networks no rule raises, and the numbers stay."""
        pack = self.rule_pack()
        graphs = [(f"network '{g.name}'", g) for g in corpus()]
        graphs += [(f"golden case '{c}'", g) for c in golden_of(self.golden) if (g := static_graph(c)) is not None]
        for title, graph in graphs:
            for what, variant in ((title, graph), *((f"{title}, {w}", g) for w, g in near_misses(graph))):
                _compare(graph=variant, applied=apply_rules(variant, [pack]), what=what)

    # ---- inside --------------------------------------------------------------------------------------------------

    @classmethod
    def _rule(cls, name: str) -> Rule:
        return next(rule for rule in cls.rule_pack().rules if rule.name == name)

    @classmethod
    def _sites(cls, name: str) -> list[Site]:
        key = (cls, name)
        if key not in _found:
            _found[key] = sites_of(cls._rule(name), cls.rule_pack(), golden_of(cls.golden))
        return _found[key]

    def _same(self, site: Site, graph: Graph, what: str, *, special: bool = False, ties: bool = False) -> Applied:
        applied = site.apply(graph)
        _compare(graph, applied, what, special, ties)
        return applied


_found: dict[tuple[type, str], list[Site]] = {}
"""Sites by class and rule: looking for them takes longer than most tests."""


def _compare(graph: Graph, applied: Applied, what: str, special: bool = False, ties: bool = False) -> None:
    """Raise AssertionError unless the rules broke nothing and both graphs give the same numbers."""
    assert not applied.errors, f"{what}: {applied.errors[0]}"
    if not applied.ledger.counts()["fused"]:
        left, found = to_text(_pruned(graph), with_names=True), to_text(applied.graph, with_names=True)
        assert left == found, f"{what}: the rules refused, but the graph has changed"
        return
    inputs = numbers.special_inputs(graph) if special else numbers.ordinary_inputs(graph)
    expected, got = run_graph_by_reference(graph, inputs), run_graph_by_reference(applied.graph, inputs)
    got = [_without_ties(new, old) for new, old in zip(got, expected, strict=True)] if ties else got
    said = numbers.all_differences(got, expected, graph.output_names)
    assert not said, f"{what}: {said}"


def _without_ties(found: Any, expected: Any) -> Any:
    """``found`` with the few bytes that are one off as expected: the last bit of a sum decides how a tie is rounded."""
    new, old = np.asarray(found), np.asarray(expected)
    if new.dtype != old.dtype or new.shape != old.shape or new.dtype not in (np.uint8, np.int8):
        return found
    off = np.abs(new.astype(np.int16) - old.astype(np.int16)) == 1
    return np.where(off, old, new) if off.sum() <= max(1, off.size // 20) else found


def _pruned(graph: Graph) -> Graph:
    copy = graph.copy()
    copy.prune()
    copy.sort()
    return copy


def _seconds(graph: Graph, model: CostModel) -> float:
    nodes = [node for node in graph.nodes if is_static(node) and not is_free(node)]
    return sum(model.price(node, launch_seconds=LAUNCH_SECONDS).total for node in nodes)
