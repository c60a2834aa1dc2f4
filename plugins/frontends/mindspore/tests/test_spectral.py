"""Fourier transforms and complex numbers, against NumPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofusion as af
from autofusion.errors import ModelError
from plugins.frontends.mindspore.tests.one_primitive import OnePrimitive, run

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(8)
C64, F32 = np.complex64, np.float32
X = RNG.standard_normal((3, 8)).astype(F32)
Z = (X + 1j * RNG.standard_normal((3, 8))).astype(C64)
N = np.arange(6, dtype=np.int32)
NORMS = {None: "backward", 0: "backward", 1: "forward", 2: "ortho"}

LINES = [
    (kind, size, axis, norm)
    for kind in ("RFFT", "FFT", "IFFT", "IRFFT")
    for size in (None, 8, 5, 12, 1)
    for axis, norm in ((-1, None), (1, 1), (0, 2))
]
CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("IFFT", (X, None, -1, None), np.fft.ifft(X).astype(C64)),
    ("RFFT", (N, None, -1, None), np.fft.rfft(N).astype(C64)),
    ("RFFT", (X.astype(np.float64), None, -1, None), np.fft.rfft(X)),
    ("RFFT2", (X, None, (-2, -1), None), np.fft.rfft2(X).astype(C64)),
    ("FFT2", (Z, (4, 6), (-2, -1), 2), np.fft.fft2(Z, (4, 6), norm="ortho").astype(C64)),
    ("IFFT2", (Z, None, (-2, -1), 1), np.fft.ifft2(Z, norm="forward").astype(C64)),
    ("IRFFT2", (Z, (4, 6), (-2, -1), 2), np.fft.irfft2(Z, (4, 6), norm="ortho").astype(F32)),
    ("RFFTN", (X, None, None, None), np.fft.rfftn(X).astype(C64)),
    ("FFTN", (Z, None, None, None), np.fft.fftn(Z).astype(C64)),
    ("IFFTN", (Z, None, None, None), np.fft.ifftn(Z).astype(C64)),
    ("IRFFTN", (Z, None, None, None), np.fft.irfftn(Z).astype(F32)),
    ("FFTWithSize", (X, 1, False, True, 0, True, ()), np.fft.rfft(X).astype(C64)),
    ("FFTWithSize", (Z, 2, True, False, 2, True, ()), np.fft.ifft2(Z, norm="ortho").astype(C64)),
    ("FFTWithSize", (Z, 1, True, True, 0, True, (9,)), np.fft.irfft(Z, 9).astype(F32)),
    ("FFTShift", (X, None), np.fft.fftshift(X)),
    ("IFFTShift", (X[:, :5], (1,)), np.fft.ifftshift(X[:, :5], 1)),
    ("FFTFreq", (6, 0.5, 43), np.fft.fftfreq(6, 0.5).astype(F32)),
    ("RFFTFreq", (7, 0.5, 43), np.fft.rfftfreq(7, 0.5).astype(F32)),
    ("Complex", (X, X), (X + 1j * X).astype(C64)),
    ("Polar", (np.abs(X), X), (np.abs(X) * np.exp(1j * X)).astype(C64)),
    ("Real", (Z,), Z.real.copy()),
    ("Real", (X,), X),
    ("Imag", (Z,), Z.imag.copy()),
    ("Conj", (Z,), Z.conj()),
    ("Angle", (Z,), np.angle(Z)),
    ("Angle", (X,), np.angle(X)),
    ("ComplexAbs", (Z,), np.abs(Z)),
    ("Abs", (Z,), np.abs(Z).astype(C64)),  # so MindSpore declares it
    ("Abs", (N - 3,), np.abs(N - 3)),
    ("ComplexAbs", (C64([3e30 + 4e30j, 0, 1e-30j]),), F32([5e30, 0, 1e-30])),
    ("Mul", (Z, Z), Z * Z),
    ("MatMul", (Z, Z.T.copy(), False, False), Z @ Z.T),
    ("Transpose", (Z, (1, 0)), Z.T),
]


@pytest.mark.parametrize("level", ["off", "full"])
@pytest.mark.parametrize(("kind", "size", "axis", "norm"), LINES)
def test_transform_along_one_axis(
    kind: str, size: int | None, axis: int, norm: int | None, level: str, tmp_path: Path
) -> None:
    data = X if kind == "RFFT" else Z
    expected = getattr(np.fft, kind.lower())(data, size, axis, NORMS[norm])
    expected = expected.astype(F32 if kind == "IRFFT" else C64)
    (result,) = run(tmp_path, kind, (data, size, axis, norm), {}, expected, level=level)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", ["off", "full"])
@pytest.mark.parametrize(("primitive", "operands", "expected"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_other_primitives(primitive: str, operands: tuple[Any, ...], expected: Any, level: str, tmp_path: Path) -> None:
    (result,) = run(tmp_path, primitive, operands, {}, expected, level=level)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_a_spectrum_whose_magnitude_is_taken_is_never_complex(tmp_path: Path) -> None:
    built = OnePrimitive("RFFT", (X, None, -1, None), {}, np.fft.rfft(X).astype(C64))
    built.then("ComplexAbs", (), {}, np.abs(np.fft.rfft(X)).astype(F32))
    path = tmp_path / "magnitude.mindir"
    path.write_bytes(built.model.SerializeToString())
    graph = af.load(path)
    assert all(v.dtype is not None and v.dtype.kind != "c" for node in graph.nodes for v in node.outputs)
    np.testing.assert_allclose(af.compile(path).run({"x0": X})["out0"], np.abs(np.fft.rfft(X)), rtol=1e-5, atol=1e-5)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="transforms a real signal, but its operand is complex"):
        run(tmp_path, "RFFT", (Z, None, -1, None), {}, None)
    with pytest.raises(ModelError, match="unknown norm 7"):
        run(tmp_path, "FFT", (Z, None, -1, 7), {}, None)
