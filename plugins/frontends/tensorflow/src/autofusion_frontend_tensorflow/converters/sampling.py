"""ScaleAndTranslate: resizing with a choice of kernels, widened where the image shrinks (antialiasing).

Sizes, scale and translation are constant, so that each direction is a product with a constant matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.converters.resize import by_matrices
from autofusion_frontend_tensorflow.registry import converter

Kernel = tuple[float, Callable[[np.ndarray], np.ndarray]]
"""How far it reaches, and its value at a distance."""


def _lanczos(reach: float) -> Kernel:
    return reach, lambda d: np.where(d > reach, 0, np.sinc(d) * np.sinc(d / reach))


def _cubic(near: tuple[float, ...], far: tuple[float, ...]) -> Kernel:
    return 2.0, lambda d: np.where(d >= 2, 0, np.where(d >= 1, np.polyval(far, d), np.polyval(near, d)))


_KERNELS: dict[str, Kernel] = {
    "lanczos1": _lanczos(1.0),
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
    "gaussian": (1.5, lambda d: np.where(d >= 1.5, 0, np.exp(-2 * d * d))),
    "box": (1.0, lambda d: np.where(d < 0.5, 1, np.where(d == 0.5, 0.5, 0))),
    "triangle": (1.0, lambda d: np.maximum(1 - d, 0)),
    "keyscubic": _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2)),
    "mitchellcubic": _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9)),
}


def _weights(kernel: Kernel, size: int, wanted: int, scale: float, shift: float, widened: bool) -> np.ndarray:
    """[wanted, size]: the kernel about each place, as means; nothing for a place outside the image."""
    step = np.float32(1) / np.float32(scale)
    wide = float(max(step, 1)) if widened else 1.0
    place = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * step + -step * np.float32(shift)
    reach, value = kernel
    away = np.arange(size) + 0.5 - place[:, None].astype(np.float64)
    # The span is cut by whole elements, which matters to kernels that do not end at zero.
    first, last = np.ceil(place - reach * wide - 0.5), np.floor(place + reach * wide - 0.5)
    within = (np.arange(size) >= np.clip(first, 0, size - 1)[:, None]) & (
        np.arange(size) <= np.clip(last, 0, size - 1)[:, None]
    )
    weights = np.where(within, value(np.abs(away) / wide), 0)
    total = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, total, out=weights, where=np.abs(total) >= 1000 * np.finfo(np.float32).tiny)
    outside = (place < 0) | (place > size)
    return np.where(outside[:, None], 0, weights)


@converter("ScaleAndTranslate")
def scale_and_translate(call: Call) -> Value:
    """Operands: images, size, scale, translation, the last two of [rows, columns]."""
    x = call.cast(call.operand(0), np.float32)
    wanted = call.known_ints(1, "size")
    scale, shift = (call.known(i, what).reshape(-1) for i, what in ((2, "scale"), (3, "translation")))
    name, widened = call.attr("kernel_type", "lanczos3"), bool(call.attr("antialias", True))
    if name not in _KERNELS:
        call.fail(f"its kernel_type '{name}' is not known; expected one of {sorted(_KERNELS)}")
    call.rank(x)
    assert x.shape is not None
    matrices = []
    for axis in range(2):
        size = x.shape[axis + 1]
        if not isinstance(size, int):
            call.fail(f"the size of '{x.name}' must be known, found {x.type}")
        weights = _weights(_KERNELS[name], size, wanted[axis], float(scale[axis]), float(shift[axis]), widened)
        matrices.append(call.const(weights, np.float32))
    return by_matrices(call, x, *matrices)


@converter("AdjustContrastv2")
def adjust_contrast(call: Call) -> Value:
    """Operands: images, factor. Away from the mean of each channel."""
    x = call.operand(0)
    wide = call.cast(x, np.float32)
    rank = call.rank(x)
    mean = call.emit("ReduceMean", wide, call.ints([rank - 3, rank - 2]), keepdims=1)
    moved = call.emit("Mul", call.emit("Sub", wide, mean), call.cast(call.operand(1), np.float32))
    return call.cast(call.emit("Add", moved, mean), call.dtype(x))
