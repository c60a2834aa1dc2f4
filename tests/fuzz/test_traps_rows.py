"""Products, normalisations and attention: fresh variations of the traps of ``tests/cases``.

A case shows one form of a mistake; these show others, so that what holds is the kind and not the case: all levels
against onnxruntime with nothing optimised. The numbers are those of the cases.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.trap_models import F32, Trap, Traps, f32, node, pos

TRAPS = Traps()
traps = TRAPS.register


# ---- 024, 025, 070: transposed matrices --------------------------------------------------------------------------


@traps("10", "01", "default", "batched", "batched_identity", "rank1_left", "rank1_right", "twice", "shared", "wide")
def transposed_product(kind: str) -> Trap:
    a, b = f32(4, 4), f32(4, 4, seed=1)
    if kind in ("10", "01"):
        nodes = [
            node("Transpose", "b", "t", perm=[int(c) for c in kind]),
            node("MatMul", "a t", "c"),
            node("Transpose", "a", "u", perm=[int(c) for c in kind]),
            node("Gemm", "u c"),
        ]
        return Trap(nodes, {"a": a, "b": b})
    if kind == "default":
        return Trap([node("Transpose", "a", "t"), node("MatMul", "t b")], {"a": a, "b": b})
    if kind.startswith("batched"):
        perm = [0, 2, 1] if kind == "batched" else [1, 0, 2]
        return Trap(
            [node("Transpose", "b", "t", perm=perm), node("MatMul", "a t")],
            {"a": f32(3, 3, 3), "b": f32(3, 3, 3, seed=2)},
        )
    if kind == "rank1_left":
        return Trap([node("Transpose", "b", "t"), node("MatMul", "a t")], {"a": f32(6), "b": f32(5, 6)})
    if kind == "rank1_right":
        return Trap([node("Transpose", "b", "t"), node("MatMul", "t a")], {"a": f32(5), "b": f32(5, 6)})
    if kind == "twice":
        nodes = [node("Transpose", "b", "t"), node("Transpose", "t", "u"), node("MatMul", "a u")]
        return Trap(nodes, {"a": a, "b": b})
    if kind == "shared":
        return Trap(
            [node("Transpose", "b", "t"), node("MatMul", "a t"), node("Relu", "t", "z")],
            {"a": a, "b": b},
            outputs="y z",
        )
    nodes = [node("Transpose", "b", "t"), node("Gemm", "a t c", "y", transB=1, alpha=0.5)]
    return Trap(nodes, {"a": f32(2, 3), "b": f32(3, 5)}, {"c": f32(5)})


@traps("transposed", "transposed_const", "column", "number", "beta_zero", "computed")
def gemm_c(kind: str) -> Trap:
    feeds, consts = {"a": f32(3, 4), "b": f32(4, 3, seed=1)}, {}
    gemm = node("Gemm", "a b c", "y", beta=0.0 if kind == "beta_zero" else 2.0, alpha=1.5)
    if kind in ("transposed", "transposed_const"):
        where = feeds if kind == "transposed" else consts
        where["k"] = f32(3, 3, seed=2)
        return Trap([node("Transpose", "k", "c"), gemm], feeds, consts)
    shape = {"column": (3, 1), "number": (), "beta_zero": (3,), "computed": (1, 3)}[kind]
    (feeds if kind == "computed" else consts)["c"] = f32(*shape, seed=2)
    return Trap(
        [
            gemm,
        ],
        feeds,
        consts,
    )


# ---- 034, 035, 036: look-alikes of normalisations ----------------------------------------------------------------


def _layer_norm(
    x: np.ndarray,
    *,
    axes: list[int] | None = None,
    second: list[int] | None = None,
    keep: int = 1,
    power: float = 2.0,
    eps: object = 1e-5,
    scale: tuple[int, ...] | None = None,
    shift: tuple[int, ...] | None = None,
    outputs: str = "y",
    centre: bool = True,
    minus: bool = False,
    root: str = "Sqrt",
    same_centre: bool = True,
) -> Trap:
    axes = axes or [-1]
    second = second or axes
    consts: dict[str, np.ndarray] = {
        "two": np.array(power, F32),
        "eps": np.asarray(eps, F32),
        "half": np.array(0.5, F32),
    }
    nodes = []
    d = "x"
    if centre:
        nodes += [
            node("ReduceMean", "x", "mean", axes=axes, keepdims=keep),
            node("Sub", "mean x" if minus else "x mean", "d"),
        ]
        d = "d"
    nodes += [
        node("Pow", f"{d} two", "sq"),
        node("ReduceMean", "sq", "var", axes=second, keepdims=keep),
        node("Add", "var eps", "ve"),
        node(root, "ve" if root == "Sqrt" else "ve half", "std"),
        node("Div", f"{d if same_centre else 'x'} std", "n"),
    ]
    last = "n"
    for op, shape, name in (("Mul", scale, "g"), ("Add", shift, "b")):
        if shape is not None:
            consts[name] = f32(*shape, seed=len(name) + ord(name[0]))
            nodes.append(node(op, f"{last} {name}", f"{name}_out"))
            last = f"{name}_out"
    nodes.append(node("Identity", last, "y"))
    return Trap(nodes, {"x": x}, consts, outputs, rtol=1e-3, atol=1e-4)


_X = f32(4, 4, 4)
_NORMS: dict[str, Callable[[], Trap]] = {
    "plain": lambda: _layer_norm(_X, scale=(4,), shift=(4,)),
    "keepdims0": lambda: _layer_norm(f32(4, 4), keep=0),
    "first_axis": lambda: _layer_norm(_X, axes=[0]),
    "middle_axis": lambda: _layer_norm(_X, axes=[1], scale=(4, 1)),
    "two_axes": lambda: _layer_norm(_X, axes=[1, 2], scale=(4, 4), shift=(4,)),
    "axes_out_of_order": lambda: _layer_norm(_X, axes=[-1, 1], scale=(4,)),
    "axes_not_neighbours": lambda: _layer_norm(_X, axes=[0, 2]),
    "other_second_axes": lambda: _layer_norm(_X, second=[1]),
    "power": lambda: _layer_norm(_X, power=4.0),
    "large_epsilon": lambda: _layer_norm(_X, eps=0.5, scale=(4,)),
    "epsilon_vector": lambda: _layer_norm(_X, eps=np.array([1e-5, 1.0, 2.0, 3.0])),
    "epsilon_rank": lambda: _layer_norm(_X, eps=np.full((1, 1, 1, 1), 1e-5)),
    "scale_enlarges": lambda: _layer_norm(f32(3, 1), scale=(2,)),
    "scale_along_rows": lambda: _layer_norm(_X, scale=(4, 1)),
    "scale_rank": lambda: _layer_norm(_X, scale=(1, 1, 1, 4)),
    "shift_enlarges": lambda: _layer_norm(_X, scale=(4,), shift=(2, 4, 4, 4)),
    "mean_is_output": lambda: _layer_norm(_X, outputs="y mean"),
    "variance_is_output": lambda: _layer_norm(_X, outputs="y ve"),
    "sign": lambda: _layer_norm(_X, minus=True, scale=(4,)),
    "rms": lambda: _layer_norm(_X, centre=False, scale=(4,), shift=(4,)),
    "rms_enlarges": lambda: _layer_norm(f32(3, 1), centre=False, scale=(5,)),
    "divides_the_other": lambda: _layer_norm(_X, same_centre=False),
    "root_as_power": lambda: _layer_norm(_X, root="Pow", scale=(4,)),
}


@traps(*_NORMS)
def normalisation(kind: str) -> Trap:
    return _NORMS[kind]()


# ---- 037, 038, 039: Softmax of old -------------------------------------------------------------------------------


@traps("11.default", "11.2", "11.0", "11.-1", "12.1", "1.default", "13.default", "13.1", "11.last_explicit")
def old_softmax(kind: str) -> Trap:
    version, axis = kind.split(".")
    attrs = {} if axis == "default" else {"axis": 3 if axis == "last_explicit" else int(axis)}
    opset = max(int(version), 7)
    nodes = [
        node("Softmax", "x", "a", **attrs),
        node("LogSoftmax", "x", "b", **attrs),
        node("Exp", "b", "c"),
        node("Add", "a c"),
    ]
    return Trap(nodes, {"x": f32(2, 3, 4, 5)}, opset=opset)


@traps("11.default", "11.3", "11.2", "13.default", "13.2", "13.-2")
def attention_axis(kind: str) -> Trap:
    version, axis = kind.split(".")
    attrs = {} if axis == "default" else {"axis": int(axis)}
    nodes = [
        node("MatMul", "q k", "s"),
        node("Mul", "s c", "t"),
        node("Softmax", "t", "p", **attrs),
        node("MatMul", "p v"),
    ]
    feeds = {"q": f32(1, 2, 4, 4), "k": f32(1, 2, 4, 4, seed=1), "v": f32(1, 2, 4, 4, seed=2)}
    return Trap(nodes, feeds, {"c": np.array(0.5, F32)}, opset=int(version))


# ---- 040: masks --------------------------------------------------------------------------------------------------

_MASKS = {
    "key": (1, 1, 1, 4),
    "query": (1, 1, 4, 1),
    "matrix": (4, 4),
    "vector": (4,),
    "batch": (2, 1, 1, 4),
    "head": (1, 3, 1, 1),
    "full": (2, 3, 4, 4),
    "number": (),
    "batch_query": (2, 1, 4, 1),
    "enlarges": (5, 1, 1, 1, 4),
}


@traps(*[f"{m}.{how}" for m in _MASKS for how in ("add", "where", "inf")])
def attention_mask(kind: str) -> Trap:
    which, how = kind.split(".")
    shape = _MASKS[which]
    hidden = np.asarray(np.random.default_rng(3).random(shape) < 0.4)
    nodes = [node("MatMul", "q k", "s"), node("Div", "s c", "t")]
    consts: dict[str, np.ndarray] = {"c": np.array(2.0, F32), "low": np.array(-np.inf if how == "inf" else -1e4, F32)}
    feeds = {"q": f32(2, 3, 4, 4), "k": f32(2, 3, 4, 4, seed=1), "v": f32(2, 3, 4, 4, seed=2)}
    if how == "where":
        feeds["mask"] = hidden
        nodes.append(node("Where", "mask low t", "u"))
    else:
        feeds["mask"] = np.where(hidden, consts.pop("low"), F32(0)).astype(F32)
        nodes.append(node("Add", "mask t", "u"))
    nodes += [node("Softmax", "u", "p", axis=-1), node("MatMul", "p v")]
    return Trap(nodes, feeds, consts)


@traps(
    "no_scale",
    "scale_on_q",
    "scale_on_k",
    "weights_are_output",
    "scores_are_output",
    "v_transposed",
    "tensor_scale",
    "scale_after_mask",
    "rank3",
    "cross",
    "post_scale",
)
def attention_forms(kind: str) -> Trap:
    feeds = {"q": f32(2, 3, 5, 4), "k": f32(2, 3, 4, 5, seed=1), "v": f32(2, 3, 5, 4, seed=2)}
    consts: dict[str, np.ndarray] = {
        "c": np.array(0.5, F32),
        "m": np.where(np.tri(5, dtype=bool), F32(0), F32(-1e9)).astype(F32),
    }
    q, k, v, outputs, scores = "q", "k", "v", "y", "s"
    nodes = []
    if kind == "scale_on_q":
        nodes.append(node("Mul", "q c", "q2"))
        q = "q2"
    if kind == "scale_on_k":
        nodes.append(node("Mul", "k c", "k2"))
        k = "k2"
    if kind == "v_transposed":
        nodes.append(node("Transpose", "v", "v2", perm=[0, 1, 3, 2]))
        nodes.append(node("Transpose", "v2", "v3", perm=[0, 1, 3, 2]))
        v = "v3"
    if kind == "rank3":
        feeds = {"q": f32(3, 5, 4), "k": f32(3, 4, 5, seed=1), "v": f32(3, 5, 4, seed=2)}
    if kind == "cross":
        feeds = {"q": f32(2, 3, 2, 4), "k": f32(2, 3, 4, 5, seed=1), "v": f32(2, 3, 5, 7, seed=2)}
    if kind == "tensor_scale":
        feeds["c"] = pos(2, 3, 1, 1)
        del consts["c"]
    nodes.append(node("MatMul", f"{q} {k}", "s"))
    if kind not in ("no_scale", "scale_on_q", "scale_on_k", "scale_after_mask"):
        nodes.append(node("Mul", "s c", "s2"))
        scores = "s2"
    if kind != "cross":
        nodes.append(node("Add", f"{scores} m", "s3"))
        scores = "s3"
    if kind == "scale_after_mask":
        nodes.append(node("Mul", "s3 c", "s4"))
        scores = "s4"
    nodes += [node("Softmax", scores, "p", axis=-1)]
    p = "p"
    if kind == "post_scale":
        nodes.append(node("Mul", "p c", "p2"))
        p = "p2"
    nodes.append(node("MatMul", f"{p} {v}"))
    if kind == "weights_are_output":
        outputs = "y p"
    if kind == "scores_are_output":
        outputs = "y s2"
    return Trap(nodes, feeds, consts, outputs)


# ---- 047, 048, 049: products with ranks that matter --------------------------------------------------------------


@traps("scalar_raised", "vector_matrix", "matrix_vector", "vector_vector", "vector_batch", "raised_bias")
def small_ranks(kind: str) -> Trap:
    if kind == "scalar_raised":
        nodes = [node("Mul", "x o", "a"), node("MatMul", "a w")]
        return Trap(nodes, {"x": np.array(1.5, F32)}, {"o": np.ones(3, F32), "w": f32(3, 2)})
    if kind == "vector_matrix":
        return Trap(
            [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c")],
            {"x": f32(3)},
            {"w": f32(3, 4), "b": f32(4)},
        )
    if kind == "matrix_vector":
        return Trap([node("MatMul", "x w", "a"), node("Add", "a b")], {"x": f32(5, 3)}, {"w": f32(3), "b": f32(5)})
    if kind == "vector_vector":
        return Trap([node("MatMul", "x w", "a"), node("Add", "a b")], {"x": f32(3)}, {"w": f32(3), "b": f32(1)})
    if kind == "vector_batch":
        return Trap(
            [node("MatMul", "x w", "a"), node("Mul", "a b")], {"x": f32(3)}, {"w": f32(2, 3, 4), "b": f32(2, 1)}
        )
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c")]
    return Trap(nodes, {"x": f32(3)}, {"w": f32(3, 4), "b": f32(1, 4)})


_BIASES = {
    "row": (5,),
    "matrix": (4, 5),
    "column": (4, 1),
    "number": (),
    "one": (1, 1),
    "rank3": (1, 1, 5),
    "rank5": (1, 1, 1, 1, 5),
    "enlarges": (2, 1, 1),
    "three": (3, 4, 5),
}


@traps(*_BIASES)
def matmul_add(kind: str) -> Trap:
    nodes = [node("MatMul", "x w", "a"), node("Add", "b a", "c"), node("Relu", "c")]
    return Trap(nodes, {"x": f32(4, 3)}, {"w": f32(3, 5), "b": f32(*_BIASES[kind], seed=2)})


@traps("rows_from_one", "columns_from_one", "both", "batch")
def enlarging_add(kind: str) -> Trap:
    x, w, b = {
        "rows_from_one": ((1, 3), (3, 5), (4, 5)),
        "columns_from_one": ((4, 3), (3, 1), (5,)),
        "both": ((1, 3), (3, 1), (4, 5)),
        "batch": ((1, 4, 3), (3, 5), (2, 1, 5)),
    }[kind]
    return Trap(
        [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c")],
        {"x": f32(*x)},
        {"w": f32(*w), "b": f32(*b)},
    )


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str, tmp_path: Path) -> None:
    TRAPS[name]().check(tmp_path)
