"""Reads ONNX models into the Autofusion graph, and writes graphs back. This module only holds the hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.frontends import hookimpl

if TYPE_CHECKING:
    from autofusion.frontends import Frontend


@hookimpl
def autofusion_frontends() -> list[Frontend]:
    """The ONNX frontend."""
    from autofusion_frontend_onnx.frontend import OnnxFrontend

    return [OnnxFrontend()]
