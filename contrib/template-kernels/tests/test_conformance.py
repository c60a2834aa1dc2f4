"""What must hold of any kernel pack."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import KernelPackTests


class TestAcme(KernelPackTests):
    plugin = "acme"
    cases = Path(__file__).parent / "cases"
