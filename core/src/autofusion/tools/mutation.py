"""Mutants of a module: its source with one condition, one attribute or one guard taken away.

A test that nobody has seen fail says little. A mutant that passes all tests of its pack is either the same by meaning,
which the author says in a comment on the line or on the one above (``# same without: NumPy broadcasts anyway``), or
something that the tests would not notice if it were wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SAME = re.compile(r"#\s*same without:\s*(.+)")
_SAYS_NOTHING = frozenset({"doc", "hint", "level", "name", "portable", "priority", "stage", "strict", "version", "key"})
"""Keywords that change what is told or in which order things are tried, not what is computed."""
_STATEMENTS = frozenset(
    {"errstate", "RewriteRule", "FuseRule", "RulePack", "FusedKind", "Refusal", "isinstance", "zip"}
)
"""Calls whose keywords are left alone."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module; ``same`` is the author's reason why the meaning is the same, if there is one."""

    module: str
    line: int
    function: str
    change: str
    same: str
    _source: str
    _index: int
    _apply: Callable[[ast.AST], None]

    def tree(self) -> ast.Module:
        """The changed module."""
        tree = ast.parse(self._source)
        self._apply(next(node for at, node in enumerate(ast.walk(tree)) if at == self._index))
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        return f"{self.module}:{self.line} in {self.function}: {self.change}"


def mutants_of(source: str, module: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    lines = source.splitlines()
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    skipped = _not_mutated(tree)
    made: list[Mutant] = []
    for index, node in enumerate(ast.walk(tree)):
        if node in skipped:
            continue
        for what, apply in _changes(node):
            line = node.target.lineno if isinstance(node, ast.comprehension) else node.lineno  # type: ignore[attr-defined]
            around = [f for f in functions if f.lineno <= line <= (f.end_lineno or f.lineno)]
            inside = max(around, key=lambda f: f.lineno).name if around else "the module"
            said = [SAME.search(lines[at]) for at in (line - 1, line - 2) if 0 <= at < len(lines)]
            same = next((found[1].strip() for found in said if found is not None), "")
            made.append(Mutant(module, line, inside, what, same, source, index, apply))
    yield from sorted(made, key=lambda mutant: mutant.line)


def _not_mutated(tree: ast.AST) -> set[ast.AST]:
    """Nodes of asserts, of messages, and of what only type checkers read."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        checked_only = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        message = isinstance(node, ast.Call) and _called(node) in ("Refusal", "arrow")
        if isinstance(node, ast.Assert | ast.JoinedStr) or checked_only or message:
            found.update(ast.walk(node))
        if isinstance(node, ast.FunctionDef | ast.AnnAssign | ast.arg):
            found.update(n for part in _annotations(node) for n in ast.walk(part))
    return found


def _annotations(node: ast.FunctionDef | ast.AnnAssign | ast.arg) -> list[ast.AST]:
    part = node.returns if isinstance(node, ast.FunctionDef) else node.annotation
    return [] if part is None else [part]


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else text[:67] + "..."


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    if isinstance(node, ast.BoolOp):
        for index, value in enumerate(node.values):
            word = "and" if isinstance(node.op, ast.And) else "or"
            yield f"without '{_text(value)}' of an '{word}'", _dropper("values", index)
    elif isinstance(node, ast.If):
        guard = isinstance(node.body[-1], ast.Return | ast.Continue | ast.Raise | ast.Break) and not node.orelse
        what = f"without the guard '{_text(node.test)}'" if guard else f"'{_text(node.test)}' always holds"
        yield what, _setter("test", not guard)
    elif isinstance(node, ast.IfExp):
        yield f"'{_text(node.test)}' always holds", _setter("test", True)
        yield f"'{_text(node.test)}' never holds", _setter("test", False)
    elif isinstance(node, ast.comprehension):
        for index, test in enumerate(node.ifs):
            yield f"without the condition '{_text(test)}'", _dropper("ifs", index)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Compare):
        yield f"'{_text(node.value)}' always holds", _setter("value", True)
    elif isinstance(node, ast.Call) and _called(node) not in _STATEMENTS:
        yield from _of_call(node)
    elif isinstance(node, ast.Dict) and all(k is None or isinstance(k, ast.Constant) for k in node.keys):
        for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            what = f"**{_text(value)}" if key is None else _text(key)
            yield f"without entry {what}", _dropper("keys values", index)


def _of_call(node: ast.Call) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in _SAYS_NOTHING:
            yield f"without '{keyword.arg}' of '{_text(node.func)}'", _dropper("keywords", index)
    if _called(node) == "const" and len(node.args) > 1:
        yield f"without the number of '{_text(node)}'", _dropper("args", 1)


def _setter(field: str, value: bool) -> Callable[[ast.AST], None]:
    return lambda node: setattr(node, field, ast.Constant(value))


def _dropper(fields: str, index: int) -> Callable[[ast.AST], None]:
    def drop(node: ast.AST) -> None:
        for field in fields.split():
            items = list(getattr(node, field))
            del items[index]
            setattr(node, field, items)

    return drop
