"""What must hold of any frontend, on models that TensorFlow's converter wrote."""

from __future__ import annotations

from pathlib import Path

from autofusion.testing import FrontendTests


class TestTflite(FrontendTests):
    plugin = "tflite"
    folder = Path(__file__).parent / "models"
