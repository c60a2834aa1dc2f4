"""Pointwise operators and regions against the reference kernels: all element types, broadcasting, layouts, threads."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from autofusion.ir.infer import infer_node
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.pointwise import OPERATORS
from autofusion_kernels_cpu.pointwise.offers import offers
from plugins.kernels.cpu.tests.kernel_harness import check, make_node, node_with_type, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

BF16 = np.dtype(ml_dtypes.bfloat16)
SPECIAL = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1e-40,
    1e30,
    -1e30,
    3.0,
    88.0,
    -88.0,
]


def values(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        data = rng.integers(max(info.min, -9), 10, shape).astype(dtype)
        data.reshape(-1)[:2] = [info.max, info.min][: data.size]
        return data
    data = (rng.standard_normal(shape) * 3).astype(dtype)
    with np.errstate(over="ignore"):
        data.reshape(-1)[: len(SPECIAL)] = np.array(SPECIAL, dtype)[: data.size]
    return data


# Where the float32 results of the reference differ from the vector functions: units in the last place, about 1.2e-7.
CLOSE = {"rtol": 6e-7, "atol": 1e-37}
LOOSE = {
    "Softplus": {"rtol": 1e-6, "atol": 1e-7},
    "Mish": {"rtol": 2e-6, "atol": 1e-30},
    "Gelu": {"rtol": 2e-6, "atol": 3e-7},
    "Selu": {"rtol": 1e-6, "atol": 2e-7},
    "Elu": {"rtol": 1e-6, "atol": 2e-7},
    "Celu": {"rtol": 1e-6, "atol": 2e-7},
    "Sigmoid": {"rtol": 1e-6, "atol": 1e-37},
    "Swish": {"rtol": 1e-6, "atol": 1e-37},
    "HardSigmoid": {"rtol": 1e-6, "atol": 2e-7},
    "HardSwish": {"rtol": 1e-6, "atol": 1e-6},
    "Acosh": {"rtol": 1e-6, "atol": 0},
    "Asinh": {"rtol": 1e-6, "atol": 1e-37},
    "Sinh": {"rtol": 1e-6, "atol": 1e-37},
    "Tan": {"rtol": 1e-6, "atol": 1e-37},
}
EXACT = "Abs Ceil Floor Identity Neg Reciprocal Relu Round Shrink Sign Sqrt ThresholdedRelu".split()
UNARY = [
    *EXACT,
    *"Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Log".split(),
    *"Mish Selu Sigmoid Sin Sinh Softplus Softsign Tan Tanh".split(),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", UNARY)
def test_unary_float(op, isa):
    x = values(np.float32, (3, 37))
    if op in ("Sin", "Cos", "Tan"):
        x = np.where(np.abs(x) > 1e6, np.float32(7), x)
    check(offers, op, [x], isa=isa, **({} if op in EXACT else LOOSE.get(op, CLOSE)))


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Gelu", {"approximate": "tanh"}),
        ("Elu", {"alpha": 0.3}),
        ("Celu", {"alpha": 2.0}),
        ("LeakyRelu", {"alpha": -0.5}),
        ("Shrink", {"bias": 0.5, "lambd": 1.5}),
        ("HardSigmoid", {"alpha": 0.1, "beta": 0.6}),
        ("ThresholdedRelu", {"alpha": 2.0}),
    ],
)
def test_attributes(op, attrs, isa):
    x = np.random.default_rng(1).standard_normal((5, 19)).astype(np.float32) * 4
    x[0, :3] = np.inf, -np.inf, np.nan
    check(offers, op, [x], attrs, isa=isa, rtol=2e-6, atol=3e-7)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_swish(alpha, isa):
    x = np.random.default_rng(1).standard_normal((5, 19)).astype(np.float32) * 4
    wanted = (x / (1 + np.exp(-alpha * x.astype(np.float64)))).astype(np.float32)
    check(offers, "Swish", [x], {"alpha": alpha}, isa=isa, expected=[wanted], rtol=2e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("attrs", [{}, {"detect_negative": 0}, {"detect_positive": 0}])
def test_tests(attrs, isa):
    x = values(np.float32, (2, 29))
    check(offers, "IsInf", [x], attrs, isa=isa)
    check(offers, "IsNaN", [x], isa=isa)


BINARY_DTYPES = [np.float32, np.int32, np.int64, np.uint8, np.int8, np.uint64, np.float64, np.float16, BF16]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", BINARY_DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    "op", "Add Sub Mul Div Max Min Equal Greater GreaterOrEqual Less LessOrEqual PRelu Mod".split()
)
def test_binary(op, dtype, isa):
    a, b = values(dtype, (3, 35)), values(dtype, (3, 35), 2)[::-1].copy()
    dtype = np.dtype(dtype)
    if dtype == BF16 and op == "Mod":
        pytest.skip("the reference has none")
    if op == "PRelu" and dtype.kind in "iu":
        pytest.skip("our kernels have none")
    attrs = {"fmod": 1} if op == "Mod" and dtype.kind not in "iu" else {}
    if op == "Mod" and dtype == np.float64:
        return
    if op in ("Div", "Mod") and dtype.kind in "iu":
        b = np.where(b == 0, b.dtype.type(3), b)
        # The quotient of the smallest number and -1 does not exist.
        b = np.where(b == b.dtype.type(-1 if dtype.kind == "i" else 250), b.dtype.type(2), b)
    check(offers, op, [a, b], attrs, isa=isa)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint16, np.int64], ids=lambda d: np.dtype(d).name)
def test_division_that_would_trap(dtype, isa):
    info = np.iinfo(dtype)
    a = np.array([info.min, 5, info.max, info.min] * 9, dtype)
    b = np.array([info.min if info.min == 0 else -1, 0, 0, 0] * 9, dtype)
    wanted = np.array([info.min, 0, 0, 0] * 9, dtype)
    check(offers, "Div", [a, b], isa=isa, expected=[wanted])
    for fmod in (0, 1):
        check(offers, "Mod", [a, b], {"fmod": fmod}, isa=isa, expected=[np.zeros_like(a)])


@pytest.mark.parametrize("isa", RUNNABLE)
def test_mod_sign(isa):
    a = np.array([7, -7, 7, -7, 6, 0, -1] * 5, np.int64)
    b = np.array([3, 3, -3, -3, 3, 5, 4] * 5, np.int64)
    check(offers, "Mod", [a, b], isa=isa)
    check(offers, "Mod", [a, b], {"fmod": 1}, isa=isa)
    x = np.array([1e38, 5.3, -5.3, 1e-40, 7, 1e30, 3, np.inf, 2], np.float32)
    y = np.array([1e-38, 2.1, 2.1, 1.0, -2, 3.7, np.inf, 2, 0], np.float32)
    check(offers, "Mod", [x, y], {"fmod": 1}, isa=isa)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_pow(isa):
    rng = np.random.default_rng(0)
    special = np.array(SPECIAL, np.float32)
    a, b = (m.ravel() for m in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        wanted = np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    check(offers, "Pow", [a, b], isa=isa, expected=[wanted], rtol=2e-7)
    a = np.exp(rng.uniform(-20, 20, 400)).astype(np.float32)
    b = rng.uniform(-5, 5, 400).astype(np.float32)
    with np.errstate(over="ignore"):
        wanted = np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    check(offers, "Pow", [a, b], isa=isa, expected=[wanted], rtol=2e-7)
    a = values(np.float32, (70,))
    for exponent in (2.0, 3.0, 1.0, -1.0, 0.5, 0.0, 4.0, 1.7):
        for dtype in (np.float32, np.int64) if exponent == int(exponent) else (np.float32,):
            e = np.array(exponent, dtype)
            with np.errstate(all="ignore"):
                wanted = np.power(a.astype(np.float64), np.full(len(a), exponent)).astype(np.float32)
            check(offers, "Pow", [a, e], isa=isa, constants=[1], expected=[wanted], rtol=3e-7, atol=1e-37)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.int32, np.int64, np.uint8, np.float16], ids=lambda d: np.dtype(d).name
)
def test_clip(dtype, isa):
    x = values(dtype, (4, 21))
    low, high = np.array(1, dtype), np.array(3, dtype)
    check(offers, "Clip", [x], isa=isa)
    check(offers, "Clip", [x, low], isa=isa)
    check(offers, "Clip", [x, None, high], isa=isa)
    check(offers, "Clip", [x, low, high], isa=isa)
    check(offers, "Clip", [x, low, high], isa=isa, constants=[1, 2])
    check(offers, "Clip", [x, high, low], isa=isa, constants=[1, 2])
    nan = np.array(np.nan, dtype) if np.dtype(dtype).kind == "f" else low
    for constants in ((), (1, 2)):
        check(offers, "Clip", [x, nan, high], isa=isa, constants=constants)
        check(offers, "Clip", [x, low, nan], isa=isa, constants=constants)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_logic_and_bits(isa):
    a, b = values(bool, (3, 41)), values(bool, (3, 41), 1)
    for op in ("And", "Or", "Xor", "Equal"):
        check(offers, op, [a, b], isa=isa)
    check(offers, "Not", [a], isa=isa)
    for dtype in (np.int32, np.uint8, np.int64):
        x, y = values(dtype, (50,)), values(dtype, (50,), 1)
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            check(offers, op, [x, y], isa=isa)
        check(offers, "BitwiseNot", [x], isa=isa)
    for dtype in (np.uint8, np.uint32, np.uint64):
        x = values(dtype, (50,))
        y = (np.arange(50) % (np.dtype(dtype).itemsize * 8)).astype(dtype)
        for direction in ("LEFT", "RIGHT"):
            check(offers, "BitShift", [x, y], {"direction": direction}, isa=isa)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool, np.float16, np.uint8], ids=lambda d: np.dtype(d).name)
def test_where(dtype, isa):
    check(
        offers,
        "Where",
        [values(bool, (3, 1, 17)), values(dtype, (4, 17)), values(dtype, (1,), 5)],
        isa=isa,
    )


CASTS = [np.float32, np.float64, np.float16, BF16, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, bool]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("target", CASTS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("source", CASTS, ids=lambda d: np.dtype(d).name)
def test_cast(source, target, isa):
    target = np.dtype(target)
    x = values(source, (2, 43))
    if np.dtype(source).kind in "fV" and target.kind in "iu":
        # Out of range (and negative to unsigned) is undefined.
        x = np.clip(np.nan_to_num(x.astype(np.float32), nan=1.0), 0 if target.kind == "u" else -100, 100).astype(source)
    check(offers, "Cast", [x], {"to": target}, isa=isa)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("target", [np.int8, np.int32, np.uint32, np.int64, np.uint8], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_cast_saturates(source, target, isa):
    """What does not fit becomes the nearest that does, and NaN 0, in vectors as in single numbers."""
    if source == np.float64 and target == np.uint8:
        pytest.skip("one source is enough for the narrow ones")
    ends = np.array([2.0**7, 2.0**8, 2.0**31, 2.0**32, 2.0**63, 2.0**64], source)
    x = np.concatenate([ends, -ends, np.nextafter(ends, source(0)), -np.nextafter(ends, source(0)) - source(1)])
    x = np.concatenate([x, np.array([0.0, -0.0, 0.9, -0.9, -1.0, 1e30, -1e30, np.inf, -np.inf, np.nan], source)])
    limits = np.iinfo(target)
    exact = [0 if v != v else int(min(max(v, limits.min), limits.max)) for v in map(float, x)]
    check(offers, "Cast", [x], {"to": np.dtype(target)}, isa=isa, expected=[np.array(exact, target)])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "shapes",
    [
        [(3, 5, 7), (3, 5, 7)],
        [(3, 5, 7), (7,)],
        [(3, 5, 7), (5, 1)],
        [(3, 5, 7), (3, 1, 1)],
        [(3, 5, 7), (3, 1, 7)],
        [(3, 5, 7), ()],
        [(3, 5, 1), (1, 1, 7)],
        [(2, 1, 3, 1, 4, 1), (1, 5, 1, 2, 1, 6)],
        [(2, 3, 4, 5, 6), (4, 1, 6)],
        [(1,), (1,)],
        [(), ()],
        [(1, 1, 1), (1,)],
        [(0, 3), (3,)],
        [(64, 1), (1,)],
        [(1, 9000), (1, 9000)],
        [(2, 40, 100), (40, 1)],
    ],
    ids=str,
)
def test_broadcasting(shapes, threads, isa):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    check(offers, "Sub", [a, b], isa=isa, threads=threads)
    check(offers, "Sub", [b, a], isa=isa, threads=threads, constants=[0])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    "shape",
    [
        (2, 19, 5, 7),
        (1, 16, 3, 3),
        (1, 1, 4, 4),
        (2, 33, 1, 1),
        (1, 20, 6, 1),
        (1, 20, 1, 6),
        (2, 5, 9),
        (1, 17, 2, 3, 4),
        (1, 64, 40, 40),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [1, 3])
def test_blocked(shape, threads, isa):
    """Blocked tensors with borders; parameters along the channel, per position, and scalars, constant or not."""
    rng = np.random.default_rng(0)
    n, c, *spatial = shape
    ones = [1] * len(spatial)
    x = rng.standard_normal(shape).astype(np.float32)
    lanes = {"avx512": 16, "avx2": 8, "neon": 4}[isa]
    for other, constants in [
        (shape, []),
        ((1, c, *ones), [1]),
        ((c, *ones), [1]),
        ((n, c, *ones), []),
        ((1, c, *spatial), []),
        ((1, 1, *spatial), []),
        ((n, 1, *spatial), [1]),
        (tuple(spatial), []),
        ((spatial[-1],), [1]),
        ((), []),
        ((1,), [1]),
    ]:
        y = rng.standard_normal(other).astype(np.float32)
        node = make_node("Sub", [x, y], constants=constants)
        check(offers, "Sub", [x, y], isa=isa, threads=threads, constants=constants)
        made = offers(node_with_type(node, x - y), target_for(isa))
        assert not isinstance(made, Refusal)
        assert [o.outputs[0].layout.block for o in made] == [0, lanes], other


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("layout", ["plain", "blocked"])
def test_batch_normalization(layout, isa):
    rng = np.random.default_rng(0)
    for shape in [(2, 19, 5, 7), (3, 24), (2, 5, 9)]:
        x = rng.standard_normal(shape).astype(np.float32)
        scale, bias, mean = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(3))
        variance = rng.random(shape[1]).astype(np.float32) + 0.1
        for constants in ([1, 2, 3, 4], []):
            check(
                offers,
                "BatchNormalization",
                [x, scale, bias, mean, variance],
                {"epsilon": 1e-3},
                isa=isa,
                constants=constants,
                rtol=2e-5,
                atol=2e-6,
            )


def test_statistics_of_another_type_are_refused():
    """ONNX allows them, and the reference kernels run them."""
    x, wide = np.zeros((1, 3, 4), np.float32), np.ones(3)
    node = make_node("BatchNormalization", [x, *[wide.astype(np.float32)] * 2, wide, wide])
    infer_node(node)
    answer = offers(node, target_for(RUNNABLE[0]))
    assert isinstance(answer, Refusal) and "another element type" in answer.reason


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16], ids=lambda d: np.dtype(d).name)
def test_quantize_and_dequantize(dtype, isa):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((3, 5, 21)) * 50).astype(np.float32)
    x.reshape(-1)[:6] = [np.nan, np.inf, -np.inf, 1e9, -1e9, 0.5]
    info = np.iinfo(dtype)
    for shape, attrs in [((), {}), ((1,), {}), ((5,), {}), ((3,), {"axis": 0}), ((21,), {"axis": -1})]:
        scale = (rng.random(shape) + 0.1).astype(np.float32)
        zero = rng.integers(info.min // 2, info.max // 2, shape).astype(dtype)
        for constants in ([], [1, 2]):
            check(offers, "QuantizeLinear", [x, scale, zero], attrs, isa=isa, constants=constants)
            q = rng.integers(info.min, info.max + 1, x.shape).astype(dtype)
            check(offers, "DequantizeLinear", [q, scale, zero], attrs, isa=isa, constants=constants, rtol=2e-7)
            check(offers, "DequantizeLinear", [q, scale], attrs, isa=isa, constants=constants[:1], rtol=2e-7)


FILES = ("test_pointwise.py", "test_pointwise_regions.py", "test_tables.py")


def test_every_operator_is_tested():
    """The operators of the table that no test here, or of tables of bytes, names."""
    source = "".join(Path(__file__).with_name(name).read_text() for name in FILES)
    assert [op for op in OPERATORS if not re.search(rf"\b{op}\b", source)] == []


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["Mean", "Sum", "Max", "Min", "Add", "Mul"])
def test_variadic(op, isa):
    arrays = [values(np.float32, (3, 1, 23)), values(np.float32, (4, 23), 1), values(np.float32, (1,), 2)]
    for count in (1, 2, 3) if op in ("Mean", "Sum", "Max", "Min") else (2,):
        check(offers, op, arrays[:count], isa=isa, rtol=1e-6)
