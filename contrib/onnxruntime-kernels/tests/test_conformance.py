"""What must hold of any kernel pack."""

from __future__ import annotations

from autofusion.testing import KernelPackTests


class TestOnnxruntime(KernelPackTests):
    plugin = "onnxruntime"
