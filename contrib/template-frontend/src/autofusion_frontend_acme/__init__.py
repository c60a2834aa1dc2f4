"""The entry point of the frontend. Only hooks here; what they need is imported inside, so that listing stays fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofusion.frontends import hookimpl

if TYPE_CHECKING:
    from autofusion.frontends import Frontend


@hookimpl
def autofusion_frontends() -> list[Frontend]:
    """The frontend ``acme``."""
    from autofusion_frontend_acme.frontend import AcmeFrontend

    return [AcmeFrontend()]
