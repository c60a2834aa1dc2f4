"""How the models beside this file were made: by TensorFlow's converter, with outputs by its own kernels.

Needs TensorFlow; the tests do not run this, they read the files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

FOLDER = Path(__file__).parent / "models"


def save(name: str, concrete: Any, inputs: dict[str, np.ndarray], half: bool = False) -> None:
    frozen = convert_variables_to_constants_v2(concrete)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if half:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    content = converter.convert()
    (FOLDER / f"{name}.tflite").write_bytes(content)
    resolver = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = tf.lite.Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    by_name = {d["name"]: d["index"] for d in interpreter.get_input_details()}
    for key, value in inputs.items():
        interpreter.set_tensor(by_name[key], value)
    interpreter.invoke()
    results = {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}
    arrays = {f"in:{k}": v for k, v in inputs.items()} | {f"out:{k}": v for k, v in results.items()}
    np.savez(FOLDER / f"{name}.npz", **arrays)
    print(name, len(content), {k: v.shape for k, v in results.items()})


def function(name: str, body: Callable[..., dict[str, tf.Tensor]], **inputs: np.ndarray) -> None:
    specs = {k: tf.TensorSpec(v.shape, v.dtype, name=k) for k, v in inputs.items()}

    save(name, tf.function(body).get_concrete_function(**specs), inputs)


def keras(name: str, model: tf.keras.Model, x: np.ndarray, half: bool = False) -> None:
    @tf.function(input_signature=[tf.TensorSpec(x.shape, tf.float32, name="x")])
    def run(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": model(x, training=False)}

    save(name, run.get_concrete_function(), {"x": x}, half)


def main() -> None:
    tf.keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    layers = tf.keras.layers

    def image(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    cnn = tf.keras.Sequential(
        [
            layers.Input((16, 16, 3)),
            layers.Conv2D(8, 3, strides=2, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(max_value=6),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.Activation("hard_silu"),
            layers.Conv2D(12, 1, activation="relu"),
            layers.MaxPooling2D(2),
            layers.AveragePooling2D(3, strides=1, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )
    keras("cnn", cnn, image(1, 16, 16, 3))
    keras("cnn_half_weights", cnn, image(1, 16, 16, 3), half=True)

    upsampling = tf.keras.Sequential(
        [
            layers.Input((5, 6, 4)),
            layers.Conv2DTranspose(6, 3, strides=2, padding="same"),
            layers.LeakyReLU(0.2),
            layers.UpSampling2D(2, interpolation="bilinear"),
            layers.Conv2D(4, 3, dilation_rate=2, padding="valid"),
            layers.UpSampling2D(2, interpolation="nearest"),
            layers.PReLU(shared_axes=[1, 2]),
        ]
    )
    keras("upsampling", upsampling, image(1, 5, 6, 4))

    heads = layers.MultiHeadAttention(2, 4)
    heads.build((1, 6, 8), (1, 6, 8))
    norm = layers.LayerNormalization()
    norm.build((1, 6, 8))

    @tf.function(input_signature=[tf.TensorSpec((1, 6, 8), tf.float32, name="x")])
    def attend(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.nn.gelu(norm(x + heads(x, x)))}

    save("attention", attend.get_concrete_function(), {"x": image(1, 6, 8)})

    def shapes(x: tf.Tensor, k: tf.Tensor) -> dict[str, tf.Tensor]:
        a, b = tf.split(x, 2, axis=2)
        joined = tf.concat([a, b], axis=0)
        first, second = tf.unstack(tf.stack([a, b * 2.0], axis=1), axis=1)
        return {
            "strided": x[:, ::2, 1:-1][:, ::-1, 0],
            "sliced": tf.slice(x, [0, 1, 0], [2, 2, -1]),
            "padded": tf.pad(x, [[0, 0], [1, 2], [0, 1]], constant_values=3.0),
            "mirrored": tf.pad(x, [[0, 0], [1, 1], [2, 0]], mode="REFLECT"),
            "gathered": tf.gather(x, k, axis=1),
            "tiled": tf.tile(joined, [1, 1, 2]),
            "sums": first + second,
            "turned": tf.expand_dims(tf.transpose(x, [2, 0, 1]), 1),
            "flat": tf.reshape(x, [2, -1]),
        }

    function("shapes", shapes, x=image(2, 4, 6), k=np.array([3, 0, 0], np.int32))

    def arithmetic(x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "pointwise": tf.exp(-tf.abs(x)) * tf.math.rsqrt(tf.square(y) + 1.0) - tf.floor(x) / 3.0,
            "chosen": tf.where(tf.logical_and(x > y, x != 0.0), tf.maximum(x, y), tf.sin(y)),
            "reduced": tf.reduce_mean(tf.math.squared_difference(x, y), axis=[1], keepdims=True),
            "extremes": tf.reduce_max(x, axis=2) - tf.reduce_min(y, axis=2),
            "largest": tf.argmax(x, axis=2, output_type=tf.int32),
            "products": tf.matmul(x, y, transpose_b=True),
            "odds": tf.nn.log_softmax(x),
            "powers": tf.pow(tf.abs(x) + 0.5, 1.5) + tf.math.log(tf.square(y) + 1.0) + tf.tanh(x) + tf.sigmoid(y),
            "whole": tf.cast(tf.cast(x * 10.0, tf.int32) * 3, tf.float32),
        }

    function("arithmetic", arithmetic, x=image(2, 3, 5), y=image(2, 3, 5))


if __name__ == "__main__":
    main()
