"""Static checks of a rule pack, made once when it is loaded: a misspelt name is found before any model is.

A rule that names an operator which does not exist never fires, and one that reads a variable which its pattern does not
bind fails on the first model that matches. Both are found here, without a model.
"""

from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from autofusion.errors import nearest
from autofusion.ir import operators
from autofusion.kinds import STANDARD, FusedKind, find
from autofusion.rules import pattern as p
from autofusion.rules.level import Level
from autofusion.rules.rule import FuseRule, RewriteRule, RulePack, Stage

_LOOKUPS = {"array": "value", "node": "node"}
"""Methods of Match that need a bound name, and what kind of name it is."""


def problems(pack: RulePack) -> list[str]:
    """Everything that is wrong with the pack's rules, as sentences; empty if nothing is."""
    found: list[str] = []
    for index, rule in enumerate(pack.rules):
        if not isinstance(rule, RewriteRule | FuseRule):
            found.append(f"entry {index} of pack '{pack.name}' is of type {type(rule).__name__}, expected a rule")
    if found:
        return found
    for name, count in Counter(rule.name for rule in pack.rules).items():
        if count > 1:
            found.append(f"{count} rules of pack '{pack.name}' have the name '{name}'")
        if not name.startswith(f"{pack.name}.") or name == f"{pack.name}.":
            found.append(f"rule '{name}' must have a name that begins with '{pack.name}.'")
    for rule in pack.rules:
        if not isinstance(rule.stage, Stage) or not isinstance(rule.level, Level):
            what = f"stage {rule.stage!r} and level {rule.level!r}, expected members of Stage and Level"
            found.append(f"rule '{rule.name}' has {what}")
        made = _rewrite_problems(rule) if isinstance(rule, RewriteRule) else _fuse_problems(rule, pack)
        found += [f"rule '{rule.name}' {problem}" for problem in made]
    return found


def _unknown_operator(name: str) -> str:
    """A complaint if ``name`` is an operator of the default domain without a schema; other domains are their own."""
    if "::" in name or operators.find(name) is not None:
        return ""
    return f"names the operator '{name}', which does not exist{nearest(name, operators.known_names())}"


def _rewrite_problems(rule: RewriteRule) -> Iterator[str]:
    values: set[str] = set()
    nodes: set[str] = set()
    for part in p.walk(rule.pattern):
        if isinstance(part, p.Var | p.Const):
            values.add(part.name)
        if isinstance(part, p.Repeat) and not 0 <= part.low <= part.high:
            yield f"repeats '{part.name}' from {part.low} to {part.high} times"
        if isinstance(part, p.Optional | p.Repeat):
            inner = part.inner if isinstance(part, p.Optional) else part.step
            if not 0 <= part.through < max(1, len(inner.inputs)):
                yield f"continues through operand {part.through} of '{'/'.join(inner.ops)}', which its pattern lacks"
        if isinstance(part, p.Op):
            nodes |= {part.name} - {""}
            yield from _op_problems(part)
    for name in sorted(values & nodes):
        yield f"uses '{name}' both for a value and for a node"
    for kind, name in _names_read(rule.rewrite, values, nodes):
        bound = nodes if kind == "node" else values
        if name not in bound:
            yield f"reads the {kind} '{name}', which its pattern does not bind{nearest(name, bound)}"


def _op_problems(part: p.Op) -> Iterator[str]:
    if not part.ops:
        yield "has a pattern node without an operator"
    for name in part.ops:
        complaint = _unknown_operator(name)
        if complaint:
            yield complaint
    schemas = [s for s in map(operators.find, part.ops) if s is not None]
    for attribute, _ in part.attrs:
        if schemas and not any(attribute in schema.attributes for schema in schemas):
            known = [a for schema in schemas for a in schema.attributes]
            names = "/".join(part.ops)
            yield f"asks for attribute '{attribute}', which '{names}' does not have{nearest(attribute, known)}"


def _fuse_problems(rule: FuseRule, pack: RulePack) -> Iterator[str]:
    if not rule.roots and not rule.root_classes:
        yield "has neither roots nor root classes, so it would never be asked"
    if not isinstance(rule.kind, FusedKind):
        yield f"has a kind of type {type(rule.kind).__name__}, expected a FusedKind"
    else:
        yield from _kind_problems(rule.kind, pack)
    for name in sorted(rule.roots):
        complaint = _unknown_operator(name)
        if complaint:
            yield complaint


def _kind_problems(kind: FusedKind, pack: RulePack) -> Iterator[str]:
    standard = find(STANDARD, kind.name)
    if standard is not None and kind is not standard and kind.anchors != standard.anchors:
        yield f"emits another kind '{kind.name}' than core's; a kind of its own begins with '{pack.name}.'"
    if not kind.is_numbered:
        yield f"emits kind '{kind.name}' in version '{kind.version}', expected a number as 1 or 1.2"
    for name in (*kind.anchors, *kind.inner):
        complaint = _unknown_operator(name)
        if complaint:
            yield f"emits kind '{kind.name}', which {complaint}"


def _names_read(function: Callable[..., Any], values: set[str], nodes: set[str]) -> Iterator[tuple[str, str]]:
    """("value" or "node", name) for each ``match["x"]``, ``match.array("x")``, ``match.node("x")`` in ``function``;
    none where each text in it is one of the ``values``, and of the ``nodes`` if it asks for nodes: all is right then.

    Read off the byte code of the function itself, where the match is the first argument: a lambda has no source of its
    own. ``match.get`` is left alone, since it is meant for names that may be unbound.
    """
    code = getattr(function, "__code__", None)
    if code is None or not code.co_argcount:
        return
    texts = {text for text in code.co_consts if isinstance(text, str)} - {function.__doc__}
    if texts <= (values & nodes if "node" in code.co_names else values):
        return
    match = code.co_varnames[0]
    steps = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "PRECALL", "PUSH_NULL")]
    for first, second, third in zip(steps, steps[1:], steps[2:], strict=False):
        if not first.opname.startswith("LOAD_FAST") or first.argval != match:
            continue
        if second.opname == "LOAD_CONST" and isinstance(second.argval, str) and third.opname == "BINARY_SUBSCR":
            yield "value", second.argval
        if second.opname in ("LOAD_METHOD", "LOAD_ATTR") and second.argval in _LOOKUPS and third.opname == "LOAD_CONST":
            yield _LOOKUPS[second.argval], third.argval
