"""The entry point of the TensorFlow Lite frontend; FlatBuffers are imported when a model is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.frontends import hookimpl

if TYPE_CHECKING:
    from autofusion.frontends import Frontend


@hookimpl
def autofusion_frontends() -> list[Frontend]:
    """The frontend ``tflite``."""
    from autofusion_contrib_tflite.frontend import TfliteFrontend

    return [TfliteFrontend()]
