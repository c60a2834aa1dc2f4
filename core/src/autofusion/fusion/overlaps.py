"""Where rules of different packs meet, and which of them has its turn first: told when a pack is installed.

Two rules overlap if they may start at the same node: rewrite rules of one stage whose patterns can both match there,
fuse rules that share a root. What a fuse rule grows into is only known on a model; there the ledger tells who lost a
node to whom. Rules of one pack are its author's business.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autofusion.fusion.rule_switches import BoundRule, Switches
from autofusion.ir import operators
from autofusion.kernels.contract import KernelPack
from autofusion.kinds import find
from autofusion.options import Options
from autofusion.rules.pattern import Const, Either, Op, Operand, Optional, Repeat, Var, roots_of
from autofusion.rules.priority import priority_text
from autofusion.rules.rule import FuseRule, RewriteRule, RulePack

_DEPTH = 6
"""Patterns that agree this far down are taken to overlap."""
_SHOWN = 4
_GENERAL = 12
"""Rules that may start at more operators than this look at something else than operators."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """``first`` has its turn before ``second`` at nodes of ``ops``; ``why`` says what decides that.

    For fuse rules of the same priority nothing decides it beforehand: each site goes to the rule that saves more.
    """

    first: str
    second: str
    ops: tuple[str, ...]
    why: str
    decided: bool
    """The rules' priorities decide, so that somebody has thought of it."""

    def __str__(self) -> str:
        some = ", ".join(self.ops[:_SHOWN]) + (f" and {len(self.ops) - _SHOWN} more" if len(self.ops) > _SHOWN else "")
        return f"{self.first} overlaps {self.second} on {some}; precedence: {self.why}"


@dataclass(frozen=True, slots=True)
class Unserved:
    """A rule whose fused kind, in the version that it emits, no kernel pack but the reference implements."""

    rule: str
    kind: str
    version: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule} emits kind '{self.kind}' version {self.version}: {self.reason}"


def overlaps(packs: Sequence[RulePack], priorities: Mapping[str, int | str] | None = None) -> list[Overlap]:
    """Every pair of rules of different packs that may start at the same node, but for rules that start anywhere."""
    found = []
    bound = Switches(packs, Options(priorities=priorities or {})).rules()
    for a, b in itertools.combinations(bound, 2):
        if a.pack.name == b.pack.name or a.rule.stage is not b.rule.stage or _is_general(a) or _is_general(b):
            continue
        ops = tuple(sorted(_shared(a, b)))
        if ops:
            found.append(Overlap(a.rule.name, b.rule.name, ops, _why(a, b), a.priority != b.priority))
    return found


def unserved(packs: Sequence[RulePack], kernel_packs: Sequence[KernelPack]) -> list[Unserved]:
    """Fuse rules that can never fuse with these kernel packs: skipped and recorded at each site, never an error."""
    found = []
    for rule in (r for pack in packs for r in pack.rules if isinstance(r, FuseRule)):
        reasons = []
        for pack in kernel_packs:
            kind = find(pack.kinds, rule.kind.name)
            if kind is not None and kind.runs(rule.kind):
                break
            if kind is not None:
                reasons.append(f"pack '{pack.name}' {pack.version} has version {kind.version}")
        else:
            told = "; ".join(reasons) or "no installed kernel pack has the kind"
            found.append(Unserved(rule.name, rule.kind.name, rule.kind.version, told))
    return found


def _is_general(bound: BoundRule) -> bool:
    rule = bound.rule
    return isinstance(rule, RewriteRule) and any(len(root.ops) > _GENERAL for root in roots_of(rule.pattern))


def _why(a: BoundRule, b: BoundRule) -> str:
    if a.priority != b.priority:
        bands = f"{priority_text(a.priority)} before {priority_text(b.priority)}"
        return f"{a.rule.name} first ({bands})"
    if isinstance(a.rule, FuseRule):
        return f"whichever saves more at a site (both {priority_text(a.priority)})"
    return f"{a.rule.name} first (both {priority_text(a.priority)}, packs by name)"


def _shared(a: BoundRule, b: BoundRule) -> set[str]:
    """Operators at which both rules may start."""
    if isinstance(a.rule, FuseRule) and isinstance(b.rule, FuseRule):
        return _roots(a.rule) & _roots(b.rule)
    if not (isinstance(a.rule, RewriteRule) and isinstance(b.rule, RewriteRule)):
        return set()
    pairs = itertools.product(roots_of(a.rule.pattern), roots_of(b.rule.pattern))
    return {op for x, y in pairs for op in set(x.ops) & set(y.ops) if _agree(x, y, _DEPTH)}


def _roots(rule: FuseRule) -> set[str]:
    by_class = (n for n in operators.known_names() if (s := operators.find(n)) and s.op_class in rule.root_classes)
    return set(rule.roots) | set(by_class)


def _agree(a: Operand, b: Operand, depth: int) -> bool:
    """True if some value may match both patterns, as far as their operators, constants and attributes tell."""
    if depth == 0:
        return True
    if isinstance(a, Either):
        return any(_agree(each, b, depth) for each in a.alternatives)
    if isinstance(a, Optional):
        return _agree(a.inner, b, depth) or _agree(a.inner.inputs[a.through], b, depth)
    if isinstance(a, Repeat):
        return _agree(a.step, b, depth) or _agree(a.base, b, depth)
    if isinstance(b, Either | Optional | Repeat):
        return _agree(b, a, depth)
    if isinstance(a, Var) or isinstance(b, Var):
        return True
    if isinstance(a, Const) or isinstance(b, Const):
        return isinstance(a, Const) and isinstance(b, Const) and _same_number(a, b)
    if not set(a.ops) & set(b.ops) or _contradict(a, b):
        return False
    if len(a.inputs) != len(b.inputs):
        return a.open_inputs or b.open_inputs
    swaps = len(b.inputs) == 2 and any(map(operators.is_commutative, set(a.ops) & set(b.ops)))
    orders = [b.inputs, b.inputs[::-1]] if swaps else [b.inputs]
    pairs = [list(zip(a.inputs, order, strict=True)) for order in orders]
    return any(all(_agree(x, y, depth - 1) for x, y in each) and _is_computed(each) for each in pairs)


def _is_computed(pairs: Sequence[tuple[Operand, Operand]]) -> bool:
    """False if every operand is a constant to one of the two patterns: such a node has been folded long before."""
    return len(pairs) < 2 or not all(isinstance(x, Const) or isinstance(y, Const) for x, y in pairs)


def _same_number(a: Const, b: Const) -> bool:
    return a.equals is None or b.equals is None or abs(a.equals - b.equals) <= a.rtol * abs(a.equals)


def _contradict(a: Op, b: Op) -> bool:
    """True if both ask for the same attribute, with different values."""
    wanted = dict(b.attrs)
    return any(
        name in wanted and not callable(value) and not callable(wanted[name]) and value != wanted[name]
        for name, value in a.attrs
    )
