"""Reads TensorFlow frozen graphs and SavedModels into the Autofusion graph. This module only holds the hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.frontends import hookimpl

if TYPE_CHECKING:
    from autofusion.frontends import Frontend


@hookimpl
def autofusion_frontends() -> list[Frontend]:
    """The TensorFlow frontend."""
    from autofusion_frontend_tensorflow.frontend import TensorflowFrontend

    return [TensorflowFrontend()]
