"""The standard tests of a kernel pack: they compare with this very pack, so here they try the kit and the contract."""

from __future__ import annotations

import pytest

from autofusion.testing import KernelPackTests


@pytest.mark.slow
class TestReference(KernelPackTests):
    plugin = "reference"
