"""The standard tests of a frontend, on models that each hold a known trap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autofusion.testing import FrontendTests
from autofusion.testing.frontends import Model

CASES = Path(__file__).parents[4] / "tests" / "cases"


def _model(folder: Path) -> Model:
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "expected.npz") as expected:
        return Model(folder / "model.onnx", dict(inputs), dict(expected), rtol=1e-4)


class TestOnnx(FrontendTests):
    plugin = "onnx"

    @classmethod
    def models(cls) -> Sequence[Model]:
        return [_model(path.parent) for path in sorted(CASES.glob("*/model.onnx"))]
