"""Frozen graphs of `keras.applications` with random weights, built once and kept beside the model zoo.

Random weights leave biases and the statistics of normalisations at 0 and 1, which would hide mistakes, and let the
activations of deep networks grow or vanish until a difference in the last bit decides the result. So biases and scales
are random too, the statistics bring each layer to a quarter, and residual branches are damped. (Random networks that
are centred everywhere are chaotic, and so are those in which smooth activations meet larger values: TensorFlow itself
was then off by 1e-3.) Each model is built in a process of its own: TensorFlow does not give memory back.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.zoo import zoo


@dataclass(frozen=True, slots=True)
class Application:
    """One architecture and the size of its square input."""

    name: str
    size: int
    slow: bool = True

    @property
    def white(self) -> float:
        """The greatest pixel value: networks that rescale their input themselves want bytes."""
        return 255.0 if self.name.startswith(("ConvNeXt", "EfficientNet", "MobileNetV3")) else 1.0

    def image(self, seed: int = 0) -> np.ndarray:
        """A random image [1, size, size, 3]."""
        pixels = np.random.default_rng(seed).random((1, self.size, self.size, 3), np.float32)
        return pixels * np.float32(self.white)


# Sizes as published, smaller ones for the largest networks. NASNets and the EfficientNets above take any size.
MODELS = {
    a.name: a
    for a in (
        Application("MobileNet", 224),
        Application("MobileNetV2", 224, slow=False),
        Application("MobileNetV3Small", 224, slow=False),
        Application("MobileNetV3Large", 224),
        Application("ResNet50", 224, slow=False),
        Application("ResNet101", 128),
        Application("ResNet152", 128),
        Application("ResNet50V2", 224),
        Application("ResNet101V2", 128),
        Application("ResNet152V2", 128),
        Application("EfficientNetB0", 224, slow=False),
        Application("EfficientNetB1", 160),
        Application("EfficientNetB2", 160),
        Application("EfficientNetB3", 160),
        Application("EfficientNetB4", 160),
        Application("EfficientNetB5", 160),
        Application("EfficientNetV2B0", 224),
        Application("EfficientNetV2B1", 160),
        Application("EfficientNetV2B2", 160),
        Application("EfficientNetV2B3", 160),
        Application("EfficientNetV2S", 160),
        Application("EfficientNetV2M", 128),
        Application("DenseNet121", 224),
        Application("DenseNet169", 128),
        Application("DenseNet201", 128),
        Application("InceptionV3", 299),
        Application("InceptionResNetV2", 160),
        Application("Xception", 299),
        Application("NASNetMobile", 224),
        Application("NASNetLarge", 331),
        Application("VGG16", 128),
        Application("VGG19", 128),
        Application("ConvNeXtTiny", 128),
        Application("ConvNeXtSmall", 96),
    )
}


LAST_OF_BRANCH = r"(_3_bn|project_bn)/gamma|_3_conv/kernel"
"""The last weights of residual branches, which are damped: else each block adds as much as all before it."""


def path_of(name: str) -> Path:
    """The frozen graph, built on first use."""
    recipe = hashlib.sha256(inspect.getsource(build).encode()).hexdigest()[:8]
    path = zoo.cache_dir() / "keras" / f"{name}-{MODELS[name].size}-{recipe}.pb"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "plugins.frontends.tensorflow.tests.keras_models", name, str(path)]
        root = Path(__file__).parents[4]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"building {name} failed:\n{done.stderr[-2000:]}"
    return path


def build(name: str, path: Path) -> None:
    """Build, randomise, freeze and write one model."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    tf.keras.utils.set_random_seed(0)
    size = MODELS[name].size
    options = {"weights": None, "input_shape": (size, size, 3)}
    model = getattr(tf.keras.applications, name)(**options)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        shape = tuple(weight.shape)
        if weight.path.endswith("gamma") and "layer_scale" not in weight.path:
            weight.assign(rng.uniform(0.8, 1.2, shape).astype("float32"))
        elif weight.path.endswith(("beta", "bias")):
            weight.assign(rng.normal(0, 0.1, shape).astype("float32"))
        if re.search(LAST_OF_BRANCH, weight.path, re.IGNORECASE):
            weight.assign(0.25 * weight)
    normalise = tf.keras.layers.BatchNormalization.call

    def measured(layer, inputs, **_):
        square = np.mean(np.square(inputs), axis=tuple(range(len(inputs.shape) - 1)))
        layer.moving_variance.assign(16 * square + 1e-3)
        layer.moving_mean.assign(0.3 * np.sqrt(square) * rng.standard_normal(square.shape).astype("float32"))
        return normalise(layer, inputs, training=False)

    tf.keras.layers.BatchNormalization.call = measured
    model(MODELS[name].image(seed=1), training=False)
    tf.keras.layers.BatchNormalization.call = normalise

    @tf.function(input_signature=[tf.TensorSpec((1, size, size, 3), tf.float32, name="input")])
    def run(x):
        return model(x, training=False)

    frozen = convert_variables_to_constants_v2(run.get_concrete_function(), lower_control_flow=False)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(frozen.graph.as_graph_def().SerializeToString())
    os.replace(part, path)


if __name__ == "__main__":
    build(sys.argv[1], Path(sys.argv[2]))
