"""The error tree: one root that callers catch, one class for each party that can act on it.

Every message names the thing in quotes, says what was expected and what was found, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

PLUGIN_FAULTS: tuple[type[BaseException], ...] = (Exception, SystemExit)
"""What is caught around a plugin's code: a plugin does not decide when the process ends. An interrupt is the user's."""


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


def nearest(name: str, known: Iterable[str], alike: float = 0.5) -> str:
    """Return ``"; did you mean 'a' or 'b'?"`` for the closest of ``known`` to ``name``, or an empty string.

    ``alike`` (0 to 1) is how close they must be.
    """
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=alike)
    return f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
