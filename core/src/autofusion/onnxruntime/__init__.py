"""The part of onnxruntime's Python interface that applications use, on ``autofusion.compile``.

    python -m autofusion.onnxruntime SCRIPT ARGS...      # an unchanged program, its models run by Autofusion
    import autofusion.onnxruntime as onnxruntime         # or one changed line

Options come from the environment: AUTOFUSION_LEVEL, AUTOFUSION_THREADS, AUTOFUSION_NUMERICS, AUTOFUSION_CONFIG and
AUTOFUSION_LOCK, over what the program says.
"""

from __future__ import annotations

from typing import Any

from autofusion.onnxruntime.binding import IOBinding
from autofusion.onnxruntime.fallback import FallbackWarning
from autofusion.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from autofusion.onnxruntime.session import InferenceSession
from autofusion.onnxruntime.session import available_providers as get_available_providers
from autofusion.onnxruntime.signature import ModelMetadata, NodeArg
from autofusion.onnxruntime.values import OrtDevice, OrtValue

__version__ = "1.20.0"
"""The version of onnxruntime whose interface this is: programs ask for a least version."""
__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "FallbackWarning",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "get_version_string",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]

SessionIOBinding = IOBinding
get_all_providers = get_available_providers


def get_device() -> str:
    """``CPU``."""
    return "CPU"


def get_version_string() -> str:
    """The version of onnxruntime whose interface this is."""
    return __version__


def set_default_logger_severity(severity: int) -> None:
    """How much is logged: 0 (everything) to 4 (what is fatal). Python's logger ``autofusion`` takes it over."""
    import logging

    if not isinstance(severity, int) or not 0 <= severity <= 4:
        raise RuntimeError(f"Invalid logging severity {severity!r}; expected 0 to 4")
    logging.getLogger("autofusion").setLevel((severity + 1) * 10)


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted: the logger has no levels below its lowest."""


def set_seed(seed: int) -> None:
    """Accepted: operators that draw random numbers state their own seeds."""


def enable_telemetry_events() -> None:
    """Accepted: nothing is ever sent."""


def disable_telemetry_events() -> None:
    """Accepted: nothing is ever sent."""


def preload_dlls(*args: Any, **kwargs: Any) -> None:
    """Accepted: there is nothing to load."""
