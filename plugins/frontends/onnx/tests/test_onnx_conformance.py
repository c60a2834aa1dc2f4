"""The standard tests of a frontend, on models that each hold a known trap."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autofusion.testing import FrontendTests
from autofusion.testing.frontends import Model

CASES = Path(__file__).parents[4] / "tests" / "cases"


def _model(folder: Path) -> Model:
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "expected.npz") as expected:
        rtol = max(1e-4, json.loads((folder / "case.json").read_text())["rtol"])
        return Model(folder / "model.onnx", dict(inputs), dict(expected), rtol=rtol)


class TestOnnx(FrontendTests):
    plugin = "onnx"

    @classmethod
    def models(cls) -> Sequence[Model]:
        return [_model(path.parent) for path in sorted(CASES.glob("*/model.onnx"))]
