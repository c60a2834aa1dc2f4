"""The table of converters of a frontend: what each operator of its format means in the IR's operators.

A converter is a function from a ``Call`` to the results of the operator. Other packages add converters to a frontend
from outside (``LoadOptions.converters``). They are looked for where the table has none, so that what is installed
never changes what a known operator means.
"""

from __future__ import annotations

import importlib
import pkgutil
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

from autofusion.errors import UnsupportedOperatorError, nearest
from autofusion.forks import RenewedLock
from autofusion.frontends.contract import Converter, Converters
from autofusion.hooks import CONVERTER_GROUP

_FILLING = RenewedLock()
"""Held while a table imports its converters, which register themselves: other threads must not see half a table."""


class ConverterTable:
    """The converters of the frontend called ``frontend``, by operator and, where a format has them, operator version.

    ``converter`` registers; all modules of ``package`` are imported for that when the table is first asked.
    ``extended`` gives the same table with what other packages add, for one model. Thread-safe once it is filled.
    """

    def __init__(self, frontend: str, package: str = "") -> None:
        self.frontend = frontend
        self.package = package
        self.added: Converters | None = None
        self._entries: dict[str, list[tuple[int, Converter | None]]] = {}
        self._outputs: dict[str, tuple[str, ...]] = {}

    # ---- registration --------------------------------------------------------------------------------------

    def converter(
        self, *operators: str, since: int = 1, before: int | None = None, outputs: Sequence[str] = ()
    ) -> Callable[[Converter], Converter]:
        """Register the decorated function for one or more operators, as ``register`` does.

        ``outputs`` are the names of their results, for formats that call them by name.
        """

        def decorate(function: Converter) -> Converter:
            for operator in operators:
                self.register(operator, function, since, before)
                if outputs:
                    self._outputs[operator] = tuple(outputs)
            return function

        return decorate

    def register(self, operator: str, function: Converter | None, since: int = 1, before: int | None = None) -> None:
        """Let ``function`` convert ``operator`` from version ``since`` on, until ``before``; None: it needs none.

        A later registration for the same range replaces the earlier one.
        """
        entries = self._entries.setdefault(operator, [])
        after = self._own(operator, before) if before is not None else None
        kept = [e for e in entries if e[0] < since or (before is not None and e[0] >= before)]
        kept.append((since, function))
        if before is not None and all(version != before for version, _ in kept):
            kept.append((before, after))
        entries[:] = sorted(kept, key=lambda entry: entry[0])

    def extended(self, added: Converters | None) -> ConverterTable:
        """This table and ``added``."""
        self._fill()
        table = ConverterTable(self.frontend)
        table.added, table._entries, table._outputs = added, self._entries, self._outputs
        return table

    # ---- lookup --------------------------------------------------------------------------------------------

    def __contains__(self, operator: str) -> bool:
        """True if the operator has a converter for some version; nothing is imported."""
        self._fill()
        return operator in self._entries or (self.added is not None and operator in self.added.names)

    def find(self, operator: str, version: int = 1) -> Converter | None:
        """The converter for ``operator`` at ``version``; None if there is none, or one that is added failed."""
        self._fill()
        if operator in self._entries:
            return self._own(operator, version)
        return self.added.find(operator) if self.added is not None else None

    def is_added(self, operator: str) -> bool:
        """True if another package converts the operator."""
        return operator in self and operator not in self._entries

    def output_names(self, operator: str) -> Sequence[str] | None:
        """The names of the operator's results, where its converter states them."""
        self._fill()
        if operator in self._entries:
            return self._outputs.get(operator)
        found: Sequence[str] | None = getattr(self.find(operator), "outputs", None)
        return found

    def unknown(self, nodes: Iterable[tuple[str, str]], advice: str = "") -> UnsupportedOperatorError:
        """The error for operators without a converter: names them all, their nodes, their like, and how to add one.

        ``nodes`` are (operator, name of a node) pairs; ``advice`` is what else to do, as a sentence without its end.
        """
        found = by_operator(nodes)
        failures = {op: self.added.failure(op) if self.added is not None else "" for op in found}
        known = {*self._entries, *(self.added.names if self.added is not None else ())}
        if len(found) == 1:
            ((op, names),) = found.items()
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            text = f"node '{names[0]}'{more} is of operator '{op}', "
            if failures[op]:
                text += f"whose converter cannot be used: {failures[op]}"
            else:
                text += f"which the {self.frontend} frontend does not know{nearest(op, known)}"
        else:
            hints = {op: failures[op] or nearest(op, known).removeprefix("; ") for op in found}
            text = f"these operators of the model have no converter: {listed(found, hints)}"
        if not all(failures.values()):
            text += (
                f"{'' if text.endswith('?') else '.'} To add one, install a package with a converter for it: an entry "
                f"point with the operator's name in the group '{CONVERTER_GROUP}{self.frontend}', whose value is a "
                "function that emits the operator's meaning (contrib/ has an example)"
            )
        return UnsupportedOperatorError(f"{text}. {advice}" if advice else text)

    def _fill(self) -> None:
        with _FILLING:
            package, self.package = self.package, ""
            if package:
                folder = importlib.import_module(package).__path__
                for module in pkgutil.walk_packages(folder, f"{package}."):
                    importlib.import_module(module.name)

    def _own(self, operator: str, version: int) -> Converter | None:
        entries = self._entries.get(operator, [])
        at = bisect_right([since for since, _ in entries], version) - 1
        return entries[at][1] if at >= 0 else None


def by_operator(nodes: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names of nodes by operator, in the order of operators."""
    found: dict[str, list[str]] = {}
    for operator, name in nodes:
        found.setdefault(operator, []).append(name)
    return dict(sorted(found.items()))


def listed(nodes: Mapping[str, Sequence[str]], hints: Mapping[str, str]) -> str:
    """``Foo ('first' and 2 more), Bar ('other'; HINT)``, of operators and the names of their nodes."""
    texts = []
    for operator, names in nodes.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        hint = f"; {hints[operator]}" if hints.get(operator) else ""
        texts.append(f"{operator} ('{names[0]}'{more}{hint})")
    return ", ".join(texts)
