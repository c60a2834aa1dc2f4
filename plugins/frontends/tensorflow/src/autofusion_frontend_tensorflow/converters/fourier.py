"""Complex numbers and Fourier transforms."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow import complexes
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.complexes import Complex, on_complex
from autofusion_frontend_tensorflow.converters.arithmetic import angle_of
from autofusion_frontend_tensorflow.registry import converter

complexes.AWARE.update(
    "Angle ComplexAbs Conj DeepCopy EnsureShape FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D Identity "
    "IdentityN Imag PartitionedCall PreventGradient Real Snapshot StatefulPartitionedCall StopGradient".split()
)


Parts = tuple[Value, Value]
"""Real and imaginary part."""


def parts_of(call: Call, value: Value) -> Parts:
    """Real and imaginary part; that of a real tensor is zero."""
    if isinstance(value, Complex):
        return value.real, value.imag
    return value, call.emit("Mul", value, call.like(0, value))


@converter("Complex")
def complex_of(call: Call) -> Value:
    """Operands: real and imaginary part, which broadcast."""
    real, imag = call.operand(0), call.operand(1)
    if real.shape != imag.shape:
        shape = call.emit("Shape", call.emit("Add", real, imag))
        real, imag = call.emit("Expand", real, shape), call.emit("Expand", imag, shape)
    return Complex(call.name, real, imag)


@converter("Real", "Imag")
def part(call: Call) -> Value:
    """One part."""
    return parts_of(call, call.operand(0))[call.op == "Imag"]


@converter("Conj")
def conjugate(call: Call) -> Value:
    """The imaginary part with the other sign; a real tensor is its own."""
    x = call.operand(0)
    return Complex(call.name, x.real, call.emit("Neg", x.imag)) if isinstance(x, Complex) else x


@converter("ComplexAbs")
def magnitude(call: Call) -> Value:
    """sqrt(re re + im im)."""
    return call.emit("Sqrt", _power(call, *parts_of(call, call.operand(0))))


def _power(call: Call, real: Value, imag: Value) -> Value:
    return call.emit("Add", call.emit("Mul", real, real), call.emit("Mul", imag, imag))


@converter("Angle")
def angle(call: Call) -> Value:
    """Of the point (re, im)."""
    real, imag = parts_of(call, call.operand(0))
    return angle_of(call, imag, real)


@on_complex("Mul", "Square")
def multiply(call: Call) -> Value:
    """A product."""
    return _product(
        call, parts_of(call, call.operand(0)), parts_of(call, call.operand(0 if call.op == "Square" else 1))
    )


def _product(call: Call, a: Parts, b: Parts) -> Value:
    """(a + bi)(c + di) = (ac - bd) + (ad + bc)i."""
    real = call.emit("Sub", call.emit("Mul", a[0], b[0]), call.emit("Mul", a[1], b[1]))
    return Complex(call.name, real, call.emit("Add", call.emit("Mul", a[0], b[1]), call.emit("Mul", a[1], b[0])))


@on_complex("Div", "RealDiv", "Inv", "Reciprocal")
def divide(call: Call) -> Value:
    """The product with the conjugate of the divisor, over the divisor's squared magnitude."""
    *a, b = (parts_of(call, v) for v in call.inputs)
    power = _power(call, *b)
    real, imag = call.emit("Div", b[0], power), call.emit("Neg", call.emit("Div", b[1], power))
    return _product(call, a[0], (real, imag)) if a else Complex(call.name, real, imag)


@on_complex("Exp")
def exponential(call: Call) -> Value:
    """exp(a) (cos b + i sin b)."""
    x, y = parts_of(call, call.operand(0))
    real, imag = (call.emit("Mul", call.emit("Exp", x), call.emit(op, y)) for op in ("Cos", "Sin"))
    return Complex(call.name, real, imag)


@on_complex("MatMul", "BatchMatMul", "BatchMatMulV2")
def product(call: Call) -> Value:
    """Of matrices; the adjoint is the conjugate of the transpose."""
    operands = []
    for index, letter, number in ((0, "a", "x"), (1, "b", "y")):
        real, imag = parts_of(call, call.operand(index))
        turned, adjoint = bool(call.attr(f"transpose_{letter}", False)), bool(call.attr(f"adj_{number}", False))
        if turned or adjoint:
            rank = call.rank(real)
            order = [*range(rank - 2), rank - 1, rank - 2]
            real, imag = call.transpose(real, order), call.transpose(imag, order)
        operands.append((real, call.emit("Neg", imag) if adjoint else imag))
    a, b = operands
    real = call.emit("Sub", call.emit("MatMul", a[0], b[0]), call.emit("MatMul", a[1], b[1]))
    return Complex(call.name, real, call.emit("Add", call.emit("MatMul", a[0], b[1]), call.emit("MatMul", a[1], b[0])))


@on_complex("ConjugateTranspose")
def conjugate_transpose(call: Call) -> Value:
    """Axes in another order, and the conjugate."""
    order = call.known_ints(1, "permutation")
    real, imag = (call.transpose(v, order) for v in parts_of(call, call.operand(0)))
    return Complex(call.name, real, call.emit("Neg", imag))


@on_complex("Cast")
def cast(call: Call) -> Value:
    """From complex numbers, whose imaginary part a real type drops."""
    to = call.dtype_attr("DstT", np.float32)
    real, imag = (call.cast(v, _width(to)) for v in parts_of(call, call.operand(0)))
    return Complex(call.name, real, imag) if to.kind == "c" else real


def widened(call: Call, x: Value, to: np.dtype) -> Value:
    """A real tensor as complex numbers of type ``to``."""
    real, imag = parts_of(call, call.cast(x, _width(to)))
    return Complex(call.name, real, imag)


def _width(to: np.dtype) -> np.dtype:
    return np.dtype(f"float{to.itemsize * 4}") if to.kind == "c" else to


def constant(call: Call, data: np.ndarray) -> Value:
    """A constant of complex numbers."""
    real, imag = (call.graph.constant(np.ascontiguousarray(part), call.name) for part in (data.real, data.imag))
    return Complex(call.name, real, imag)


@converter("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D")
def transform(call: Call) -> Value:
    """Over the last one, two or three axes; the inverse divides by the number of elements."""
    value = call.operand(0)
    for back in range(_axes(call)):
        value = _transformed(call, value, back, inverse=call.op.startswith("I"))
    return value


@converter("RFFT", "RFFT2D", "RFFT3D")
def real_transform(call: Call) -> Value:
    """Of real numbers, which are cropped or padded to lengths in operand 1; of the last axis one half is kept."""
    x, axes = call.operand(0), _axes(call)
    for back in range(axes):
        x = _resized(call, x, back, _length(call, axes, back))
    spectrum = _split(call, call.emit("DFT", call.unsqueeze(x, call.rank(x)), None, call.ints(-2), onesided=1))
    value: Value = spectrum
    for back in range(1, axes):
        value = _transformed(call, value, back, inverse=False)
    return value


@converter("IRFFT", "IRFFT2D", "IRFFT3D")
def inverse_real_transform(call: Call) -> Value:
    """Real numbers of lengths in operand 1, from the half of their spectrum."""
    axes = _axes(call)
    value = call.operand(0)
    for back in range(axes):
        length = _length(call, axes, back)
        if back == 0:
            length = call.emit("Add", call.emit("Div", length, call.ints([2])), call.ints([1]))
        real, imag = (_resized(call, v, back, length) for v in parts_of(call, value))
        value = Complex(call.name, real, imag)
    for back in range(1, axes):
        value = _transformed(call, value, back, inverse=True)
    return _from_half(call, *parts_of(call, value), _length(call, axes, 0))


def _from_half(call: Call, real: Value, imag: Value, length: Value) -> Value:
    """The inverse transform of the half spectrum along the last axis: its other half is its conjugate, mirrored."""
    last = call.rank(real) - 1
    # The first and, of an even length, the last value of the half stand alone.
    count = call.emit("Sub", length, call.dim(real, last))
    start, step, axis = count, call.ints([-1]), call.ints([last])
    mirrored = [call.emit("Slice", v, start, call.ints([0]), axis, step) for v in (real, imag)]
    whole = (
        call.emit("Concat", real, mirrored[0], axis=last),
        call.emit("Concat", imag, call.emit("Neg", mirrored[1]), axis=last),
    )
    return _transformed(call, Complex(call.name, *whole), 0, inverse=True).real


def _axes(call: Call) -> int:
    return int(call.op[-2]) if call.op.endswith("D") else 1


def _length(call: Call, axes: int, back: int) -> Value:
    """The length along the axis that is ``back`` before the last, as a vector of one number."""
    given = call.vector(call.operand(1))
    return call.slice(given, 0, axes - 1 - back, axes - back)


def _resized(call: Call, x: Value, back: int, length: Value) -> Value:
    """Cropped, or padded with zeros behind, to a length along the axis that is ``back`` before the last."""
    rank = call.rank(x)
    axis = rank - 1 - back
    size = x.shape[axis] if x.shape else None
    wanted = None if length.const is None else int(length.const[0])
    if size is not None and size == wanted:
        return x
    if not isinstance(size, int) or wanted is None or wanted > size:
        missing = call.emit("Max", call.emit("Sub", length, call.dim(x, axis)), call.ints([0]))
        x = call.emit("Pad", x, call.emit("Concat", call.ints([0]), missing, axis=0), None, call.ints([axis]))
    if not isinstance(size, int) or wanted is None or wanted < size:
        x = call.emit("Slice", x, call.ints([0]), length, call.ints([axis]))
    return x


def _transformed(call: Call, value: Value, back: int, *, inverse: bool) -> Complex:
    real, imag = parts_of(call, value)
    rank = call.rank(real)
    both = call.emit("Concat", *(call.unsqueeze(v, rank) for v in (real, imag)), axis=rank)
    return _split(call, call.emit("DFT", both, None, call.ints(-2 - back), inverse=int(inverse)))


def _split(call: Call, both: Value) -> Complex:
    real, imag = (call.emit("Gather", both, call.ints(k), axis=-1) for k in (0, 1))
    return Complex(call.name, real, imag)
