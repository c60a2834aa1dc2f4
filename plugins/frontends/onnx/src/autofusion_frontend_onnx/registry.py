"""The table of converters: how an operator of some version is said in the IR's operators.

An operator without an entry for its version passes through as it is. Other packages add converters for operators of
their own domains as entry points named ``domain::Operator`` (see ``autofusion.plugins.converters``), or, from code,
with ``register_converter``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from autofusion.ir.graph import Value
from autofusion.plugins.converters import Converters

if TYPE_CHECKING:
    from autofusion_frontend_onnx.call import Call

Converter = Callable[["Call"], "Value | Sequence[Value | None]"]
"""Emits IR nodes for one source node, and returns one value for each of its results."""

_TABLE: dict[tuple[str, str], list[tuple[int, Converter | None]]] = {}


def register_converter(
    domain: str, op: str, function: Converter | None, since: int = 1, before: int | None = None
) -> None:
    """Let ``function`` convert ``op`` of ``domain`` ('' is the default one) from opset ``since`` on, until ``before``.

    A later registration for the same range replaces the earlier one.
    """
    entries = _TABLE.setdefault((domain, op), [])
    after = find_converter(domain, op, before) if before is not None else None
    kept = [e for e in entries if e[0] < since or (before is not None and e[0] >= before)]
    kept.append((since, function))
    if before is not None and all(version != before for version, _ in kept):
        kept.append((before, after))
    entries[:] = sorted(kept, key=lambda entry: entry[0])


def converter(
    *ops: str, since: int = 1, before: int | None = None, domain: str = ""
) -> Callable[[Converter], Converter]:
    """Decorator form of ``register_converter``, for one or more operators."""

    def decorate(function: Converter) -> Converter:
        for op in ops:
            register_converter(domain, op, function, since, before)
        return function

    return decorate


def find_converter(domain: str, op: str, version: int) -> Converter | None:
    """The converter for ``op`` at ``version``, or None if it passes through."""
    entries = _TABLE.get((domain, op))
    if not entries:
        return added().find(f"{domain}::{op}") if domain else None
    at = bisect_right([since for since, _ in entries], version) - 1
    return entries[at][1] if at >= 0 else None


@cache
def added() -> Converters:
    """The converters of other packages."""
    return Converters("onnx")
