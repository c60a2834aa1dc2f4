"""Imports TensorFlow itself, where it is needed: to freeze a SavedModel, and to run a model as the reference."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from autofusion.frontends import PluginError


def tensorflow(path: Path) -> Any:
    """The module; raise PluginError, which says why it is needed for ``path``, if it cannot be imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow as module
    except ImportError as error:
        raise PluginError(
            f"'{path}' needs TensorFlow, which cannot be imported: {error}; install it with "
            "'pip install autofusion-frontend-tensorflow[tensorflow]'"
        ) from error
    return module
