"""Complex numbers and Fourier transforms.

The operator set transforms pairs of real numbers, the last axis; only where a complex tensor is read as such is it made
of them. So a network that takes magnitudes of a spectrum never holds a complex number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.converters.arithmetic import operands
from autofusion_frontend_mindspore.converters.pointwise import floating
from autofusion_frontend_mindspore.registry import converter

_F64, _C64, _C128 = np.dtype(np.float64), np.dtype(np.complex64), np.dtype(np.complex128)
_NORMS = {None: "backward", 0: "backward", 1: "forward", 2: "ortho"}
Parts = tuple[Value, Value | None]
"""Real and imaginary part; None for an imaginary part of zero."""


def joined(call: Call, real: Value, imaginary: Value | None) -> Value:
    """The complex tensor of two real ones."""
    dtype = _C128 if real.dtype == _F64 else _C64
    whole = call.cast(real, dtype)
    if imaginary is None:
        return whole
    return call.emit("Add", whole, call.emit("Mul", call.cast(imaginary, dtype), call.const(1j, dtype)))


def split(call: Call, value: Value) -> Parts:
    """The parts of a tensor: those that ``joined`` made it of, if it did."""
    if value.dtype not in (_C64, _C128):
        return floating(call, value), None
    known = _made_of(value)
    if known is not None:
        return known
    if value.producer is not None and value.producer.op == "Cast":
        (source,) = value.producer.inputs
        if source is not None and source.dtype is not None and source.dtype.kind == "f":
            return source, None
    dtype = _F64 if value.dtype == _C128 else F32
    turned = call.emit("Mul", value, call.const(-1j, value.dtype))
    return call.emit("Cast", value, to=dtype), call.emit("Cast", turned, to=dtype)


def _made_of(value: Value) -> tuple[Value, Value] | None:
    def producer(of: Value | None, op: str) -> Sequence[Value | None] | None:
        return of.producer.inputs if of is not None and of.producer is not None and of.producer.op == op else None

    terms = producer(value, "Add")
    real = producer(terms[0], "Cast") if terms else None
    turned = producer(terms[1], "Mul") if terms else None
    imaginary = producer(turned[0], "Cast") if turned else None
    if not real or not turned or not imaginary or turned[1] is None or turned[1].const is None:
        return None
    parts = real[0], imaginary[0]
    if turned[1].const.shape != () or turned[1].const != 1j or any(p is None or p.dtype.kind != "f" for p in parts):
        return None
    return parts  # type: ignore[return-value]


def _transformed(call: Call, parts: Parts, axis: int, size: int, inverse: bool, onesided: bool = False) -> Parts:
    """The transform along ``axis`` (counted from the front), of ``size`` points: more are cut off, fewer padded."""
    real, imaginary = parts
    last = call.ints([call.rank(real)])
    pair = call.emit("Unsqueeze", real, last)
    if imaginary is not None:
        pair = call.emit("Concat", pair, call.emit("Unsqueeze", imaginary, last), axis=-1)
    elif inverse:
        zero = call.emit("Sub", pair, pair)
        pair = call.emit("Concat", pair, zero, axis=-1)
    places = call.const(axis, np.int64)
    flags = {"inverse": int(inverse), "onesided": int(onesided)}
    result = call.emit("DFT", pair, call.const(size, np.int64), places, **flags)
    first, second = (call.emit("Gather", result, call.const(i, np.int64), axis=-1) for i in (0, 1))
    return first, second


def _scaled(call: Call, parts: Parts, norm: str, size: int, inverse: bool) -> Parts:
    """DFT divides by the size when it is inverse, and by nothing otherwise."""
    factor = {"backward": 1.0, "ortho": math.sqrt(size), "forward": float(size)}[norm]
    if factor == 1.0:
        return parts
    real, imaginary = (
        None if p is None else call.emit("Mul", p, call.like(factor if inverse else 1 / factor, p)) for p in parts
    )
    assert real is not None
    return real, imaginary


def _complete(call: Call, parts: Parts, axis: int, size: int) -> Parts:
    """A spectrum of ``size`` points, of which the later half mirrors the first: what a real signal has."""
    made: list[Value | None] = []
    half, at = size // 2 + 1, call.ints([axis])
    for part, sign in zip(parts, (1, -1), strict=True):
        if part is None:
            made.append(None)
            continue
        have = call.static_dim(part, axis)
        part = call.emit("Slice", part, call.ints([0]), call.ints([half]), at)
        if have < half:
            pads = [0] * (2 * call.rank(part))
            pads[call.rank(part) + axis] = half - have
            part = call.emit("Pad", part, call.ints(pads))
        ends = call.ints([(size - 1) // 2]), call.ints([0])
        mirrored = call.emit("Slice", part, *ends, at, call.ints([-1])) if size > 2 else None
        if mirrored is not None:
            part = call.emit("Concat", part, mirrored if sign > 0 else call.emit("Neg", mirrored), axis=axis)
        made.append(part)
    assert made[0] is not None
    return made[0], made[1]


def _norm(call: Call, index: int) -> str:
    given = call.argument(index, "norm", None)
    norm = _NORMS.get(given, given)
    if norm not in ("backward", "ortho", "forward"):
        call.fail(f"unknown norm {given!r}")
    return str(norm)


def _input(call: Call) -> Parts:
    real, imaginary = split(call, call.tensor(0))
    dtype = _F64 if call.result_dtype() in (_C128, _F64) or real.dtype == _F64 else F32
    return call.cast(real, dtype), None if imaginary is None else call.cast(imaginary, dtype)


def _transform(
    call: Call, kind: str, parts: Parts, axes: Sequence[int], sizes: Sequence[int | None], norm: str
) -> Value:
    """``kind``: FFT, IFFT, RFFT or IRFFT. Of a real signal the last axis is the one that has half a spectrum."""
    inverse, real = kind.startswith("I"), "R" in kind
    pairs = [(call.axis(axis, parts[0]), size) for axis, size in zip(axes, sizes, strict=True)]
    last = pairs.pop() if real else (0, 0)
    if real and not inverse:  # the first half says all
        if parts[1] is not None:
            call.fail("it transforms a real signal, but its operand is complex")
        count = last[1] if last[1] is not None else call.static_dim(parts[0], last[0])
        parts = _scaled(call, _transformed(call, parts, last[0], count, False, True), norm, count, False)
    for axis, size in pairs:
        count = size if size is not None else call.static_dim(parts[0], axis)
        parts = _scaled(call, _transformed(call, parts, axis, count, inverse), norm, count, inverse)
    if not (real and inverse):
        return joined(call, *parts)
    count = last[1] if last[1] is not None else 2 * (call.static_dim(parts[0], last[0]) - 1)
    signal = _transformed(call, _complete(call, parts, last[0], count), last[0], count, True)
    return _scaled(call, signal, norm, count, True)[0]


def _along_one(kind: str) -> Callable[[Call], Value]:
    """(x, size or None, axis, norm)."""

    def convert(call: Call) -> Value:
        size = call.argument(1, "n", None)
        sizes = [None if size is None else int(size)]
        return _transform(call, kind, _input(call), [int(call.argument(2, "dim", -1))], sizes, _norm(call, 3))

    return convert


def _along_several(kind: str, count: int | None) -> Callable[[Call], Value]:
    """(x, sizes or None, axes or None, norm)."""

    def convert(call: Call) -> Value:
        parts = _input(call)
        given, axes = call.argument(1, "s", None), call.argument(2, "dim", None)
        rank = len(given) if given else count or call.rank(parts[0])
        chosen = [int(a) for a in axes] if axes is not None else list(range(-rank, 0))
        sizes = [int(n) for n in given] if given else [None] * len(chosen)
        if len(sizes) != len(chosen):
            call.fail(f"it has {len(sizes)} sizes for {len(chosen)} axes")
        return _transform(call, kind, parts, chosen, sizes, _norm(call, 3))

    return convert


for _kind in ("FFT", "IFFT", "RFFT", "IRFFT"):
    converter(_kind)(_along_one(_kind))
    converter(f"{_kind}2")(_along_several(_kind, 2))
    converter(f"{_kind}N")(_along_several(_kind, None))


@converter("FFTWithSize")
def fft_with_size(call: Call) -> Value:
    """(x, number of last axes, inverse, real, norm, onesided, sizes of the signal or an empty tuple)."""
    parts, axes = _input(call), range(-int(call.argument(1, "signal_ndim")), 0)
    inverse, real = (bool(call.argument(i, n)) for i, n in ((2, "inverse"), (3, "real")))
    if real and not call.argument(5, "onesided", True):
        call.fail("a transform of a real signal that gives both sides is not supported")
    given = call.argument(6, "signal_sizes", ())
    sizes = [int(n) for n in given] if given else [None] * len(axes)
    return _transform(call, "I" * inverse + "R" * real + "FFT", parts, axes, sizes, _norm(call, 4))


@converter("Complex")
def complex_(call: Call) -> Value:
    """A complex tensor of its real and imaginary part."""
    return joined(call, *operands(call))


@converter("Polar")
def polar(call: Call) -> Value:
    """A complex tensor of its magnitude and angle."""
    size, angle = operands(call)
    return joined(call, *(call.emit("Mul", size, call.emit(op, angle)) for op in ("Cos", "Sin")))


@converter("Real", "RealView")
def real_part(call: Call) -> Value:
    """The real part."""
    return split(call, call.tensor(0))[0]


@converter("Imag", "ImagView")
def imaginary_part(call: Call) -> Value:
    """The imaginary part."""
    real, imaginary = split(call, call.tensor(0))
    return call.emit("Sub", real, real) if imaginary is None else imaginary


@converter("Conj")
def conjugate(call: Call) -> Value:
    """The imaginary part with the other sign."""
    value = call.tensor(0)
    if value.dtype not in (_C64, _C128):
        return value
    real, imaginary = split(call, value)
    return joined(call, real, None if imaginary is None else call.emit("Neg", imaginary))


@converter("Abs", "ComplexAbs")
def absolute(call: Call) -> Value:
    """The magnitude: of a complex number sqrt(re * re + im * im), scaled so that the squares do not overflow."""
    value = call.tensor(0)
    if value.dtype not in (_C64, _C128):
        return call.emit("Abs", value)
    real, imaginary = split(call, value)
    if imaginary is None:
        return call.emit("Abs", real)
    pair = [call.emit("Abs", p) for p in (real, imaginary)]
    most, least = call.emit("Max", *pair), call.emit("Min", *pair)
    zero = call.like(0, most)
    ratio = call.emit("Div", least, call.emit("Where", call.emit("Equal", most, zero), call.like(1, most), most))
    root = call.emit("Sqrt", call.emit("Add", call.like(1, most), call.emit("Mul", ratio, ratio)))
    infinite = call.emit("IsInf", most)
    return call.emit("Where", infinite, most, call.emit("Mul", most, root))


@converter("Angle")
def angle(call: Call) -> Value:
    """The angle of a complex number; of a real one 0, or pi below zero."""
    real, imaginary = split(call, call.tensor(0))
    if imaginary is None:
        below = call.emit("Less", real, call.like(0, real))
        turned = call.emit("Where", below, call.like(math.pi, real), call.like(0, real))
        return call.emit("Where", call.emit("IsNaN", real), real, turned)
    from autofusion_frontend_mindspore.converters.arithmetic import angle_of

    return angle_of(call, imaginary, real)


@converter("FFTShift", "IFFTShift")
def shifted(call: Call) -> Value:
    """The zero frequency moved to the middle of the axes, or back."""
    from autofusion_frontend_mindspore.converters.shapes import rolled

    value, axes = call.tensor(0), call.argument(1, "dim", None)
    chosen = range(call.rank(value)) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    for axis in chosen:
        axis = call.axis(int(axis), value)
        size = call.static_dim(value, axis)
        value = rolled(call, value, size // 2 if call.op == "FFTShift" else -(size // 2), axis)
    return value


@converter("FFTFreq", "RFFTFreq")
def frequencies(call: Call) -> Value:
    """(number of points, spacing, element type): the frequencies of a transform's points."""
    count, spacing = int(call.argument(0, "n")), float(call.argument(1, "d", 1.0))
    function = np.fft.fftfreq if call.op == "FFTFreq" else np.fft.rfftfreq
    return call.const(function(count, spacing), call.result_dtype() or F32)
