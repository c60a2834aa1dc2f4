"""Transcendental functions of float32 vectors, as instructions: no call leaves the kernel.

Each is right to 1-2 units in the last place, branch-free (both sides of a split are computed and one is chosen), and
keeps NaN, infinities and the sign of zero. Results below the normal range of float32 may flush to zero. Polynomials
come from ``codegen.fit``. ``f`` is the function under construction; vectors may have any number of lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autofusion_kernels_cpu.codegen import fit
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.values import F32, F64, I32, I64, Operandish, Value

INFINITY = math.inf
LN2 = math.log(2)
# ln 2 in two parts; the high one has so few bits that its product with an exponent is exact.
LN2_HIGH = 0.693359375
LN2_LOW = LN2 - LN2_HIGH
# Adding it rounds a float32 to an integer, which then sits in the low bits.
ROUNDER = 1.5 * 2.0**23
EXPONENT_BIAS = 127
SMALLEST_NORMAL = 2.0**-126


def horner(f: Function, coefficients: Sequence[float], x: Value) -> Value:
    """c_0 + x (c_1 + x (c_2 + ...))."""
    result = f.const(coefficients[-1], x.type)
    for c in coefficients[-2::-1]:
        result = f.fma(result, x, c)
    return result


# --- exponentials -----------------------------------------------------------------------------------------------------
def _split_exp(f: Function, x: Value, shift: int = 0) -> tuple[Value, Value]:
    """x = n ln 2 + r: returns (2^(n + shift), r).

    The rounding constant carries the bias of the exponent, so that a shift makes the power out of the rounded number. A
    power below 2^-126 comes out as zero, one above 2^127 as infinity; n + shift must be within -127..128.
    """
    rounder = ROUNDER + EXPONENT_BIAS + shift
    shifted = f.fma(x, 1 / LN2, rounder)
    n = shifted - rounder
    r = f.fma(n, -LN2_LOW, f.fma(n, -LN2_HIGH, x))
    return f.bitcast(f.bitcast(shifted, I32) << 23, F32), r


def _mantissa(f: Function, r: Value) -> Value:
    """e^r for |r| <= ln 2 / 2."""
    return f.fma(horner(f, fit.exp(), r), r * r, r) + 1.0


def exp(f: Function, x: Value, halve: bool = False) -> Value:
    """e^x, or e^x / 2 with ``halve``. Results below 2e-38 are zero."""
    shift = -2 if halve else -1
    low, high = (-EXPONENT_BIAS - shift - 0.3) * LN2, (129 + halve) * LN2
    scale, r = _split_exp(f, f.min(f.max(x, low), high), shift)
    y = _mantissa(f, r) * scale
    # The last doubling is what overflows, and only where the result does.
    return y + y


def exp_nonpositive(f: Function, x: Value) -> Value:
    """e^x for x <= 0: the softmax case, without guards above. Results below the normal range are zero."""
    scale, r = _split_exp(f, f.max(x, -88.2))
    return _mantissa(f, r) * scale


def _exp_in_range(f: Function, x: Value) -> Value:
    """e^x where the result is a normal number."""
    scale, r = _split_exp(f, x)
    return _mantissa(f, r) * scale


def expm1_nonpositive(f: Function, x: Value) -> Value:
    """e^x - 1, accurate near zero. Positive x gives 0, so that callers can select."""
    scale, r = _split_exp(f, f.min(f.max(x, -30.0), 0.0))
    p = f.fma(horner(f, fit.exp(), r), r * r, r)
    return f.fma(p, scale, scale - 1.0)


def sigmoid(f: Function, x: Value) -> Value:
    """1 / (1 + e^-x)."""
    return 1.0 / (exp(f, -x) + 1.0)


def silu(f: Function, x: Value) -> Value:
    """x / (1 + e^-x)."""
    return x / (exp(f, -x) + 1.0)


def tanh(f: Function, x: Value) -> Value:
    s = x * x
    t = f.abs(x)
    small = f.fma(t * s, horner(f, fit.tanh(), s), t)
    e = _exp_in_range(f, f.min(t + t, 20.0))
    large = 1.0 - 2.0 / (e + 1.0)
    return f.copysign(f.select(s >= fit.TANH_SPLIT, large, small), x)


def sinh(f: Function, x: Value) -> Value:
    s = x * x
    t = f.abs(x)
    small = f.fma(t * s, horner(f, fit.sinh(), s), t)
    half = exp(f, t, halve=True)
    return f.copysign(f.select(t >= 1.0, half - 0.25 / half, small), x)


def cosh(f: Function, x: Value) -> Value:
    half = exp(f, f.abs(x), halve=True)
    return half + 0.25 / half


# --- error function ---------------------------------------------------------------------------------------------------
def erf(f: Function, x: Value) -> Value:
    s = x * x
    small = f.fma(x, horner(f, fit.erf_small(), s), x)
    tail = _exp_in_range(f, horner(f, fit.erf_large(), f.min(f.abs(x), 4.0)))
    return f.select(s >= fit.ERF_SPLIT, f.copysign(1.0 - tail, x), small)


def gelu(f: Function, x: Value) -> Value:
    """x Phi(x) with the exact normal distribution: x - h for x > 0 and -h for x < 0, h = |x| erfc(|x| / sqrt 2) / 2.

    One branch, and accurate also in the tail, where 1 + erf cancels. At minus infinity it is NaN, as the product is.
    """
    t = f.min(f.abs(x), fit.GELU_LIMIT)
    s = t * t
    # t^2 has more bits than fit; e^-error is 1 - error.
    error = f.fma(t, t, -s)
    e = _exp_in_range(f, s * -0.5)
    scaled = t / f.fma(t, fit.GELU_SLOPE, 1.0)
    h = scaled * horner(f, fit.gelu(), scaled * fit.GELU_SLOPE) * f.fma(e, error * -0.5, e)
    return f.max(x, 0.0) - f.select(t >= fit.GELU_LIMIT, f.min(x, 0.0) * 0.0, h)


def gelu_tanh(f: Function, x: Value) -> Value:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, as x sigmoid(2 y)."""
    c = math.sqrt(2 / math.pi)
    y = x * f.fma(x * x, 2 * c * 0.044715, 2 * c)
    return silu_of(f, x, y)


def silu_of(f: Function, x: Value, y: Value) -> Value:
    """x sigmoid(y)."""
    return x / (exp(f, -y) + 1.0)


# --- logarithms -------------------------------------------------------------------------------------------------------
def _frexp(f: Function, x: Value) -> tuple[Value, Value]:
    """x = m 2^e for positive normal x, m from sqrt(1/2) to sqrt(2): returns (m, e as i32)."""
    bits = f.bitcast(x, I32)
    # 0x3F3504F3 is sqrt(1/2): the exponent turns over there.
    e = (bits - 0x3F3504F3) >> 23
    return f.bitcast(bits - (e << 23), F32), e


def log(f: Function, x: Value) -> Value:
    """Natural logarithm: -infinity at 0, NaN below."""
    tiny = x < SMALLEST_NORMAL
    m, exponent = _frexp(f, f.select(tiny, x * 2.0**23, x))
    e = f.convert(exponent, F32) - f.select(tiny, f.const(23.0, x.type), 0.0)
    r = m - 1.0
    s = r * r
    y = f.fma(horner(f, fit.log(), r), r * s, f.fma(e, LN2_LOW, s * -0.5))
    y = f.fma(e, LN2_HIGH, y + r)
    y = f.select(x < INFINITY, y, x)
    return f.select(x > 0.0, y, f.select(f.eq(x, 0.0), -INFINITY, f.const(math.nan, x.type)))


def log1p_unit(f: Function, y: Value) -> Value:
    """log(1 + y) for 0 <= y <= 1."""
    s = y / (y + 2.0)
    z = s * s
    twice = s + s
    return f.fma(twice * z, horner(f, fit.log1p(), z), twice)


def log1p(f: Function, y: Value) -> Value:
    """log(1 + y) for any y: what rounding took from 1 + y is put back."""
    u = y + 1.0
    correction = (y - (u - 1.0)) / u
    return log(f, u) + f.select(f.abs(u) < INFINITY, f.select(u > 0.0, correction, 0.0), 0.0)


def softplus(f: Function, x: Value) -> Value:
    """log(1 + e^x)."""
    return f.max(x, 0.0) + log1p_unit(f, exp_nonpositive(f, -f.abs(x)))


def mish(f: Function, x: Value) -> Value:
    """x tanh(softplus(x)) = x n / (n + 2) with n = e^x (e^x + 2)."""
    e = exp(f, f.min(x, 20.0))
    n = f.fma(e, e, e + e)
    return f.select(x > 20.0, x, x * (n / (n + 2.0)))


# --- powers -----------------------------------------------------------------------------------------------------------
def pow(f: Function, x: Value, y: Value) -> Value:
    """x^y by IEEE 754's rules (1^y = x^0 = 1, NaN for a negative x and a fractional y), through double precision."""
    magnitude = f.abs(x)
    tiny = magnitude < SMALLEST_NORMAL
    m, exponent = _frexp(f, f.select(tiny, magnitude * 2.0**23, magnitude))
    exponent = exponent - f.select(tiny, f.const(23, exponent.type), 0)
    wide = f.convert(m, F64)
    s = (wide - 1.0) / (wide + 1.0)
    z = s * s
    atanh = f.fma(s * z, horner(f, fit.atanh_double(), z), s)
    log2 = f.fma(atanh, 2 / LN2, f.convert(exponent, F64))
    # -1000..1000 covers far more than float32, and lets the final rounding make zeros, denormals and infinities.
    t = f.min(f.max(log2 * f.convert(y, F64), -1000.0), 1000.0)
    n = f.rint(t)
    fraction = horner(f, fit.exp2_double(), t - n)
    power = f.bitcast((f.extend_unsigned(_to_i32(f, n) + 1023, I64)) << 52, F64)
    result = f.convert(fraction * power, F32)

    whole = f.eq(f.trunc(y), y)
    half = y * 0.5
    odd = whole & f.ne(f.trunc(half), half) & (f.abs(y) < 2.0**24)
    zero = f.const(0.0, x.type)
    grows = y > 0.0
    result = f.select(f.eq(magnitude, 0.0), f.select(grows, zero, INFINITY), result)
    result = f.select(f.eq(magnitude, INFINITY), f.select(grows, f.const(INFINITY, x.type), 0.0), result)
    # y infinite: t is NaN for |x| = 1, where the answer is 1.
    large = f.eq(magnitude > 1.0, grows)
    extreme = f.select(f.eq(magnitude, 1.0), f.const(1.0, x.type), f.select(large, f.const(INFINITY, x.type), 0.0))
    result = f.select(f.eq(f.abs(y), INFINITY), extreme, result)
    negative = f.bitcast(x, I32) < 0
    result = f.select(negative & odd, -result, result)
    finite = (f.abs(x) < INFINITY) & (f.abs(y) < INFINITY)
    result = f.select((x < 0.0) & ~whole & finite, f.const(math.nan, x.type), result)
    result = f.select(f.is_nan(x) | f.is_nan(y), x + y, result)
    return f.select(f.eq(y, 0.0) | f.eq(x, 1.0), 1.0, result)


def fmod(f: Function, x: Value, y: Value) -> Value:
    """The exact remainder with the sign of x. NaN for infinite x or zero y."""
    a, b = f.convert(f.abs(x), F64), f.convert(f.abs(y), F64)
    r = a
    # The quotient of two float32 has at most 277 bits; each round removes 52 of them exactly (see the residual of a
    # correctly rounded division).
    for _ in range(6):
        r = f.fma(-f.trunc(r / b), b, r)
    r = f.select(r < 0.0, r + b, r)
    r = f.select(r >= b, r - b, r)
    result = f.copysign(f.convert(r, F32), x)
    result = f.select(f.eq(f.abs(y), INFINITY) & (f.abs(x) < INFINITY), x, result)
    return f.select(f.is_nan(x) | f.is_nan(y), x + y, result)


# --- circular functions -----------------------------------------------------------------------------------------------
def _to_i32(f: Function, x: Value) -> Value:
    """Float to i32 where it is known to fit: one instruction, undefined elsewhere."""
    target = x.type.with_element(I32)
    return f.emit(f"fptosi {x} to {target}", target)


def _quadrant(f: Function, x: Value) -> tuple[Value, Value]:
    """x = n pi/2 + r: returns (r, n mod 4), reduced in double precision: exact enough below 2^48, bounded above."""
    wide = f.convert(x, F64)
    n = f.rint(wide * (2 / math.pi))
    r = f.fma(n, -6.123233995736766e-17, f.fma(n, -math.pi / 2, wide))
    r = f.min(f.max(r, -1.0), 1.0)
    quadrant = n - f.floor(n * 0.25) * 4.0
    quadrant = f.select(f.abs(n) < 2.0**52, quadrant, 0.0)
    return f.convert(r, F32), _to_i32(f, quadrant)


def _sin_cos(f: Function, r: Value) -> tuple[Value, Value]:
    """sin and cos for |r| <= pi / 4."""
    s = r * r
    sine = f.fma(r * s, horner(f, fit.sin(), s), r)
    cosine = f.fma(s * s, horner(f, fit.cos(), s), f.fma(s, -0.5, 1.0))
    return sine, cosine


def _circular(f: Function, x: Value, turn: int) -> Value:
    r, quadrant = _quadrant(f, x)
    quadrant = quadrant + turn
    sine, cosine = _sin_cos(f, r)
    y = f.select(f.eq(quadrant & 1, 0), sine, cosine)
    return f.select(f.eq(quadrant & 2, 0), y, -y)


def sin(f: Function, x: Value) -> Value:
    """Sine; NaN at the infinities. Arguments beyond 2^48 lose accuracy."""
    return f.select(f.eq(x, 0.0), x, _circular(f, x, 0))


def cos(f: Function, x: Value) -> Value:
    """Cosine; NaN at the infinities. Arguments beyond 2^48 lose accuracy."""
    return _circular(f, x, 1)


def tan(f: Function, x: Value) -> Value:
    r, quadrant = _quadrant(f, x)
    sine, cosine = _sin_cos(f, r)
    y = f.select(f.eq(quadrant & 1, 0), sine / cosine, -cosine / sine)
    return f.select(f.eq(x, 0.0), x, y)


def _asin_small(f: Function, t: Value) -> Value:
    s = t * t
    return f.fma(t * s, horner(f, fit.asin(), s), t)


def asin(f: Function, x: Value) -> Value:
    """Arc sine; NaN outside [-1, 1]."""
    t = f.abs(x)
    large = t > 0.5
    y = _asin_small(f, f.select(large, f.sqrt((1.0 - t) * 0.5), t))
    return f.copysign(f.select(large, math.pi / 2 - (y + y), y), x)


def acos(f: Function, x: Value) -> Value:
    """Arc cosine; NaN outside [-1, 1]."""
    t = f.abs(x)
    large = t > 0.5
    y = _asin_small(f, f.select(large, f.sqrt((1.0 - t) * 0.5), x))
    outer = f.select(x < 0.0, math.pi - (y + y), y + y)
    return f.select(large, outer, math.pi / 2 - y)


def atan(f: Function, x: Value) -> Value:
    t = f.abs(x)
    large = t > 1.0
    t = f.select(large, 1.0 / t, t)
    s = t * t
    y = f.fma(t * s, horner(f, fit.atan(), s), t)
    return f.copysign(f.select(large, math.pi / 2 - y, y), x)


def asinh(f: Function, x: Value) -> Value:
    t = f.abs(x)
    s = t * t
    # log(t + sqrt(t^2 + 1)) = log1p(t + t^2 / (1 + sqrt(t^2 + 1))); t^2 overflows where log(2 t) is all there is.
    y = log1p(f, t + s / (f.sqrt(s + 1.0) + 1.0))
    return f.copysign(f.select(t > 1e9, log(f, t) + LN2, y), x)


def acosh(f: Function, x: Value) -> Value:
    """Inverse hyperbolic cosine; NaN below 1."""
    t = x - 1.0
    y = log1p(f, t + f.sqrt(t * (x + 1.0)))
    y = f.select(x > 1e9, log(f, x) + LN2, y)
    return f.select(x >= 1.0, y, f.const(math.nan, x.type))


def atanh(f: Function, x: Value) -> Value:
    """Inverse hyperbolic tangent; infinite at 1 and -1, NaN outside."""
    t = f.abs(x)
    return f.copysign(log1p(f, (t + t) / (1.0 - t)) * 0.5, x)


# --- piecewise functions of networks ----------------------------------------------------------------------------------
def elu(f: Function, x: Value, alpha: Operandish = 1.0) -> Value:
    """x above zero, alpha (e^x - 1) below."""
    return f.select(x > 0.0, x, expm1_nonpositive(f, x) * alpha)


def celu(f: Function, x: Value, alpha: float = 1.0) -> Value:
    """x above zero, alpha (e^(x / alpha) - 1) below."""
    return f.select(x > 0.0, x, expm1_nonpositive(f, x / alpha) * alpha)


def hard_sigmoid(f: Function, x: Value, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """alpha x + beta, held between 0 and 1."""
    return f.min(f.max(f.fma(x, alpha, beta), 0.0), 1.0)


def hardswish(f: Function, x: Value) -> Value:
    """x times x / 6 + 1/2 held between 0 and 1."""
    return x * hard_sigmoid(f, x, 1 / 6, 0.5)
