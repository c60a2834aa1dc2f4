"""Fourier transforms, windows, text and losses: against onnxruntime, and where implementations go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plugins.kernels.reference.tests.single import onnxruntime, run

F32 = np.float32


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, F32)


def _check(op: str, inputs: list[Any], **attrs: Any) -> None:
    pytest.importorskip("onnxruntime")
    got, expected = run(op, *inputs, **attrs), onnxruntime(op, *inputs, **attrs)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def _i(value: Any) -> np.ndarray:
    return np.array(value, np.int64)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 6, 16])
@pytest.mark.parametrize("form", ["plain", "onesided", "inverse"])
def test_dft(form: str, length: int | None, parts: int) -> None:
    if form == "inverse" and parts == 1:
        pytest.skip("onnxruntime has no inverse of a real signal")
    if form == "onesided" and parts == 2:
        pytest.skip("onesided is for real signals")
    attrs = {} if form == "plain" else {form: 1}
    inputs = [_normal(0, 2, 10, 3, parts), None if length is None else _i(length), _i(1)]
    _check("DFT", inputs, **attrs)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("window", "length"), [(True, None), (False, 12), (True, 16)])
def test_stft(window: bool, length: int | None, onesided: int) -> None:
    size = length or 16
    inputs = [_normal(1, 2, 50, 1), _i(5), np.hanning(size).astype(F32) if window else None]
    _check("STFT", inputs if length is None else [*inputs, _i(length)], onesided=onesided)


@pytest.mark.parametrize("step", [_i(4), _i([4])])
def test_stft_of_a_real_signal_without_parts(step: np.ndarray) -> None:
    x = _normal(2, 3, 40)
    window = np.hamming(8).astype(F32)
    y = run("STFT", x, step, window)
    expected = np.stack([np.fft.rfft(x[:, 4 * f : 4 * f + 8] * window) for f in range(9)], 1)
    np.testing.assert_allclose(y, np.stack([expected.real, expected.imag], -1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows(op: str, periodic: int) -> None:
    _check(op, [_i(10)], periodic=periodic)


def test_mel_weights() -> None:
    _check("MelWeightMatrix", [_i(8), _i(64), _i(16000), np.array(20, F32), np.array(7000, F32)])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 3.0, 1.5, 0.25, 4.0, 7.0]])
@pytest.mark.parametrize("skip", [0, 1, 5])
@pytest.mark.parametrize("lengths", [(1, 1), (1, 2), (2, 2)])
def test_tf_idf(mode: str, weights: list[float] | None, skip: int, lengths: tuple[int, int]) -> None:
    attrs: dict[str, Any] = {} if weights is None else {"weights": weights}
    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)
    attrs |= {"mode": mode, "max_skip_count": skip, "min_gram_length": lengths[0], "max_gram_length": lengths[1]}
    attrs |= {"ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6]}
    attrs |= {"pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}
    _check("TfIdfVectorizer", [x], **attrs)
    _check("TfIdfVectorizer", [x[0]], **attrs)


def test_tf_idf_of_words() -> None:
    pool = ["a", "b", "a", "b", "b", "c"]
    attrs: dict[str, Any] = {"mode": "TF", "max_skip_count": 0, "min_gram_length": 1, "max_gram_length": 2}
    attrs |= {"ngram_counts": [0, 2], "ngram_indexes": [3, 0, 1, 2], "pool_strings": pool}
    y = run("TfIdfVectorizer", np.array(["b", "a", "b", "c", "d"], object), **attrs)
    np.testing.assert_array_equal(y, F32([2, 1, 1, 1]))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(4, 5), (2, 5, 3), (2, 5, 2, 3)])
def test_losses(shape: tuple[int, ...], weighted: bool, reduction: str) -> None:
    x = _normal(3, *shape)
    labels = np.random.default_rng(4).integers(0, 5, (shape[0], *shape[2:])).astype(np.int64)
    inputs = [x, labels, np.abs(_normal(5, 5)) + F32(0.1)] if weighted else [x, labels]
    share = inputs[2][labels] if weighted else np.ones(labels.shape)
    share = np.where(labels == 1, 0, share)
    log_probability = x.astype(np.float64) - np.log(np.exp(x.astype(np.float64)).sum(1, keepdims=True))
    for op, scores in (("NegativeLogLikelihoodLoss", x), ("SoftmaxCrossEntropyLoss", log_probability)):
        loss = -np.take_along_axis(scores, labels[:, None], 1)[:, 0] * share
        total = {"none": loss, "sum": loss.sum(), "mean": loss.sum() / share.sum()}[reduction]
        got = run(op, *inputs, reduction=reduction, ignore_index=1)
        np.testing.assert_allclose(got, total, rtol=1e-5, atol=1e-6)
