"""Operator converters that other packages add to a frontend: one entry point an operator, loaded when a model needs it.

A model with one operator that a frontend does not know should need neither a new frontend nor a change to this one. A
package states, in its pyproject.toml::

    [project.entry-points."autofusion.converters.tensorflow"]
    Softshrink = "my_package.converters:softshrink"

The name is the operator's, the value a function with the signature that the frontend documents for its own converters.
Since the operator is the entry point's name, it can be found, and named in messages, without importing anything; a
package is imported when a model has its operator, and one that fails stops that model only. As with other plugins, a
distribution states the range of core versions that it works with, a lock pins it, and of two that provide one operator
neither is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from autofusion._version import __version__
from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.forks import RenewedLock
from autofusion.hooks import CONVERTER_GROUP
from autofusion.plugins.discovery import (
    SUBSET,
    Installed,
    incompatible,
    installed,
    pinned,
    selected,
    without_conflicts,
)
from autofusion.plugins.records import LOG, PluginRecord, Status, describe


class InstalledConverters:
    """The converters that installed distributions add to the frontend called ``frontend``. Thread-safe.

    ``AUTOFUSION_PLUGINS`` (in ``environ``, by default the process's) selects by operator or distribution name, as it
    does for other plugins. ``pins`` (distribution -> version, from a lock) leaves out what it does not name.
    """

    def __init__(
        self, frontend: str, environ: Mapping[str, str] | None = None, pins: Mapping[str, str] | None = None
    ) -> None:
        self.frontend = frontend
        self._pins = pins
        self._environ = os.environ if environ is None else environ
        self._lock = RenewedLock()
        self._points: dict[str, Installed] | None = None
        self._records: list[PluginRecord] = []
        self._loaded: dict[str, Callable[..., Any]] = {}

    @property
    def group(self) -> str:
        """The entry-point group."""
        return CONVERTER_GROUP + self.frontend

    @property
    def names(self) -> list[str]:
        """The operators that have a converter which may be loaded, sorted; nothing is imported."""
        return sorted(self._found())

    @property
    def records(self) -> list[PluginRecord]:
        """What became of each entry point so far; one that no model has needed yet counts as loaded."""
        with self._lock:
            found = self._found()
            return sorted([*self._records, *(p.record for p in found.values())], key=lambda r: (r.name, r.dist))

    def find(self, operator: str) -> Callable[..., Any] | None:
        """The converter for ``operator``, imported now if it was not yet; None if there is none, or it failed."""
        with self._lock:
            point = self._found().get(operator)
            if point is None or operator in self._loaded:
                return self._loaded.get(operator)
            try:
                function = point.entry_point.load()
                if not callable(function):
                    raise TypeError(f"'{point.entry_point.value}' is a {type(function).__name__}, not a function")
            except PLUGIN_FAULTS as error:
                require_own(error)
                self._fail(point.record.ended(Status.FAILED, describe(error)))
                del self._found()[operator]
                return None
            self._loaded[operator] = function
            return self._loaded[operator]

    def failure(self, operator: str) -> str:
        """Why the converter for ``operator`` cannot be used; empty if it can, or if there is none."""
        with self._lock:
            self._found()
            return next((str(r) for r in self._records if r.name == operator), "")

    def _found(self) -> dict[str, Installed]:
        with self._lock:
            if self._points is None:
                self._points = self._discover()
            return self._points

    def _discover(self) -> dict[str, Installed]:
        records: list[PluginRecord] = []
        points = selected(installed([self.group]), self._environ.get(SUBSET), [])
        points = without_conflicts(pinned(points, self._pins, records), records)
        usable = {}
        for point in points:
            refusal = incompatible(point.requires, __version__)
            if refusal is not None:
                records.append(point.record.ended(Status.INCOMPATIBLE, refusal.reason))
            else:
                usable[point.name] = point
        for record in records:
            self._fail(record)
        return usable

    def _fail(self, record: PluginRecord) -> None:
        self._records.append(record)
        LOG.warning("converter not loaded: %s", record)
