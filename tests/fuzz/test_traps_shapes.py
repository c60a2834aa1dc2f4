"""Reshapes, stored values and outputs: fresh variations of the traps of ``tests/cases``.

A case shows one form of a mistake; these show others, so that what holds is the kind and not the case: all levels
against onnxruntime with nothing optimised. The numbers are those of the cases.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.trap_models import F32, Trap, Traps, bn, bn_consts, f32, i64, node, pos

TRAPS = Traps()
traps = TRAPS.register


# ---- 029, 044, 045: reshapes -------------------------------------------------------------------------------------

_RESHAPES = {
    "two": ((2, 3, 4), [(6, 4), (4, 6)]),
    "zero_then_free": ((2, 3, 4), [(0, -1), (-1, 2)]),
    "free_first": ((2, 2, 3, 2), [(-1, 0, 0), (0, -1)]),
    "there_and_back": ((2, 3, 4), [(4, 3, 2), (2, 3, 4)]),
    "ones": ((2, 1, 3, 1), [(2, 3), (1, 2, 3)]),
    "empty": ((2, 0, 3), [(0, 0, 3), (3, 0, 2)]),
    "to_number": ((1, 1), [(1,), ()]),
}


@traps(*_RESHAPES)
def reshape_chain(kind: str) -> Trap:
    shape, targets = _RESHAPES[kind]
    nodes, consts, value = [], {}, "x"
    for index, target in enumerate(targets):
        consts[f"s{index}"] = np.array(target, np.int64)
        nodes.append(node("Reshape", f"{value} s{index}", f"r{index}", allowzero=int(kind == "empty" and index > 0)))
        value = f"r{index}"
    return Trap([*nodes, node("Relu", value)], {"x": f32(*shape)}, consts)


@traps("squeeze_squeeze", "negative", "unsqueeze_unsqueeze", "unsqueeze_squeeze", "other_axis", "opset11", "all")
def squeeze_chain(kind: str) -> Trap:
    x = f32(1, 3, 1, 4, 1)
    nodes, consts = {
        "squeeze_squeeze": ([node("Squeeze", "x a", "t"), node("Squeeze", "t b")], {"a": i64(0), "b": i64(1)}),
        "negative": ([node("Squeeze", "x a", "t"), node("Squeeze", "t b")], {"a": i64(-1), "b": i64(-4, -2)}),
        "unsqueeze_unsqueeze": (
            [node("Unsqueeze", "x a", "t"), node("Unsqueeze", "t b")],
            {"a": i64(1), "b": i64(0, -1)},
        ),
        "unsqueeze_squeeze": ([node("Unsqueeze", "x a", "t"), node("Squeeze", "t b")], {"a": i64(2), "b": i64(2)}),
        "other_axis": ([node("Unsqueeze", "x a", "t"), node("Squeeze", "t b")], {"a": i64(3), "b": i64(0)}),
        "opset11": ([node("Squeeze", "x", "t", axes=[0, 2]), node("Unsqueeze", "t", "y", axes=[-1, 0])], {}),
        "all": ([node("Squeeze", "x", "t"), node("Unsqueeze", "t b")], {"b": i64(1)}),
    }[kind]
    return Trap(nodes, {"x": x}, consts, opset=11 if kind == "opset11" else 17)


@traps("dynamic_batch", "two_open", "flatten", "computed_target", "zero_dynamic")
def open_reshape(kind: str) -> Trap:
    x, dims = f32(3, 4, 5), {"x": ["n", 4, 5]}
    nodes, consts = {
        "dynamic_batch": ([node("Reshape", "x s", "t"), node("Reshape", "t u")], {"s": i64(0, -1), "u": i64(-1, 5, 4)}),
        "two_open": ([node("Reshape", "x s", "t"), node("Relu", "t")], {"s": i64(0, 0, -1)}),
        "flatten": ([node("Flatten", "x", "t", axis=2), node("Reshape", "t s")], {"s": i64(-1, 4, 5)}),
        "computed_target": (
            [
                node("Shape", "x", "sh"),
                node("Gather", "sh i", "n"),
                node("Concat", "n m", "s", axis=0),
                node("Reshape", "x s"),
            ],
            {"i": i64(0), "m": i64(2, -1)},
        ),
        "zero_dynamic": ([node("Reshape", "x s", "t"), node("Softmax", "t", axis=1)], {"s": i64(0, -1)}),
    }[kind]
    if kind == "two_open":
        dims = {"x": ["n", "m", 5]}
    return Trap(nodes, {"x": x}, consts, dims=dims)


# ---- 030: Dropout ------------------------------------------------------------------------------------------------


@traps("mask_only", "both", "ratio", "opset7", "chain", "fed_training_flag")
def dropout(kind: str) -> Trap:
    x = f32(3, 4)
    if kind == "mask_only":
        return Trap([node("Dropout", "x r", "d m"), node("Cast", "m", "y", to=1)], {"x": x}, {"r": np.array(0.4, F32)})
    if kind == "both":
        return Trap(
            [node("Relu", "x", "a"), node("Dropout", "a", "y m"), node("Not", "m", "z")], {"x": x}, outputs="y z m"
        )
    if kind == "ratio":
        return Trap([node("Dropout", "x r t", "y")], {"x": x}, {"r": np.array(0.9, F32), "t": np.array(False)})
    if kind == "opset7":
        return Trap([node("Relu", "x", "a"), node("Dropout", "a", "b", ratio=0.7), node("Neg", "b")], {"x": x}, opset=7)
    if kind == "chain":
        return Trap([node("Dropout", "x", "a"), node("Dropout", "a", "b"), node("Add", "a b")], {"x": x}, outputs="y b")
    return Trap([node("Dropout", "x r t", "y m")], {"x": x, "t": np.array(False)}, {"r": np.array(0.5, F32)}, "y m")


# ---- 059, 060: stored values that callers may override -----------------------------------------------------------


@traps("bn.s", "bn.v", "w", "b", "s", "none", "shape", "clip_bound", "axes")
def overridable(kind: str) -> Trap:
    x = f32(1, 3, 4, 4)
    consts = {"w": f32(4, 3, 1, 1), "b": f32(4), "s": f32(4, 1, 1), **bn_consts(4)}
    nodes = [node("Conv", "x w b", "c"), bn("c", "d"), node("Mul", "d s", "e"), node("Relu", "e")]
    if kind == "none":
        return Trap(nodes, {"x": x}, consts, overridable=list(consts), ir_version=3, opset=8)
    if kind == "shape":
        nodes = [node("Reshape", "x r", "a"), node("Relu", "a")]
        return Trap(nodes, {"x": x, "r": i64(3, -1)}, {"r": i64(1, 48)}, overridable=["r"])
    if kind == "clip_bound":
        nodes = [node("Relu", "x", "r"), node("Clip", "r lo hi")]
        consts = {"lo": np.array(0, F32), "hi": np.array(6, F32)}
        return Trap(nodes, {"x": x, "hi": np.array(0.5, F32)}, consts, overridable=["hi", "lo"])
    if kind == "axes":
        nodes = [node("ReduceMean", "x a", "y", keepdims=0)]
        return Trap(nodes, {"x": x, "a": i64(1)}, {"a": i64(2)}, overridable=["a"], opset=18)
    fed = pos(*consts[kind].shape, seed=9)
    return Trap(nodes, {"x": x, kind: fed}, consts, overridable=[kind, "bn.m"])


# ---- 062, 065: outputs -------------------------------------------------------------------------------------------


@traps(
    "twins",
    "identities",
    "output_is_input",
    "output_is_constant",
    "same_value_twice",
    "cancelled_transposes",
    "dropped",
    "reshape_view",
    "concat_piece",
    "split_all",
)
def outputs(kind: str) -> Trap:
    x = f32(2, 3, 4)
    c = {"k": f32(2, 3)}
    nodes, consts, names = {
        "twins": ([node("Sigmoid", "x", "y"), node("Sigmoid", "x", "z")], {}, "y z"),
        "identities": ([node("Identity", "x", "a"), node("Identity", "a", "y"), node("Relu", "a", "z")], {}, "y z"),
        "output_is_input": ([node("Relu", "x", "y"), node("Identity", "x", "z")], {}, "z y"),
        "output_is_constant": ([node("Relu", "x", "y"), node("Neg", "k", "z")], c, "y z"),
        "same_value_twice": (
            [node("Relu", "x", "a"), node("Identity", "a", "y"), node("Identity", "a", "z")],
            {},
            "y z a",
        ),
        "cancelled_transposes": (
            [
                node("Transpose", "x", "a", perm=[1, 0, 2]),
                node("Transpose", "a", "y", perm=[1, 0, 2]),
                node("Relu", "a", "z"),
            ],
            {},
            "y z a",
        ),
        "dropped": (
            [node("Mul", "x o", "y"), node("Relu", "y", "r"), node("Relu", "r", "z")],
            {"o": np.array(1, F32)},
            "y z r",
        ),
        "reshape_view": (
            [node("Relu", "x", "a"), node("Reshape", "a s", "y"), node("Exp", "a", "z")],
            {"s": i64(6, 4)},
            "a y z",
        ),
        "concat_piece": (
            [
                node("Relu", "x", "a"),
                node("Neg", "x", "b"),
                node("Concat", "a b a", "y", axis=0),
                node("Abs", "y", "z"),
            ],
            {},
            "a y z b",
        ),
        "split_all": (
            [node("Relu", "x", "r"), node("Split", "r", "a b", axis=2), node("Mul", "a b", "y")],
            {},
            "y b a r",
        ),
    }[kind]
    return Trap(nodes, {"x": x}, consts, names, opset=13)


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str, tmp_path: Path) -> None:
    TRAPS[name]().check(tmp_path)
