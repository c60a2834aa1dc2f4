"""A refusal that is found deep inside a computation."""

from __future__ import annotations

from autofusion.kernels import Refusal


class Unsupported(Exception):
    """Raised with the reason, as a `Refusal` words it: "its axes are not constant"."""

    @property
    def refusal(self) -> Refusal:
        """What an offer answers with."""
        return Refusal(str(self))
