"""The error tree: one root that callers catch, one class for each party that can act on it.

Every message names the thing in quotes, says what was expected and what was found, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable


class AutofusionError(Exception):
    """Root of all errors that Autofusion raises on purpose."""


class ModelError(AutofusionError):
    """The model file cannot be read, or says something that its format does not allow."""


class UnsupportedOperatorError(ModelError):
    """The model uses an operator that no installed frontend, schema or kernel knows."""


class GraphError(AutofusionError):
    """A graph breaks an invariant of the IR (found by ``verify`` or while editing)."""


class ShapeError(GraphError):
    """The operand types of a node do not fit its operator."""


class InputError(AutofusionError):
    """The caller passed a wrong input: name, dtype or shape."""


class OptionError(AutofusionError):
    """An option, rule, kernel or level name is unknown or has a wrong value."""


class PluginError(AutofusionError):
    """A plugin is missing, broken, or breaks its contract."""


class KernelError(AutofusionError):
    """A kernel cannot run what it offered, or no kernel runs a node."""


class SizeWarning(UserWarning):
    """A model names dims that turn out to have different sizes alike; the run goes on."""


class PackWarning(UserWarning):
    """An artefact is used without packs that it was compiled with."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'a' or 'b'?"`` for names of ``known`` that ``name`` may be a slip of, else nothing.

    A slip is one edit (a letter too many, missing, wrong, or exchanged with the next; case does not count), and one
    more for every four letters from the eighth on. Names that merely look similar are those of something else.
    """
    found = []
    for other in set(known):
        shorter, longer = sorted((len(name), len(other)))
        most = min(max(1, shorter // 4), longer - 1)
        if longer - shorter <= most:
            edits = _edits(name.casefold(), other.casefold(), most)
            if edits <= most:
                found.append((edits, other))
    close = [repr(other) for _, other in sorted(found)[:3]]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _edits(a: str, b: str, most: int) -> int:
    """The edit distance in which exchanging neighbours is one edit (optimal string alignment); it may stop at a number
    above ``most``.
    """
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


def known_name(name: str, known: Iterable[str], what: str) -> None:
    """Raise OptionError, with the nearest of ``known``, if ``name`` is not one of them."""
    names = sorted(known)
    if name not in names:
        some = f"; there are {', '.join(names[:12])}{'...' if len(names) > 12 else ''}" if names else "; there are none"
        raise OptionError(f"'{name}' is not the name of a {what}{nearest(name, names) or some}")
