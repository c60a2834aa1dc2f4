"""Models of the zoo quantised by onnxruntime's own quantisers: QDQ and QOperator form, by tensor and by channel.

    python -m tests.zoo.quantised MODEL RECIPE FILE

Calibrated on the inputs that the zoo's tests use, which is enough for activations of the right range.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to quantise: names of onnxruntime's ``QuantFormat`` and ``QuantType``."""

    form: str = "QDQ"
    activations: str = "QInt8"
    weights: str = "QInt8"
    per_channel: bool = True


RECIPES: Mapping[str, Recipe] = {
    "qdq": Recipe(),
    "qdq_u8": Recipe(activations="QUInt8"),
    "qdq_tensor": Recipe(per_channel=False),
    "qdq_u8u8": Recipe(activations="QUInt8", weights="QUInt8", per_channel=False),
    "qoperator": Recipe(form="QOperator", activations="QUInt8"),
}
"""The recipes by name; ``dynamic`` is onnxruntime's quantiser of weights only."""


class _Samples:
    """What onnxruntime's calibration reads: one map of inputs, then None."""

    def __init__(self, inputs: Mapping[str, np.ndarray]) -> None:
        self._left = [dict(inputs)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next map of inputs."""
        return self._left.pop() if self._left else None


def save_quantised(source: Path, target: Path, recipe: str, inputs: Mapping[str, np.ndarray]) -> Path:
    """Quantise the model ``source`` by a recipe, calibrated on ``inputs``; returns ``target``."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    if recipe == "dynamic":
        quantize_dynamic(source, target, weight_type=QuantType.QInt8, per_channel=True)
        return target
    chosen = RECIPES[recipe]
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder, "prepared.onnx")
        raised = _raised(source, Path(folder, "raised.onnx"))
        quant_pre_process(str(raised), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(target),
            _Samples(inputs),  # type: ignore[arg-type]
            quant_format=QuantFormat[chosen.form],
            activation_type=QuantType[chosen.activations],
            weight_type=QuantType[chosen.weights],
            per_channel=chosen.per_channel,
        )
    return target


def _raised(source: Path, target: Path) -> Path:
    """The model in an operator set that knows scales of channels, which came with number 13."""
    import onnx
    from onnx import version_converter

    model = onnx.load(source)
    own = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    if own >= 13:
        return source
    onnx.save(version_converter.convert_version(model, 13), target)
    return target


def main(name: str, recipe: str, file: str) -> None:
    """Write one model."""
    from tests.zoo import zoo

    print(save_quantised(zoo.model_path(name), Path(file), recipe, zoo.inputs(name)))


if __name__ == "__main__":
    main(*sys.argv[1:4])
