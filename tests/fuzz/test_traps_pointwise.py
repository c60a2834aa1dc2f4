"""Clips, NaN, integers and activations: fresh variations of the traps of ``tests/cases``.

A case shows one form of a mistake; these show others, so that what holds is the kind and not the case: all levels
against onnxruntime with nothing optimised. The numbers are those of the cases.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.trap_models import F32, Trap, Traps, f32, node, pos

TRAPS = Traps()
traps = TRAPS.register


# ---- 019 to 023, 055: Clip, Min, Max and NaN ---------------------------------------------------------------------

_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.5, -7.0, 6.0, 0.5, 1e-30], F32)


@traps("none", "min", "max", "both", "crossed", "computed", "nan_bound", "relu_crossed", "negative_max", "inf")
def clips(kind: str) -> Trap:
    x = np.tile(_SPECIAL, (2, 1))
    low, high = {
        "crossed": (2.0, -1.0),
        "relu_crossed": (0.5, -2.0),
        "negative_max": (-5.0, -1.0),
        "inf": (-np.inf, np.inf),
    }.get(kind, (0.0, 6.0))
    consts = {"lo": np.array(low, F32), "hi": np.array(high, F32)}
    if kind == "nan_bound":
        consts["hi"] = np.array(np.nan, F32)
        expected = {"y": np.full_like(x, np.nan)}
        return Trap([node("Relu", "x", "r"), node("Clip", "r lo hi")], {"x": x}, consts, expected=expected)
    operands = {"none": "r", "min": "r lo", "max": "r _ hi"}.get(kind, "r lo hi")
    if kind == "computed":
        nodes = [node("Relu", "x", "r"), node("ReduceMin", "z", "hi", keepdims=0), node("Clip", "r _ hi")]
        return Trap(nodes, {"x": x, "z": pos(3)}, {})
    nodes = [node("Relu", "x", "r"), node("Clip", operands, "c"), node("Relu", "c")]
    lo, hi = (low if kind not in ("none", "max") else -np.inf), (high if kind not in ("none", "min") else np.inf)
    want = np.maximum(np.minimum(np.maximum(np.maximum(x, 0), F32(lo)), F32(hi)), 0)
    return Trap(nodes, {"x": x}, consts, expected={"y": want})


@traps(
    "min_max",
    "max_min",
    "min_max_crossed",
    "max_min_crossed",
    "vector_bound",
    "enlarging_bound",
    "three",
    "relu_min",
    "shared",
)
def min_max(kind: str) -> Trap:
    x = np.tile(_SPECIAL, (2, 1))
    consts = {"lo": np.array([0.0], F32), "hi": np.array(6.0, F32)}
    first, second = ("Max", "Min") if kind.startswith("min") else ("Min", "Max")
    a, b = ("lo", "hi") if first == "Max" else ("hi", "lo")
    if kind.endswith("crossed"):
        consts = {"lo": np.array(2.0, F32), "hi": np.array(-1.0, F32)}
    if kind == "vector_bound":
        consts["hi"] = np.linspace(-1, 8, 10, dtype=F32)
    if kind == "enlarging_bound":
        consts["lo"] = np.zeros((1, 1, 1), F32)
    nodes = [node(first, f"x {a}", "t"), node(second, f"{b} t")]
    if kind == "three":
        nodes = [node("Max", "x lo z", "t"), node("Min", "t hi")]
        consts["z"] = np.array(-3.0, F32)
    if kind == "relu_min":
        nodes = [node("Relu", "x", "t"), node("Min", "t hi")]
    outputs = "y t" if kind == "shared" else "y"
    lo, hi = consts["lo"], consts["hi"]
    with np.errstate(invalid="ignore"):
        t = np.maximum(x, lo) if first == "Max" else np.minimum(x, hi)
        if kind in ("three", "relu_min"):
            t = np.maximum(x, np.float32(0))
        y = np.minimum(hi, t) if second == "Min" or kind in ("three", "relu_min") else np.maximum(lo, t)
    return Trap(nodes, {"x": x}, consts, outputs, expected={"y": y, **({"t": t} if kind == "shared" else {})})


@traps(
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "Softplus",
    "Elu",
    "Selu",
    "Abs",
    "Sign",
    "Floor",
    "Sqrt",
    "HardSwish",
)
def nan_through(op: str) -> Trap:
    x = np.tile(_SPECIAL, (1, 3, 2, 1))
    nodes = [node(op, "x", "a"), node("Max", "a n", "b"), node("Min", "b p", "c"), node("Add", "c z")]
    consts = {"n": np.array(-5, F32), "p": np.array(5, F32), "z": np.zeros((3, 1, 1), F32)}
    x64 = x.astype(np.float64)
    with np.errstate(all="ignore"):
        a = {
            "Relu": np.maximum(x64, 0),
            "LeakyRelu": np.where(x64 < 0, 0.01 * x64, x64),
            "Sigmoid": 1 / (1 + np.exp(-x64)),
            "Tanh": np.tanh(x64),
            "HardSigmoid": np.maximum(0, np.minimum(1, 0.2 * x64 + 0.5)),
            "Softplus": np.logaddexp(x64, 0),
            "Elu": np.where(x64 < 0, np.expm1(x64), x64),
            "Selu": 1.0507009873554805 * np.where(x64 <= 0, 1.6732632423543772 * np.expm1(x64), x64),
            "Abs": np.abs(x64),
            "Sign": np.sign(x64),
            "Floor": np.floor(x64),
            "Sqrt": np.sqrt(x64),
            "HardSwish": x64 * np.maximum(0, np.minimum(1, x64 / 6 + 0.5)),
        }[op]
        want = np.minimum(np.maximum(a, -5), 5).astype(F32)
    return Trap(nodes, {"x": x}, consts, expected={"y": want})


@traps("max", "min", "both", "neither", "int_types")
def clip_attributes(kind: str) -> Trap:
    x = f32(3, 5) * 4
    if kind == "int_types":
        nodes = [node("Clip", "x lo hi")]
        return Trap(
            nodes,
            {"x": np.arange(-6, 6, dtype=np.int32)},
            {"lo": np.array(-2, np.int32), "hi": np.array(3, np.int32)},
            opset=13,
        )
    attrs: dict[str, object] = {"max": 2.0} if kind in ("max", "both") else {}
    attrs |= {"min": -1.0} if kind in ("min", "both") else {}
    nodes = [
        node("Relu", "x", "r"),
        node("Clip", "r", "c", **attrs),
        node("Clip", "x", "d", **attrs),
        node("Add", "c d"),
    ]
    return Trap(nodes, {"x": x}, opset=9)


# ---- 027, 032: integers ------------------------------------------------------------------------------------------


@traps("int32", "int64", "int8", "uint8")
def integer_division(kind: str) -> Trap:
    dtype = np.dtype(kind)
    x = np.arange(-9 if dtype.kind == "i" else 0, 9).astype(dtype)
    divisor = np.array(-4 if dtype.kind == "i" else 4, dtype)
    nodes = [node("Div", "x d", "q"), node("Mul", "q d", "y"), node("Sub", "x y", "z")]
    q = (np.trunc(x.astype(np.float64) / divisor)).astype(dtype)
    return Trap(nodes, {"x": x}, {"d": divisor}, "y z", expected={"y": q * divisor, "z": x - q * divisor}, opset=14)


@traps("f32.i32", "f32.i64", "f32.bool", "f32.f16", "f64.f32", "f32.f64", "i64.i32", "f32.u8", "bool.f32", "i32.f32")
def cast_round_trip(kind: str) -> Trap:
    names = {
        "f32": np.float32,
        "f64": np.float64,
        "f16": np.float16,
        "i32": np.int32,
        "i64": np.int64,
        "bool": np.bool_,
        "u8": np.uint8,
    }
    source, through = (np.dtype(names[n]) for n in kind.split("."))
    x = np.array([2.7, 0.0, 1.5, 0.25, 100.9, 3.0000002, 65.4321], np.float64)
    if through.kind != "u" and source.kind != "b":
        x = np.concatenate([x, -x])
    from onnx import helper

    to = [helper.np_dtype_to_tensor_dtype(d) for d in (through, source)]
    x = x.astype(source)
    nodes = [node("Cast", "x", "t", to=to[0]), node("Cast", "t", "y", to=to[1])]
    return Trap(nodes, {"x": x}, outputs="y", expected={"y": x.astype(through).astype(source)})


# ---- 042, 069, 043: GELU, Swish and what looks like them ---------------------------------------------------------


@traps(
    "erf",
    "divisor",
    "half",
    "one",
    "other_x",
    "other_erf_x",
    "bracket_is_output",
    "erf_is_output",
    "scale_vector",
    "sub",
    "no_half",
)
def gelu(kind: str) -> Trap:
    divisor = np.array(1.42 if kind == "divisor" else math.sqrt(2), F32)
    consts = {
        "d": divisor,
        "h": np.array(0.499 if kind == "half" else 0.5, F32),
        "o": np.array(1.01 if kind == "one" else 1.0, F32),
    }
    if kind == "scale_vector":
        consts["h"] = np.array([0.5, 0.5, 0.5, 0.6], F32)
    feeds = {"x": f32(3, 4), **({"z": f32(3, 4, seed=1)} if kind.startswith("other") else {})}
    inner, outer = ("z" if kind == "other_erf_x" else "x"), ("z" if kind == "other_x" else "x")
    nodes = [
        node("Div", f"{inner} d", "a"),
        node("Erf", "a", "e"),
        node("Sub" if kind == "sub" else "Add", "e o", "b"),
        node("Mul", f"{outer} b", "c"),
        node("Identity", "c", "y") if kind == "no_half" else node("Mul", "c h"),
    ]
    outputs = {"bracket_is_output": "y b", "erf_is_output": "y e"}.get(kind, "y")
    absent = () if kind in ("erf",) else ("pointwise.gelu_erf",)
    return Trap(nodes, feeds, consts, outputs, absent=absent, rtol=1e-5, atol=1e-6)


@traps("tanh", "cubic", "k", "power", "square_form", "integer_power", "is_output")
def gelu_tanh(kind: str) -> Trap:
    consts = {
        "three": np.array(3, np.int64) if kind == "integer_power" else np.array(2.9 if kind == "power" else 3.0, F32),
        "cubic": np.array(0.0452 if kind == "cubic" else 0.044715, F32),
        "k": np.array(0.8 if kind == "k" else math.sqrt(2 / math.pi), F32),
        "one": np.array(1.0, F32),
        "half": np.array(0.5, F32),
    }
    x = pos(3, 4) if kind == "power" else f32(3, 4)
    cube = [node("Pow", "x three", "p")]
    if kind == "square_form":
        cube = [node("Mul", "x x", "sq"), node("Mul", "sq x", "p")]
    nodes = [
        *cube,
        node("Mul", "p cubic", "q"),
        node("Add", "x q", "r"),
        node("Mul", "r k", "s"),
        node("Tanh", "s", "t"),
        node("Add", "t one", "u"),
        node("Mul", "x u", "v"),
        node("Mul", "v half"),
    ]
    absent = () if kind in ("tanh", "square_form", "integer_power") else ("pointwise.gelu_tanh",)
    return Trap(nodes, {"x": x}, consts, "y t" if kind == "is_output" else "y", absent=absent, rtol=1e-5, atol=1e-6)


@traps("plain", "alpha", "alpha_vector", "gate_is_output", "both_outputs", "other", "hard", "enlarging", "chain")
def swish(kind: str) -> Trap:
    x, consts, outputs = f32(2, 4), {"a": np.array(1.702, F32)}, "y"
    feeds = {"x": x}
    nodes = [node("Sigmoid", "x", "g"), node("Mul", "x g")]
    if kind.startswith("alpha") or kind == "both_outputs":
        nodes = [node("Mul", "x a", "s"), node("Sigmoid", "s", "g"), node("Mul", "g x")]
        if kind == "alpha_vector":
            consts["a"] = f32(4)
        if kind == "both_outputs":
            outputs = "y s g"
    if kind == "gate_is_output":
        outputs = "g y"
    if kind == "other":
        feeds["z"] = f32(2, 4, seed=4)
        nodes = [node("Sigmoid", "x", "g"), node("Mul", "z g")]
    if kind == "hard":
        nodes = [node("HardSigmoid", "x", "g", alpha=0.2), node("Mul", "x g")]
    if kind == "enlarging":
        consts["a"] = np.ones((1, 1, 1), F32)
        nodes = [node("Mul", "x a", "s"), node("Sigmoid", "s", "g"), node("Mul", "x g")]
    if kind == "chain":
        nodes = [node("Sigmoid", "x", "g"), node("Mul", "x g", "h"), node("Sigmoid", "h", "k"), node("Mul", "h k")]
    return Trap(nodes, feeds, consts, outputs)


# ---- 114, 115: what is only true of real numbers -----------------------------------------------------------------


@traps(
    "mul_zero",
    "sub_itself",
    "div_itself",
    "add_zero_minus",
    "epsilon",
    "divide_multiply",
    "exp_log",
    "large_then_small",
    "minus_zero",
)
def not_real_numbers(kind: str) -> Trap:
    x = np.array([np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 2.0], F32)
    consts = {
        "z": np.array(0, F32),
        "one": np.array(1, F32),
        "e": np.array(1e-10, F32),
        "t": np.array(3, F32),
        "l": np.array(1e8, F32),
    }
    nodes = {
        "mul_zero": [node("Mul", "x z")],
        "sub_itself": [node("Sub", "x x")],
        "div_itself": [node("Div", "x x")],
        "add_zero_minus": [node("Add", "x z", "a"), node("Reciprocal", "a")],
        "epsilon": [node("Sub", "one x", "a"), node("Add", "a e", "b"), node("Log", "b")],
        "divide_multiply": [node("Div", "x t", "a"), node("Mul", "a t")],
        "exp_log": [node("Exp", "x", "a"), node("Log", "a")],
        "large_then_small": [node("Add", "x l", "a"), node("Sub", "a l")],
        "minus_zero": [node("Neg", "z", "m"), node("Add", "x m", "a"), node("Reciprocal", "a")],
    }[kind]
    feeds = {"x": x if kind != "epsilon" else np.array([1.0, 0.5, 0.0], F32)}
    return Trap(nodes, feeds, consts)


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str, tmp_path: Path) -> None:
    TRAPS[name]().check(tmp_path)
