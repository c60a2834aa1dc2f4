"""What happens to a model that does not run here: the real onnxruntime takes it, and one warning says why."""

from __future__ import annotations

import os
import warnings
from typing import Any

from autofusion.onnxruntime import errors
from autofusion.onnxruntime.options import SessionOptions
from autofusion.onnxruntime.real import real
from autofusion.plugins.discovery import STRICT


class FallbackWarning(UserWarning):
    """The real onnxruntime runs a model."""


class Fallback:
    """The real onnxruntime's session of one model, made when it is first needed."""

    def __init__(self, source: str | bytes, options: SessionOptions) -> None:
        self._source = source
        self._options = options
        self._session: Any = None

    def session(self) -> Any:
        """The session; None if ``AUTOFUSION_STRICT`` forbids it, or there is no onnxruntime.

        Raises what it raises, as the exception of the same name here: then the model, or its file, is at fault.
        """
        if os.environ.get(STRICT, "") not in ("", "0"):
            return None
        if self._session is None:
            package = real()
            if package is None:
                return None
            try:
                self._session = package.InferenceSession(
                    self._source, _translated(package, self._options), providers=["CPUExecutionProvider"]
                )
            except Exception as error:
                errors.raise_ours(error)
        return self._session

    def warn(self, reason: str) -> None:
        """Say once that the real onnxruntime has taken over."""
        name = "given as bytes" if isinstance(self._source, bytes) else f"'{self._source}'"
        warnings.warn(
            f"the real onnxruntime runs the model {name}: {reason} ({STRICT}=1 makes this an error)",
            FallbackWarning,
            stacklevel=5,
        )


def _translated(package: Any, options: SessionOptions) -> Any:
    """The options for the real package; raise AttributeError if it is too old for one that was stated."""
    made = package.SessionOptions()
    for name, value in options.stated().items():
        own = {
            "graph_optimization_level": "GraphOptimizationLevel",
            "execution_mode": "ExecutionMode",
            "execution_order": "ExecutionOrder",
        }
        setattr(made, name, getattr(getattr(package, own[name]), value.name) if name in own else value)
    for method, arguments in options.calls:
        getattr(made, method)(*(getattr(each, "_value", each) for each in arguments))
    return made
