"""The standard tests of a kernel pack."""

from __future__ import annotations

import pytest

from autofusion.testing import KernelPackTests


@pytest.mark.slow
class TestCpu(KernelPackTests):
    plugin = "cpu"
