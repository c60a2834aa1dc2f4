"""Signal processing: Fourier transforms, window functions, and the decoding of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import OpClass, Operator, attribute, register
from autofusion.ir.types import Dim, TensorType, Type


def _scalar(node: Node, index: int) -> int | None:
    data = shapes.ints(node, index)
    return data[0] if data else None


def _half(length: Dim) -> Dim:
    return length // 2 + 1 if isinstance(length, int) else None


def _infer_dft(node: Node) -> Sequence[Type | None]:
    dims, dtype = shapes.rank_at_least(node, 0, 2), shapes.dtype(node, 0)
    if dims is None:
        return shapes.only(shapes.of(dtype, None))
    inverse, onesided = attribute(node, "inverse"), attribute(node, "onesided")
    axis = _scalar(node, 2) if shapes.is_present(node, 2) else -2
    parts = 1 if inverse and onesided else 2
    if axis is None:
        resized = onesided or shapes.is_present(node, 1)
        return shapes.only(shapes.of(dtype, (*((None,) * (len(dims) - 1) if resized else dims[:-1]), parts)))
    axis = shapes.axis_of(node, axis, len(dims))
    if axis == len(dims) - 1:
        shapes.fail(node, "the last axis holds real and imaginary parts and cannot be transformed")
    length: Dim = dims[axis]
    if shapes.is_present(node, 1):
        length = _scalar(node, 1)
    elif inverse and onesided:
        length = 2 * (length - 1) if isinstance(length, int) else None
    if onesided and not inverse:
        length = _half(length)
    return shapes.only(shapes.of(dtype, (*dims[:axis], length, *dims[axis + 1 : -1], parts)))


def _infer_stft(node: Node) -> Sequence[Type | None]:
    """[batch, signal, 1 or 2] -> [batch, frames, bins, 2]. A real signal may lack its last axis (torch's)."""
    dims, window, step = shapes.shape(node, 0), shapes.rank_is(node, 2, 1), _scalar(node, 1)
    if dims is not None and len(dims) not in (2, 3):
        shapes.fail(node, f"operand 0 must have 3 axes (or 2, if it is real), found {shapes.show(dims)}")
    length: Dim = None
    if shapes.is_present(node, 3):
        length = _scalar(node, 3)
    elif shapes.is_present(node, 2):
        length = window[0] if window else None
    elif dims is not None:
        length = dims[1]
    frames: Dim = None
    if dims is not None and isinstance(dims[1], int) and isinstance(length, int) and step:
        frames = (dims[1] - length) // step + 1
    bins = _half(length) if attribute(node, "onesided") else length
    return shapes.only(shapes.of(shapes.dtype(node, 0), (dims[0] if dims else None, frames, bins, 2)))


def _infer_window(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.dtype_attribute(node, "output_datatype") or F32, (_scalar(node, 0),)))


def _infer_mel(node: Node) -> Sequence[Type | None]:
    dtype = shapes.dtype_attribute(node, "output_datatype") or F32
    return shapes.only(shapes.of(dtype, (_half(_scalar(node, 1)), _scalar(node, 0))))


def _infer_image(node: Node) -> Sequence[Type | None]:
    channels = 1 if attribute(node, "pixel_format") == "Grayscale" else 3
    return shapes.only(TensorType(np.dtype(np.uint8), (None, None, channels)))


def _register() -> None:
    opaque = OpClass.OPAQUE
    for name in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        register(Operator(name, opaque, _infer_window, attributes={"output_datatype": F32, "periodic": 1}))
    for operator in (
        Operator("DFT", opaque, _infer_dft, 1, 3, attributes={"inverse": 0, "onesided": 0}),
        Operator("STFT", opaque, _infer_stft, 2, 4, attributes={"onesided": 1}),
        Operator("MelWeightMatrix", opaque, _infer_mel, 5, 5, attributes={"output_datatype": F32}),
        Operator("ImageDecoder", opaque, _infer_image, attributes={"pixel_format": "RGB"}),
    ):
        register(operator)


_register()
