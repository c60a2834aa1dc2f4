"""Complex numbers and Fourier transforms against TensorFlow itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import autofusion as af  # noqa: E402
from autofusion.errors import ModelError  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import frozen, specs_of  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_operators import Cases, normal  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
CASES = Cases()
case = CASES.add


def both(z: Any) -> Any:
    return tf.math.real(z), tf.math.imag(z)


def made(x: Any) -> Any:
    return tf.complex(x, tf.reverse(x, [-1]) * 0.5 + 0.2)


X = normal(3, 12)
for length in (12, 9, 16, 7):
    case(f"rfft_{length}", lambda x, n=length: both(tf.signal.rfft(x, [n])), X)
    case(f"irfft_{length}", lambda x, n=length: tf.signal.irfft(made(x), [n]), X)
case("irfft", lambda x: tf.signal.irfft(made(x)), X)
case("abs", lambda x: tf.abs(tf.signal.rfft(x)), X)
case("angle", lambda x: tf.math.angle(tf.signal.rfft(x)), X)
case("angle_of_real", lambda x: tf.math.angle(x), X)
IMAGES = normal(2, 6, 8)
VOLUMES = normal(2, 4, 5, 6)
for name, data in (("fft", X), ("fft2d", IMAGES), ("fft3d", VOLUMES)):
    case(name, lambda x, n=name: both(getattr(tf.signal, n)(made(x))), data)
    case(f"i{name}", lambda x, n=name: both(getattr(tf.signal, f"i{n}")(made(x))), data)
case("rfft2d", lambda x: both(tf.signal.rfft2d(x)), IMAGES)
case("rfft2d_resized", lambda x: both(tf.signal.rfft2d(x, [7, 5])), IMAGES)
case("irfft2d", lambda x: tf.signal.irfft2d(made(x), [6, 7]), IMAGES)
case("rfft3d", lambda x: both(tf.signal.rfft3d(x)), VOLUMES)
ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "conj": lambda a, b: tf.math.conj(a) * b,
    "exp": lambda a, b: tf.exp(a) + tf.cast(tf.abs(b), tf.complex64),
    "square": lambda a, b: tf.square(a) - tf.math.reciprocal(b),
    "constant": lambda a, b: a * tf.constant(1 + 2j, tf.complex64) + b,
    "moved": lambda a, b: tf.transpose(tf.reshape(tf.concat([a, b], 0)[2:, ::2], [2, 2, 6])),
    "matmul": lambda a, b: tf.matmul(a, b, adjoint_b=True),
    "batch_matmul": lambda a, b: tf.matmul(a[None], b[None], adjoint_a=True),
    "shape": lambda a, b: a + tf.cast(tf.size(b), tf.complex64) * b,
    "adjoint": lambda a, b: tf.linalg.adjoint(a + b),
    "select": lambda a, b: tf.where(tf.math.real(a) > 0, a, tf.zeros_like(b) + b),
    "polar": lambda a, b: tf.complex(tf.abs(a), 0.0) * tf.exp(tf.complex(0.0, tf.math.angle(b))),
}
for name, function in ARITHMETIC.items():
    case(f"arithmetic_{name}", lambda x, y, f=function: both(f(made(x), made(y))), X, normal(3, 12) + 0.3)
case("cast_to_real", lambda x: tf.cast(made(x), tf.float32), X)
case("complex_of_scalar", lambda x: both(tf.complex(x, 1.5)), X)

SIGNAL = normal(2, 400)


def spectrogram(x: Any) -> Any:
    return tf.signal.stft(x, 64, 32, 128, pad_end=True)


def mel(x: Any) -> Any:
    weights = tf.signal.linear_to_mel_weight_matrix(20, 65, 8000, 80.0, 4000.0)
    return tf.signal.mfccs_from_log_mel_spectrograms(tf.math.log(tf.abs(spectrogram(x)) @ weights + 1e-3))


case("stft", lambda x: both(spectrogram(x)), SIGNAL)
case("mfcc", mel, SIGNAL)


def masked(x: Any) -> Any:
    spectrum = spectrogram(x)
    return tf.signal.inverse_stft(spectrum * tf.complex(tf.sigmoid(tf.abs(spectrum)), 0.0), 64, 32, 128)


case("masked", masked, SIGNAL)


@pytest.mark.parametrize("free", [(), (0, 1)], ids=["static", "free"])
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, free: tuple[int, ...], tmp_path: Path) -> None:
    CASES.check(name, tmp_path, free)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: tf.signal.rfft(x), "cannot be the output 'Identity'"),
        (lambda x: tf.math.real(tf.math.tanh(made(x))), "Tanh.*not supported for complex numbers"),
        (lambda x: tf.abs(tf.cond(x[0, 0] > 0, lambda: made(x), lambda: -made(x))), "complex numbers"),
    ],
)
def test_what_stays_complex(function: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        af.load(frozen(tmp_path / "m.pb", function, specs_of([X])))
