"""Signal processing: Fourier transforms, windows and mel weights; and the decoding of images."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction, integers, normal_axis, optional, wide

_F32 = np.dtype(np.float32)


def _real(x: np.ndarray) -> np.ndarray:
    """Float64 and float32 as they are (a transform of n elements rounds no worse than log n times), others wider."""
    return x if x.dtype in (np.float32, np.float64) else wide(x)


def _complex(x: np.ndarray) -> np.ndarray:
    """[..., 1 or 2] as real or complex numbers [...]."""
    x = _real(x)
    if x.shape[-1] not in (1, 2):
        raise ValueError(f"the last axis holds a real part, or a real and an imaginary part, not {x.shape[-1]} numbers")
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], axis=-1)


def _scalar(inputs: Inputs, index: int) -> int | None:
    """A number that may come as a scalar or as a vector of one element; None where it is absent."""
    value = optional(inputs, index)
    if value is None:
        return None
    if np.size(value) != 1:
        raise ValueError(f"operand {index} is one number, not {np.size(value)}")
    return integers(value)[0]


def _dft(node: Node, inputs: Inputs) -> list[Any]:
    """[..., 1 or 2] -> the transform along one axis, [..., 2] (or [..., 1] for the inverse of a onesided one)."""
    x, length, axis = inputs[0], _scalar(inputs, 1), _scalar(inputs, 2)
    axis = normal_axis(-2 if axis is None else axis, x.ndim)
    if axis == x.ndim - 1:
        raise ValueError("the last axis holds real and imaginary parts and cannot be transformed")
    signal, onesided = _complex(x), bool(node.attr("onesided", 0))
    if node.attr("inverse", 0):
        if onesided:
            length = 2 * (x.shape[axis] - 1) if length is None else length
            return [np.fft.irfft(signal, length, axis)[..., None].astype(x.dtype)]
        return [_parts(np.fft.ifft(signal, length, axis)).astype(x.dtype)]
    if onesided and not np.iscomplexobj(signal):
        return [_parts(np.fft.rfft(signal, length, axis)).astype(x.dtype)]
    y = np.fft.fft(signal, length, axis)
    if onesided:
        y = np.take(y, np.arange(y.shape[axis] // 2 + 1), axis)
    return [_parts(y).astype(x.dtype)]


def _stft(node: Node, inputs: Inputs) -> list[Any]:
    """Signal [batch, length, 1 or 2] (or a real one as [batch, length]) -> [batch, frames, bins, 2]."""
    x, step, window, length = inputs[0], _scalar(inputs, 1), optional(inputs, 2), _scalar(inputs, 3)
    signal = _real(x) if x.ndim == 2 else _complex(x)
    if length is None:
        length = signal.shape[1] if window is None else window.shape[0]
    if not step or step < 1 or length < 1:
        raise ValueError(f"frame_step and frame_length are at least 1; found {step} and {length}")
    if window is not None and window.shape[0] != length:
        raise ValueError(f"the window has {window.shape[0]} elements, but a frame has {length}")
    bins = length // 2 + 1 if node.attr("onesided", 1) else length
    if signal.shape[1] < length:
        return [np.zeros((len(signal), 0, bins, 2), x.dtype)]
    frames = np.lib.stride_tricks.sliding_window_view(signal, length, axis=1)[:, ::step]
    frames = frames if window is None else frames * _real(window)
    onesided = bins != length and not np.iscomplexobj(frames)
    y = np.fft.rfft(frames, axis=-1) if onesided else np.fft.fft(frames, axis=-1)[..., :bins]
    return [_parts(y).astype(x.dtype)]


def _window(shape: Callable[[np.ndarray], np.ndarray]) -> OpFunction:
    """A window as a function of the phase, which goes from 0 to 2 pi (without the end where it is periodic)."""

    def run(node: Node, inputs: Inputs) -> list[Any]:
        size = integers(inputs[0])[0]
        span = size if node.attr("periodic", 1) else size - 1
        phase = np.arange(size) * (2 * np.pi / span) if span else np.zeros(size)
        y = shape(phase) if span else np.ones(size)
        return [y.astype(node.attr("output_datatype") or _F32)]

    return run


def _mel_weights(node: Node, inputs: Inputs) -> list[Any]:
    """Triangles on the mel scale: [dft_length // 2 + 1, num_mel_bins]."""
    mels, length, rate = (integers(inputs[i])[0] for i in (0, 1, 2))
    low, high = (float(np.asarray(inputs[i]).reshape(())) for i in (3, 4))
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (low, high))
    edges = low + np.arange(mels + 2) * ((high - low) / (mels + 2))
    edges = ((length + 1) * (700 * (10 ** (edges / 2595) - 1)) // rate).astype(np.int64)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bins = np.arange(length // 2 + 1)[:, None]
    rising = np.where((bins >= left) & (bins <= centre) & (centre > left), (bins - left) / (centre - left), 0)
    rising = np.where((centre == left) & (bins == centre), 1, rising)
    falls = (bins >= centre) & (bins < right)
    y = np.where(falls, (right - bins) / (right - centre), rising)
    return [y.astype(node.attr("output_datatype") or _F32)]


def _image(node: Node, inputs: Inputs) -> list[Any]:
    """Bytes of an image file -> [height, width, channels]."""
    try:
        import PIL.Image
    except ImportError as error:
        raise ImportError("decoding images needs Pillow: pip install autofusion-kernels-reference[images]") from error
    image = PIL.Image.open(io.BytesIO(np.asarray(inputs[0]).tobytes()))
    form = node.attr("pixel_format", "RGB")
    if form == "Grayscale":
        return [np.asarray(image.convert("L"))[:, :, None]]
    pixels = np.asarray(image.convert("RGB"))
    return [pixels[:, :, ::-1] if form == "BGR" else pixels]


OPS: dict[str, OpFunction] = {
    "BlackmanWindow": _window(lambda p: 0.42 - 0.5 * np.cos(p) + 0.08 * np.cos(2 * p)),
    "DFT": _dft,
    "HammingWindow": _window(lambda p: 25 / 46 - 21 / 46 * np.cos(p)),
    "HannWindow": _window(lambda p: 0.5 - 0.5 * np.cos(p)),
    "ImageDecoder": _image,
    "MelWeightMatrix": _mel_weights,
    "STFT": _stft,
}
