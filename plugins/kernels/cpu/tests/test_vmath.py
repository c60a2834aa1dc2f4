"""Vector functions against double precision, in units in the last place, and at the special values."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from autofusion_kernels_cpu.codegen import vmath
from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.native.jit import jit
from plugins.kernels.cpu.tests.native_support import RUNNABLE, isa_named

erf = np.vectorize(math.erf)
erfc = np.vectorize(math.erfc)


def compiled(isa, function):
    """The vector function as a function of one array."""
    module = Module(isa_named(isa))
    with (
        module.kernel("unary", ["x", "y"], ["n"]) as f,
        f.vector_loop(0, f.param["n"]) as loop,
    ):
        x = f.load(f.buffer["x"], loop.index, mask=loop.mask)
        f.store(function(f, x), f.buffer["y"], loop.index, mask=loop.mask)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(jit().kernel(module))

    def run(x):
        x = np.ascontiguousarray(x, np.float32)
        y = np.empty_like(x)
        buffers, params = np.array([x.ctypes.data, y.ctypes.data]), np.array([x.size])
        call(buffers.ctypes.data, params.ctypes.data, 0, 1)
        return y

    return run


def ulps(found, wanted):
    """Error in units in the last place of the correctly rounded result; results below the normal range count as it."""
    rounded = wanted.astype(np.float32)
    return np.abs(found - wanted) / np.spacing(np.maximum(np.abs(rounded), np.float32(2.0**-126))).astype(np.float64)


def _elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def _gelu_tanh(x):
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# Reference, interval, allowed units in the last place.
FUNCTIONS = {
    "exp": (np.exp, -86.6, 88.72, 1.1),
    "log": (np.log, 1e-38, 1e30, 1),
    "log1p": (np.log1p, -0.9999, 1e5, 2),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -86, 80, 2.5),
    "silu": (lambda x: x / (1 + np.exp(-x)), -80, 80, 2.5),
    "tanh": (np.tanh, -12, 12, 1.5),
    "erf": (erf, -4.5, 4.5, 1.2),
    "gelu": (lambda x: 0.5 * x * erfc(-x / math.sqrt(2)), -12.9, 13, 6),
    "gelu_tanh": (_gelu_tanh, -1.5, 13, 5),
    "softplus": (_softplus, -80, 90, 2.5),
    "mish": (lambda x: x * np.tanh(_softplus(x)), -80, 90, 3.5),
    "sin": (np.sin, -1e4, 1e4, 1.6),
    "cos": (np.cos, -1e4, 1e4, 1.6),
    "tan": (np.tan, -100, 100, 3.5),
    "sinh": (np.sinh, -89, 89, 1.6),
    "cosh": (np.cosh, -89, 89, 1.6),
    "asin": (np.arcsin, -1, 1, 2.5),
    "acos": (np.arccos, -1, 1, 1.5),
    "atan": (np.arctan, -50, 50, 1.7),
    "asinh": (np.arcsinh, -1e5, 1e5, 2),
    "acosh": (np.arccosh, 1, 1e5, 2.5),
    "atanh": (np.arctanh, -0.99999, 0.99999, 2.5),
    "elu": (_elu, -90, 10, 1.1),
    "celu": (_elu, -90, 10, 1.1),
}


def samples(low, high):
    """Evenly spread, close to zero, and over all magnitudes."""
    rng = np.random.default_rng(0)
    tiny = 10.0 ** rng.uniform(-30, 0, 20000) * rng.choice([-1, 1], 20000)
    x = np.concatenate([np.linspace(low, high, 40001), rng.standard_normal(20000) * 0.1, tiny])
    return np.clip(x, low, high).astype(np.float32)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name, isa):
    reference, low, high, limit = FUNCTIONS[name]
    x = samples(low, high)
    found = compiled(isa, getattr(vmath, name))(x)
    wanted = reference(x.astype(np.float64))
    error = ulps(found, wanted)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, f"{name}({x[worst]!r}) is {found[worst]!r}, expected {wanted[worst]!r}"


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 100, -100, 1e30, -1e30, 1, -1], np.float32)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name, isa):
    """Where the double-precision formula is infinity times zero, ours may give the limit."""
    x = SPECIAL if name not in ("sin", "cos", "tan") else SPECIAL[np.abs(SPECIAL) != np.float32(1e30)]
    if name in ("gelu", "gelu_tanh", "mish", "silu"):
        x = x[~np.isneginf(x)]
    found = compiled(isa, getattr(vmath, name))(x)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name][0](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-37)
    # log1p only serves odd functions, which put the sign back.
    zero = (x == 0) & (wanted == 0) & (name != "log1p")
    assert (np.signbit(found[zero]) == np.signbit(wanted[zero])).all(), f"{name}: the sign of zero is lost"


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_nan_stays_nan(name, isa):
    """Bit tricks on the exponent must not turn a NaN with any payload into a number."""
    bits = np.array([0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF, 0x7FABCDEF], np.uint32)
    assert np.isnan(compiled(isa, getattr(vmath, name))(bits.view(np.float32))).all()


def test_limits_at_minus_infinity():
    """NaN, as in the products that they stand for: minus infinity times 0."""
    x = np.array([-np.inf, -40.0, np.inf], np.float32)
    for isa in RUNNABLE:
        for name in ("gelu", "gelu_tanh"):
            np.testing.assert_array_equal(compiled(isa, getattr(vmath, name))(x), [np.nan, 0, np.inf])
