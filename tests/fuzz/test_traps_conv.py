"""Convolutions, normalisations and pads: fresh variations of the traps of ``tests/cases``.

A case shows one form of a mistake; these show others, so that what holds is the kind and not the case: all levels
against onnxruntime with nothing optimised. The numbers are those of the cases.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.trap_models import F32, Trap, Traps, bn, bn_consts, f32, i64, node

TRAPS = Traps()
traps = TRAPS.register


# ---- 002: weights shared by layers of which one is folded --------------------------------------------------------


@traps("two_bns", "scale_on_one", "bias_shared", "weight_is_output", "gemm", "conv_and_transpose")
def shared_weight(kind: str) -> Trap:
    x, w = f32(1, 3, 5, 5), f32(3, 3, 3, 3, seed=1)
    consts = {"w": w, **bn_consts(3), **bn_consts(3, "bm", 20)}
    first = node("Conv", "x w", "c1", pads=[1, 1, 1, 1])
    if kind == "two_bns":
        nodes = [first, node("Conv", "c1 w", "c2"), bn("c1", "y"), bn("c2", "z", "bm")]
        return Trap(nodes, {"x": x}, consts, "y z")
    if kind == "scale_on_one":
        nodes = [first, node("Mul", "c1 s", "y"), node("Conv", "y w", "z")]
        return Trap(nodes, {"x": x}, {"w": w, "s": f32(3, 1, 1)}, "y z")
    if kind == "bias_shared":
        nodes = [node("Conv", "x w b", "c1"), bn("c1", "y"), node("Conv", "x w b", "c2", pads=[1, 1, 1, 1])]
        return Trap(nodes, {"x": x}, {**consts, "b": f32(3)}, "y c2")
    if kind == "weight_is_output":
        return Trap(
            [node("Conv", "x w", "c1"), bn("c1", "y"), node("Identity", "w", "out_w")], {"x": x}, consts, "y out_w"
        )
    if kind == "gemm":
        w2 = f32(4, 4)
        nodes = [node("MatMul", "x w", "a"), node("Mul", "a s", "y"), node("Gemm", "y w", "z", transB=1)]
        return Trap(nodes, {"x": f32(2, 4)}, {"w": w2, "s": f32(4)}, "y z")
    nodes = [node("Conv", "x w", "c1"), bn("c1", "y"), node("ConvTranspose", "y w", "z")]
    return Trap(nodes, {"x": x}, consts, "y z")


# ---- 004, 005, 112: what stands between layer and normalisation --------------------------------------------------


@traps("Relu", "LeakyRelu", "MaxPool", "Sigmoid", "Neg", "Identity", "Transpose", "Reshape")
def between_conv_and_bn(op: str) -> Trap:
    x, consts = f32(2, 3, 6, 6), {"w": f32(6, 3, 3, 3, seed=1), **bn_consts(6)}
    attrs: dict[str, object] = {"kernel_shape": [2, 2], "strides": [1, 1]} if op == "MaxPool" else {}
    inputs = "c"
    if op == "Transpose":
        attrs, consts = {"perm": [0, 2, 1, 3]}, {"w": consts["w"], **bn_consts(4)}
    if op == "Reshape":
        consts = {"w": consts["w"], "shape": i64(2, 4, 6, 4), **bn_consts(4)}
        inputs = "c shape"
    return Trap([node("Conv", "x w", "c"), node(op, inputs, "d", **attrs), bn("d", "y")], {"x": x}, consts)


@traps("conv_bias", "depthwise_multiplier", "transpose_grouped", "gemm_beta", "matmul_bias", "tiny_variance")
def bias_and_bn(kind: str) -> Trap:
    x = f32(1, 4, 5, 5)
    if kind == "conv_bias":
        nodes = [node("Conv", "x w b", "c"), node("Add", "c t", "d"), bn("d", "y")]
        return Trap(nodes, {"x": x}, {"w": f32(6, 4, 1, 1), "b": f32(6), "t": f32(6, 1, 1, seed=3), **bn_consts(6)})
    if kind == "depthwise_multiplier":
        nodes = [node("Conv", "x w b", "c", group=4), bn("c", "y")]
        return Trap(nodes, {"x": x}, {"w": f32(8, 1, 3, 3), "b": f32(8), **bn_consts(8)})
    if kind == "transpose_grouped":
        nodes = [node("ConvTranspose", "x w b", "c", group=2, strides=[2, 2]), bn("c", "y")]
        return Trap(nodes, {"x": x}, {"w": f32(4, 3, 2, 2), "b": f32(6), **bn_consts(6)})
    if kind == "gemm_beta":
        nodes = [node("Gemm", "x w b", "c", alpha=0.5, beta=3.0, transB=1), bn("c", "y")]
        return Trap(nodes, {"x": f32(3, 4)}, {"w": f32(6, 4), "b": f32(6), **bn_consts(6)})
    if kind == "matmul_bias":
        nodes = [node("MatMul", "x w", "c"), node("Add", "b c", "d"), bn("d", "y")]
        return Trap(nodes, {"x": f32(3, 4)}, {"w": f32(4, 6), "b": f32(6), **bn_consts(6)})
    consts = {"w": f32(6, 4, 1, 1), "b": f32(6), **bn_consts(6)} | {"bn.v": np.full(6, 1e-12, F32)}
    nodes = [node("Conv", "x w b", "c"), bn("c", "y", epsilon=1e-3)]
    return Trap(nodes, {"x": x}, consts)


@traps("raw_output", "raw_add", "raw_first", "relu_twin")
def conv_used_twice(kind: str) -> Trap:
    consts = {"w": f32(4, 3, 3, 3), **bn_consts(4)}
    conv, norm = node("Conv", "x w", "c"), bn("c", "d")
    nodes, outputs = {
        "raw_output": ([conv, norm, node("Relu", "d")], "c y"),
        "raw_add": ([conv, norm, node("Add", "c d")], "y"),
        "raw_first": ([conv, node("Sigmoid", "c", "z"), norm, node("Mul", "d z")], "y"),
        "relu_twin": ([conv, norm, node("Relu", "c", "e"), node("Sub", "d e")], "y"),
    }[kind]
    return Trap(nodes, {"x": f32(1, 3, 5, 5)}, consts, outputs, absent=("conv.fold_batch_norm",))


# ---- 007: normalisation that trains ------------------------------------------------------------------------------


@traps("outputs_unused", "momentum", "no_conv", "gemm")
def bn_training(kind: str) -> Trap:
    x, consts = f32(3, 2, 4, 4), {"w": f32(3, 2, 1, 1), **bn_consts(3)}
    conv = node("Conv", "x w", "c")
    train = node("BatchNormalization", "c bn.s bn.b bn.m bn.v", "y rm rv", training_mode=1)
    if kind == "outputs_unused":
        return Trap([conv, train], {"x": x}, consts, "y", absent=("conv.fold_batch_norm",))
    if kind == "momentum":
        train = node("BatchNormalization", "c bn.s bn.b bn.m bn.v", "y rm rv", training_mode=1, momentum=0.6)
        return Trap([conv, train], {"x": x}, consts, "y rm rv")
    if kind == "no_conv":
        train = node("BatchNormalization", "x bn.s bn.b bn.m bn.v", "y rm rv", training_mode=1)
        return Trap([train, node("Relu", "y", "z")], {"x": x}, bn_consts(2), "y z")
    nodes = [node("Gemm", "x w", "c"), train]
    return Trap(nodes, {"x": f32(5, 4)}, {"w": f32(4, 3), **bn_consts(3)}, "y")


# ---- 009, 010, 011: what is added to a convolution ---------------------------------------------------------------

_ADDENDS = {
    "channel": (6, 1, 1),
    "with_batch": (1, 6, 1, 1),
    "width": (6,),
    "row": (6, 1),
    "plane": (6, 6),
    "full": (1, 6, 6, 6),
    "number": (),
    "one": (1,),
    "rank5": (1, 1, 1, 1, 1),
    "enlarges": (2, 1, 1, 1),
    "batch_full": (1, 1, 6, 6),
}


@traps(*_ADDENDS)
def added_to_conv(kind: str) -> Trap:
    nodes = [node("Conv", "x w b", "c", pads=[1, 1, 1, 1], group=2), node("Add", "t c", "d"), node("Relu", "d")]
    return Trap(nodes, {"x": f32(1, 4, 6, 6)}, {"w": f32(6, 2, 3, 3), "b": f32(6), "t": f32(*_ADDENDS[kind], seed=3)})


@traps(*_ADDENDS)
def scaled_conv(kind: str) -> Trap:
    nodes = [node("Conv", "x w", "c", pads=[1, 1, 1, 1], group=3), node("Mul", "c t", "d"), node("Sub", "u d")]
    consts = {"w": f32(6, 2, 3, 3), "t": f32(*_ADDENDS[kind], seed=3), "u": f32(*_ADDENDS[kind], seed=4)}
    return Trap(nodes, {"x": f32(1, 6, 6, 6)}, consts)


@traps("computed", "same_shape", "broadcast_over_batch", "gate", "twice", "itself")
def tensor_added_to_conv(kind: str) -> Trap:
    x, w = f32(2, 4, 5, 5), {"w": f32(4, 4, 3, 3)}
    conv = node("Conv", "x w", "c", pads=[1, 1, 1, 1])
    nodes = {
        "computed": [conv, node("GlobalAveragePool", "x", "g"), node("Add", "c g", "d"), node("Relu", "d")],
        "same_shape": [conv, node("Relu", "x", "r"), node("Add", "r c", "d"), node("Relu", "d")],
        "broadcast_over_batch": [conv, node("ReduceMean", "x", "r", axes=[0]), node("Add", "c r", "y")],
        "gate": [conv, node("ReduceMax", "x", "r", axes=[1]), node("Mul", "c r", "d"), node("Sigmoid", "d")],
        "twice": [conv, node("Add", "c x", "d"), node("Add", "d x", "e"), node("Relu", "e")],
        "itself": [conv, node("Add", "c c", "d"), node("Mul", "d c")],
    }[kind]
    return Trap(nodes, {"x": x}, w)


# ---- 012: what comes before a convolution ------------------------------------------------------------------------


@traps(
    "scale", "scale_padded", "shift", "shift_padded", "shift_auto_pad", "depthwise", "transpose", "number", "spatial"
)
def before_conv(kind: str) -> Trap:
    x, group = f32(1, 6, 5, 5), 3
    w, attrs, op, t = f32(9, 2, 3, 3, seed=1), {"group": group}, "Conv", f32(6, 1, 1, seed=2)
    first = "Mul" if "scale" in kind else "Add"
    if "padded" in kind:
        attrs["pads"] = [1, 1, 1, 1]
    if kind == "shift_auto_pad":
        attrs["auto_pad"] = "SAME_UPPER"
    if kind == "depthwise":
        w, attrs, first = f32(6, 1, 3, 3), {"group": 6, "pads": [0, 1, 1, 0]}, "Mul"
    if kind == "transpose":
        w, op, first = f32(6, 2, 3, 3), "ConvTranspose", "Mul"
    if kind == "number":
        t, first = np.array(0.5, F32), "Sub"
    if kind == "spatial":
        t, first = f32(1, 1, 5, 5), "Mul"
    return Trap(
        [node(first, "x t", "a"), node(op, "a w b", "y", **attrs)],
        {"x": x},
        {"w": w, "t": t, "b": f32(w.shape[1] * 3 if op == "ConvTranspose" else len(w))},
    )


# ---- 014 to 018: Pad and convolution -----------------------------------------------------------------------------

_PADS = {
    "crop": ([0, 0, -1, -1, 0, 0, -1, -1], "constant", 0.0),
    "crop_one_side": ([0, 0, -1, 1, 0, 0, 1, 1], "constant", 0.0),
    "value": ([0, 0, 1, 1, 0, 0, 1, 1], "constant", 0.5),
    "minus_zero": ([0, 0, 1, 1, 0, 0, 1, 1], "constant", -0.0),
    "edge": ([0, 0, 1, 1, 0, 0, 1, 1], "edge", None),
    "reflect": ([0, 0, 1, 2, 0, 0, 1, 1], "reflect", None),
    "channels": ([0, 1, 0, 0, 0, 0, 0, 0], "constant", 0.0),
    "batch": ([1, 0, 1, 1, 0, 0, 1, 1], "constant", 0.0),
    "uneven": ([0, 0, 2, 0, 0, 0, 1, 3], "constant", None),
    "nothing": ([0, 0, 0, 0, 0, 0, 0, 0], "constant", 0.0),
}


@traps(*[f"{a}.{b}" for a in _PADS for b in ("none", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")])
def pad_then_conv(kind: str) -> Trap:
    which, own = kind.split(".")
    amounts, mode, value = _PADS[which]
    attrs: dict[str, object] = {"strides": [1, 2]}
    if own == "pads":
        attrs["pads"] = [1, 0, 0, 2]
    elif own != "none":
        attrs["auto_pad"] = own
    consts = {"p": i64(*amounts), "w": f32(4, 3 if which == "channels" else 2, 3, 2)}
    inputs = "x p"
    if value is not None:
        consts["v"], inputs = np.array(value, F32), "x p v"
    return Trap(
        [node("Pad", inputs, "a", mode=mode), node("Conv", "a w", "y", **attrs)], {"x": f32(1, 2, 6, 7)}, consts
    )


@traps(
    "MaxPool.zero",
    "MaxPool.minus_inf",
    "MaxPool.relu",
    "AveragePool.zero",
    "AveragePool.own_pads",
    "AveragePool.ceil",
    "MaxPool.large",
    "MaxPool.clip",
)
def pad_then_pool(kind: str) -> Trap:
    op, how = kind.split(".")
    fill = -np.inf if how == "minus_inf" else 0.0
    attrs: dict[str, object] = {"kernel_shape": [3, 3], "strides": [2, 2]}
    amounts = [0, 0, 1, 1, 0, 0, 1, 1]
    if how == "own_pads":
        attrs["pads"] = [1, 1, 1, 1]
    if how == "ceil":
        attrs["ceil_mode"] = 1
    if how == "large":
        amounts, attrs["kernel_shape"] = [0, 0, 3, 3, 0, 0, 3, 3], [2, 2]
    nodes = [node("Pad", "a p v", "b"), node(op, "b", "y", **attrs)]
    x = f32(1, 2, 6, 7) - np.float32(1)
    before = {"relu": node("Relu", "x", "a"), "clip": node("Clip", "x lo", "a")}.get(how, node("Identity", "x", "a"))
    consts = {"p": i64(*amounts), "v": np.array(fill, F32), **({"lo": np.array(0.5, F32)} if how == "clip" else {})}
    return Trap([before, *nodes], {"x": x}, consts)


@traps("axes_input", "opset2", "opset11_dynamic", "int_fill")
def pad_forms(kind: str) -> Trap:
    x, w = f32(1, 2, 5, 5), f32(3, 2, 3, 3)
    if kind == "axes_input":
        nodes = [node("Pad", "x p _ a", "b"), node("Conv", "b w")]
        return Trap(nodes, {"x": x}, {"p": i64(1, 2, 1, 0), "a": i64(-1, 2), "w": w}, opset=18)
    if kind == "opset2":
        nodes = [node("Pad", "x", "b", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.25), node("Conv", "b w")]
        return Trap(nodes, {"x": x}, {"w": w}, opset=9)
    if kind == "opset11_dynamic":
        nodes = [node("Pad", "x p", "b"), node("Conv", "b w")]
        return Trap(nodes, {"x": x, "p": i64(0, 0, 1, 1, 0, 0, 1, 1)}, {"w": w}, opset=11)
    nodes = [node("Pad", "x p v", "b"), node("Cast", "b", "c", to=1), node("Conv", "c w")]
    return Trap(
        nodes, {"x": (x * 4).astype(np.int32)}, {"p": i64(0, 0, 1, 1, 0, 0, 1, 1), "v": np.array(3, np.int32), "w": w}
    )


# ---- 050, 052: transposed convolutions ---------------------------------------------------------------------------


@traps(
    "output_padding",
    "grouped",
    "dilated",
    "uneven_pads",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "output_shape",
    "one_axis",
    "three_axes",
    "large_stride",
    "bn_relu",
)
def conv_transpose(kind: str) -> Trap:
    x, w, attrs, consts = f32(1, 4, 5, 4), f32(4, 3, 3, 3), {"strides": [2, 2]}, {}
    if kind == "output_padding":
        attrs |= {"output_padding": [1, 0], "pads": [1, 1, 1, 1]}
    if kind == "grouped":
        attrs |= {"group": 2, "pads": [0, 1, 1, 0]}
    if kind == "dilated":
        attrs |= {"dilations": [1, 2]}
    if kind == "uneven_pads":
        attrs |= {"pads": [0, 2, 1, 0]}
    if kind in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        attrs |= {"auto_pad": kind}
    if kind == "output_shape":
        attrs |= {"output_shape": [10, 8]}
    if kind == "one_axis":
        x, w, attrs = f32(2, 4, 7), f32(4, 5, 4), {"strides": [3], "pads": [1, 0]}
    if kind == "three_axes":
        x, w, attrs = f32(1, 2, 3, 4, 3), f32(2, 3, 2, 2, 3), {"strides": [1, 2, 2]}
    if kind == "large_stride":
        attrs = {"strides": [4, 5]}
    nodes = [node("ConvTranspose", "x w b", "c", **attrs), node("Relu", "c")]
    outputs = w.shape[1] * attrs.get("group", 1)
    if kind == "bn_relu":
        nodes = [node("ConvTranspose", "x w b", "c", **attrs), bn("c", "d"), node("Mul", "d s", "e"), node("Relu", "e")]
        consts = {**bn_consts(3), "s": f32(3, 1, 1)}
    return Trap(nodes, {"x": x}, {"w": w, "b": f32(outputs), **consts})


# ---- 054: pads in the order of ONNX ------------------------------------------------------------------------------


@traps(
    "uneven",
    "dilated_grouped",
    "one_axis",
    "three_axes",
    "stride_beyond_kernel",
    "pads_beyond_kernel",
    "one_by_one_padded",
    "odd_channels",
    "batch",
)
def conv_windows(kind: str) -> Trap:
    x, w, attrs = f32(1, 4, 7, 6), f32(6, 4, 3, 2), {"pads": [2, 0, 1, 1]}
    if kind == "dilated_grouped":
        w, attrs = f32(6, 2, 3, 2), {"group": 2, "dilations": [2, 1], "strides": [1, 2], "pads": [1, 0, 2, 1]}
    if kind == "one_axis":
        x, w, attrs = f32(2, 3, 9), f32(4, 3, 4), {"pads": [3, 0], "dilations": [2]}
    if kind == "three_axes":
        x, w, attrs = f32(1, 2, 4, 5, 6), f32(3, 2, 2, 3, 1), {"pads": [1, 0, 0, 0, 1, 2], "strides": [2, 1, 2]}
    if kind == "stride_beyond_kernel":
        attrs = {"strides": [4, 5]}
    if kind == "pads_beyond_kernel":
        attrs = {"pads": [5, 4, 3, 6]}
    if kind == "one_by_one_padded":
        w, attrs = f32(5, 4, 1, 1), {"pads": [1, 1, 0, 2], "strides": [2, 1]}
    if kind == "odd_channels":
        x, w, attrs = f32(1, 17, 5, 5), f32(33, 17, 3, 3), {"pads": [1, 1, 1, 1]}
    if kind == "batch":
        x, w, attrs = f32(3, 5, 4, 4), f32(7, 5, 3, 3), {"pads": [0, 1, 1, 0]}
    consts = {"w": w, "b": f32(len(w)), **bn_consts(len(w))}
    nodes = [node("Conv", "x w b", "c", **attrs), bn("c", "d"), node("LeakyRelu", "d", "y", alpha=0.3)]
    return Trap(nodes, {"x": x}, consts)


# ---- 064: pieces of concatenations as residuals ------------------------------------------------------------------


@traps(
    "c2f",
    "dense",
    "slice_then_conv",
    "shortcut_from_concat",
    "odd_halves",
    "split_three",
    "concat_of_concat",
    "concat_constant",
    "last_axis",
    "pooled_branches",
)
def concat_residual(kind: str) -> Trap:
    c = 17 if kind == "odd_halves" else 16
    x = f32(1, 2 * c, 5, 5)
    consts = {
        "w": f32(c, c, 3, 3) / F32(12),
        "v": f32(c, c, 3, 3, seed=1) / F32(12),
        "u": f32(8, 3 * c, 1, 1),
        "halves": i64(c, c),
    }
    conv = lambda a, b, w="w": node("Conv", f"{a} {w}", b, pads=[1, 1, 1, 1])  # noqa: E731
    split = node("Split", "x halves", "a b", axis=1)
    if kind in ("c2f", "odd_halves"):
        nodes = [
            split,
            conv("b", "c"),
            node("Relu", "c", "d"),
            conv("d", "e", "v"),
            node("Add", "e b", "f"),
            node("Concat", "a b f", "g", axis=1),
            node("Conv", "g u", "h"),
            node("Relu", "h"),
        ]
        return Trap(nodes, {"x": x}, consts, opset=13)
    if kind == "dense":
        nodes = [
            split,
            conv("a", "c"),
            node("Concat", "a c", "d", axis=1),
            node("Concat", "d b", "e", axis=1),
            node("Conv", "e u", "y"),
            node("Relu", "d", "z"),
        ]
        return Trap(nodes, {"x": x}, consts, "y z", opset=13)
    if kind == "slice_then_conv":
        nodes = [
            node("Concat", "x x", "a", axis=1),
            node("Slice", "a s e ax", "b"),
            conv("b", "c"),
            node("Add", "c b", "d"),
            node("Sigmoid", "d"),
        ]
        return Trap(nodes, {"x": x}, {**consts, "s": i64(24), "e": i64(40), "ax": i64(-3)})
    if kind == "shortcut_from_concat":
        nodes = [
            split,
            conv("a", "p"),
            conv("b", "q", "v"),
            node("Concat", "p q", "r", axis=1),
            node("Relu", "p", "s"),
            node("Add", "s q", "t"),
            node("Concat", "r t", "g", axis=1),
            node("Conv", "g u"),
        ]
        return Trap(nodes, {"x": x}, consts, "y r t", opset=13)
    if kind == "split_three":
        nodes = [
            node("Split", "x parts", "a b d", axis=1),
            conv("b", "c"),
            node("Add", "c b", "e"),
            node("Concat", "d e a", "y", axis=1),
        ]
        return Trap(nodes, {"x": x}, {**consts, "parts": i64(8, 16, 8)}, "y a", opset=13)
    if kind == "concat_of_concat":
        nodes = [
            split,
            node("Relu", "a", "r"),
            node("Neg", "b", "n"),
            node("Concat", "r n", "p", axis=1),
            node("Concat", "p r", "q", axis=1),
            node("Conv", "q u"),
            node("Exp", "n", "z"),
        ]
        return Trap(nodes, {"x": x}, consts, "y z", opset=13)
    if kind == "concat_constant":
        nodes = [split, node("Relu", "a", "r"), node("Concat", "k r b", "q", axis=1), node("Conv", "q u")]
        return Trap(nodes, {"x": x}, {**consts, "k": f32(1, 16, 5, 5, seed=8)}, opset=13)
    if kind == "last_axis":
        nodes = [
            node("Relu", "x", "r"),
            node("Neg", "x", "n"),
            node("Concat", "r n", "c", axis=3),
            node("MaxPool", "c", "y", kernel_shape=[2, 2]),
        ]
        return Trap(nodes, {"x": x})
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("AveragePool", "x", "q", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Concat", "p x q", "c", axis=1),
        node("Relu", "c"),
        node("Add", "p q", "z"),
    ]
    return Trap(nodes, {"x": x}, outputs="y z c")


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str, tmp_path: Path) -> None:
    TRAPS[name]().check(tmp_path)
