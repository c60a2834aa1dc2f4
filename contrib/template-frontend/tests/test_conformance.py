"""What must hold of any frontend."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import FrontendTests


class TestAcme(FrontendTests):
    plugin = "acme"
    folder = Path(__file__).parent / "models"
