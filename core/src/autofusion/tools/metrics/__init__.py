"""End-to-end metrics: what a model is good for, as one number over a data set. Higher is better.

Libraries that count characters or match boxes are optional: ``pip install autofusion[metrics]``.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from autofusion.errors import OptionError, nearest
from autofusion.plugins.records import describe

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""``module:function``."""

Arrays = Mapping[str, Any]


class Metric(Protocol):
    """Takes one sample after the other, then says its value."""

    name: str

    def add(self, outputs: Arrays, targets: Arrays) -> None:
        """Count a sample: the model's outputs by name, and what the data set says about it."""
        ...

    def value(self) -> float:
        """The metric over all samples so far, from 0 (useless) to 1 (perfect) for the metrics that come with us."""
        ...


class FunctionMetric:
    """The mean of a user's function ``(outputs, targets) -> float`` over the samples."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._function: Callable[[Arrays, Arrays], float] = load_function(name)
        self._scores: list[float] = []

    def add(self, outputs: Arrays, targets: Arrays) -> None:
        """Count a sample; OptionError if the function raises, or returns no number."""
        try:
            self._scores.append(float(self._function(outputs, targets)))
        except Exception as error:
            raise OptionError(
                f"metric '{self.name}' failed: {describe(error)}; expected a function (outputs, targets) -> number"
            ) from error

    def value(self) -> float:
        """The mean."""
        return float(np.mean(self._scores)) if self._scores else 0.0


def load_function(name: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; OptionError if there is none."""
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise OptionError(
            f"cannot load '{name}': {error}; expected MODULE:FUNCTION that can be imported here"
        ) from error
    if not callable(function):
        raise OptionError(f"'{name}' is a {type(function).__name__}, not a function")
    loaded: Callable[..., Any] = function
    return loaded


NAMES = ("top1", "top5", "map", "characters")


def make_metric(name: str, *, charset: Sequence[str] = (), decode: str = "") -> Metric:
    """The metric called ``name``, or the user's ``module:function``.

    ``charset`` are the characters of a text recogniser's classes after the blank, ``decode`` is the function
    (``module:function``) that makes boxes of a detector's outputs. Raises OptionError for an unknown name.
    """
    if name in ("top1", "top5"):
        from autofusion.tools.metrics.classification import TopK

        return TopK(name, int(name[3:]))
    if name == "characters":
        from autofusion.tools.metrics.characters import Characters

        return Characters(charset)
    if name == "map":
        from autofusion.tools.metrics.detection import MeanAveragePrecision

        return MeanAveragePrecision(load_function(decode) if decode else None)
    if FUNCTION.fullmatch(name):
        return FunctionMetric(name)
    raise OptionError(f"unknown metric '{name}': expected {', '.join(NAMES)} or MODULE:FUNCTION{nearest(name, NAMES)}")


def target(targets: Arrays, name: str, metric: str) -> np.ndarray:
    """The target called ``name``; OptionError if the data set has none."""
    if name not in targets:
        have = ", ".join(f"'{n}'" for n in targets) or "none"
        raise OptionError(f"metric '{metric}' needs an array '{name}' in each sample beside the inputs; found {have}")
    return np.asarray(targets[name])
