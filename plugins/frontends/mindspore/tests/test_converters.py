"""Primitives by their definition, those above all that MindSpore has no CPU kernel for (what mindspore.mint exports).

The rest is compared with MindSpore itself in `test_networks.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plugins.frontends.mindspore.tests.one_primitive import run
from plugins.frontends.mindspore.tests.primitive_definitions import (
    columns,
    convolved,
    erf,
    norm,
    pooled,
    scattered,
    shuffled,
    sigmoid,
    softmax,
    softplus,
    transposed,
    where,
)

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X, Y, M, V = floats(2, 3, 4), floats(2, 3, 4), floats(3, 4), floats(4)
P = np.abs(X) + np.float32(0.3)
N, J = np.int32([[7, -7, 5], [0, 3, -4]]), np.int32([[2, 3, -2], [4, -3, 5]])
B, C = X > 0, Y > 0
IMAGE = floats(2, 3, 6, 5)
F32, F64 = np.float32, np.float64
W, W1, W3, D = floats(4, 3, 3, 3), floats(4, 3, 3), floats(4, 3, 2, 2, 2), floats(3, 4, 3, 3)
LINE, CUBE = floats(2, 3, 9), floats(1, 3, 4, 4, 4)
BIAS = floats(4)
AROUND = ((0, 0), (0, 0), (2, 1), (1, 0), (1, 2))
BIASED = BIAS[None, :, None, None]

NUMBERS: list[tuple[str, tuple[int, ...], Any]] = [
    ("Add", (7, -2), np.int64(5)),
    ("Sub", (7, -2), np.int64(9)),
    ("Mul", (7, -2), np.int64(-14)),
    ("Div", (7, 2), np.float32(3.5)),
    ("FloorDiv", (-7, 2), np.int64(-4)),
    ("Mod", (-7, 3), np.int64(2)),
    ("Pow", (3, 2), np.int64(9)),
    ("Max", (3, 5), np.int64(5)),
    ("Min", (3, 5), np.int64(3)),
    ("Eq", (3, 3), np.bool_(True)),
    ("Ne", (3, 3), np.bool_(False)),
    ("Gt", (3, 2), np.bool_(True)),
    ("Ge", (3, 3), np.bool_(True)),
    ("Lt", (3, 2), np.bool_(False)),
    ("Le", (3, 2), np.bool_(False)),
    ("Usub", (3,), np.int64(-3)),
]
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    # functions of one operand
    ("ACos", (np.tanh(X),), {}, np.arccos(np.tanh(X))),
    ("AcosExt", (np.tanh(X),), {}, np.arccos(np.tanh(X))),
    ("Asin", (np.tanh(X),), {}, np.arcsin(np.tanh(X))),
    ("AsinExt", (np.tanh(X),), {}, np.arcsin(np.tanh(X))),
    ("Acosh", (P + 1,), {}, np.arccosh(P + 1)),
    ("AcoshExt", (P + 1,), {}, np.arccosh(P + 1)),
    ("AsinhExt", (X,), {}, np.arcsinh(X)),
    ("AtanExt", (X,), {}, np.arctan(X)),
    ("Atanh", (np.tanh(X),), {}, X),
    ("Exp2", (X,), {}, np.exp2(X)),
    ("Log2", (P,), {}, np.log2(P)),
    ("Log10", (P,), {}, np.log10(P)),
    ("Log", (P,), {"base": 2.0, "scale": 3.0, "shift": 1.0}, np.log2(3 * P + 1)),
    ("Frac", (X,), {}, X - np.trunc(X)),
    ("Rint", (X * 3,), {}, np.rint(X * 3)),
    ("Round", (X * 3, 1), {}, np.round(X * 3, 1)),
    ("Inv", (P,), {}, 1 / P),
    ("IsInf", (np.float32([1, np.inf, -np.inf, np.nan]),), {}, np.array([False, True, True, False])),
    ("IsNegInf", (np.float32([1, np.inf, -np.inf, np.nan]),), {}, np.array([False, False, True, False])),
    ("BitwiseNot", (N,), {}, ~N),
    ("Invert", (N,), {}, ~N),
    ("Contiguous", (X,), {}, X),
    ("Clone", (X,), {}, X),
    ("Detach", (X,), {}, X),
    ("ToDtype", (X, 34, False, False), {}, X.astype(np.int32)),
    ("ToDevice", (X, None, 42, False, False), {}, X.astype(np.float16)),
    (
        "Logit",
        (np.float32([0.2, 0.7, 1.5]), 0.1),
        {},
        np.log(np.float32([0.2, 0.7, 0.9]) / np.float32([0.8, 0.3, 0.1])),
    ),
    # functions of two
    ("AddExt", (X, V, 2), {}, X + 2 * V),
    ("AddScalar", (X, 3, 2), {}, X + 6),
    ("SubExt", (X, V, 0.5), {}, X - F32(0.5) * V),
    ("SubScalar", (X, 3, 1), {}, X - 3),
    ("InplaceAddsExt", (X, 3, 2), {}, X + 6),
    ("RealDiv", (X, P), {}, X / P),
    ("PowTensorScalar", (P, 1.5), {}, P ** F32(1.5)),
    ("PowScalarTensor", (2.0, X), {}, np.exp2(X)),
    ("SquaredDifference", (X, V), {}, (X - V) ** 2),
    ("DivNoNan", (X, where(B, 0, Y)), {}, np.divide(X, Y, out=np.zeros_like(X), where=~B)),
    ("Xdivy", (where(B, 0, X), Y), {}, where(B, 0, X / Y)),
    ("DivMods", (N, 2, 2), {}, N // 2),
    ("DivMods", (X, 0.3, 1), {}, np.trunc(X / F32(0.3))),
    ("FloorDivScalar", (N, 3), {}, N // 3),
    ("FmodTensor", (X, P), {}, np.fmod(X, P)),
    ("FmodScalar", (N, 3), {}, np.fmod(N, 3)),
    ("RemainderScalarTensor", (7, J), {}, np.mod(7, J).astype(np.int64)),
    ("BitwiseXor", (N, J), {}, N ^ J),
    ("BitwiseXorTensor", (N, J), {}, N ^ J),
    ("BitwiseXorScalar", (N, 5), {}, N ^ 5),
    ("BitwiseAndTensor", (N, J), {}, N & J),
    ("BitwiseAndScalar", (N, 5), {}, N & 5),
    ("BitwiseOrTensor", (N, J), {}, N | J),
    ("BitwiseOrScalar", (N, 5), {}, N | 5),
    ("EqualExt", (N, J), {}, np.array([False])),
    ("EqualExt", (N, N.copy()), {}, np.array([True])),
    ("EqScalar", (N, 3), {}, N == 3),
    ("NeScalar", (N, 3), {}, N != 3),
    ("SelectV2", (B, X, Y), {}, where(B, X, Y)),
    ("MaskedFillScalar", (X, B, -3), {}, where(B, -3, X)),
    ("ClampTensor", (X, V - 1, V + 1), {}, np.clip(X, V - 1, V + 1)),
    ("ClipByValue", (X, np.float32(-0.5), np.float32(0.5)), {}, np.clip(X, F32(-0.5), F32(0.5))),
    ("LerpScalar", (X, Y, 0.25), {}, X + F32(0.25) * (Y - X)),
    ("Addcdiv", (X, Y, P, 2.0), {}, X + 2 * Y / P),
    ("AddcdivExt", (X, Y, P, 2.0), {}, X + 2 * Y / P),
    ("AddcmulExt", (X, Y, P, 2.0), {}, X + 2 * Y * P),
    ("AccumulateNV2", ((X, Y),), {}, X + Y),
    ("LogAddExp", (X, Y), {}, np.logaddexp(X, Y)),
    ("Atan2Ext", (X, Y), {}, np.arctan2(X, Y)),
    # activations
    ("EluExt", (X, 0.5), {}, where(X > 0, X, 0.5 * np.expm1(X))),
    ("SeLUExt", (X,), {}, 1.0507010 * where(X > 0, X, 1.6732632 * np.expm1(X))),
    ("MishExt", (X,), {}, X * np.tanh(softplus(X))),
    ("LeakyReLUExt", (X, 0.2), {}, where(X > 0, X, 0.2 * X)),
    ("GeluExt", (X, 0), {}, X * (1 + erf(X / np.sqrt(F32(2)))) / 2),
    ("GeluExt", (X, 1), {}, X * (1 + np.tanh(0.7978845608 * (X + 0.044715 * X**3))) / 2),
    ("LogSigmoid", (X,), {}, -softplus(-X)),
    ("SoftplusExt", (X * 4, 2.0, 5.0), {}, where(X * 8 > 5, X * 4, softplus(X * 8) / 2)),
    ("LogSoftmaxExt", (X, 1), {}, np.log(softmax(X, 1))),
    ("Softmax", (X, (1, 2)), {}, softmax(X.reshape(2, 12), 1).reshape(X.shape)),
    ("GLU", (X, -1), {}, X[..., :2] * sigmoid(X[..., 2:])),
    ("Swiglu", (X, -1), {}, X[..., :2] * sigmoid(X[..., :2]) * X[..., 2:]),
    ("Threshold", (X, 0.1, 5.0), {}, where(X > 0.1, X, 5.0)),
    ("Hardtanh", (X, -0.5, 0.5), {}, np.clip(X, F32(-0.5), F32(0.5))),
    # matrices
    ("BatchMatMulExt", (X, floats(2, 4, 5)), {}, None),
    ("Mm", (M, floats(4, 5)), {}, None),
    ("Mv", (M, V), {}, M @ V),
    ("Dot", (V, V), {}, V @ V),
    ("Ger", (V, V), {}, np.outer(V, V)),
    ("Addmm", (M @ M.T, M, M.T, 0.5, 2.0), {}, F32(0.5) * (M @ M.T) + 2 * (M @ M.T)),
    ("Addmv", (M @ V, M, V, 1.0, 2.0), {}, 3 * (M @ V)),
    ("Addbmm", (np.zeros((3, 3), F32), X, X.transpose(0, 2, 1), 1, 1), {}, (X @ X.transpose(0, 2, 1)).sum(0)),
    ("Baddbmm", (X @ X.transpose(0, 2, 1), X, X.transpose(0, 2, 1), 2, 1), {}, 3 * (X @ X.transpose(0, 2, 1))),
    ("Dense", (X, floats(5, 4), None), {}, None),
    # convolutions
    ("Conv1DExt", (LINE, W1, BIAS, (2,), (1,), (1,), 1), {}, convolved(LINE, W1, 2, 1) + BIAS[None, :, None]),
    ("Conv2DExt", (IMAGE, W, BIAS, (1, 1), (2, 2), (2, 2), 1), {}, convolved(IMAGE, W, 1, 2, 2) + BIASED),
    ("Conv2DExt", (IMAGE[0], W, None, 1, 0, 1, 1), {}, convolved(IMAGE[:1], W, 1, 0)[0]),
    ("Conv3DExt", (CUBE, W3, None, (1, 1, 1), (0, 0, 0), (1, 1, 1), 1), {}, convolved(CUBE, W3, 1, 0)),
    ("Conv1DPadding", (LINE, W1, None, 1, 2, 1, 1), {}, convolved(LINE, W1, 1, 0)),
    ("Conv2DPadding", (IMAGE, W, None, 1, 1, 1, 1), {}, convolved(IMAGE, W, 1, 1)),
    ("Conv3DPadding", (CUBE, W3, None, 1, 2, 1, 1), {}, convolved(CUBE, W3, 1, 0)),
    ("Convolution", (IMAGE, W, BIAS, 1, 1, 1, False, 0, 1), {}, convolved(IMAGE, W, 1, 1) + BIASED),
    ("Convolution", (IMAGE, D, BIAS, 2, 1, 1, True, 1, 1), {}, transposed(IMAGE, D, 2, 1, 1) + BIASED),
    ("ConvolutionStr", (IMAGE, W, BIAS, 1, "same", 1, False, 0, 1), {}, convolved(IMAGE, W, 1, 1) + BIASED),
    ("ConvTranspose2D", (IMAGE, D, BIAS, 2, 1, 0, 1, 1), {}, transposed(IMAGE, D, 2, 1) + BIASED),
    (
        "Conv2D",
        (IMAGE.transpose(0, 2, 3, 1).copy(), W.transpose(0, 2, 3, 1).copy()),
        {"format": "NHWC", "pad_mode": "pad", "pad": (1, 1, 1, 1), "stride": (1, 1, 1, 1), "group": 1},
        convolved(IMAGE, W, 1, 1).transpose(0, 2, 3, 1),
    ),
    (
        "Conv3DTranspose",
        (CUBE, floats(3, 2, 2, 2, 2)),
        {"pad_mode": "valid", "strides": (1, 1, 2, 2, 2), "dilations": (1, 1, 1, 1, 1)},
        None,
    ),
    # pooling
    ("AvgPool1D", (LINE, (3,), (2,), (1,), False, True), {}, pooled(LINE, 3, 2, 1, np.mean, 0)),
    ("AvgPool2D", (IMAGE, 3, 2, 1, False, False, None), {}, pooled(IMAGE, 3, 2, 1, np.nanmean)),
    ("AvgPool2D", (IMAGE, 3, None, 1, False, True, 2), {}, pooled(IMAGE, 3, 3, 1, np.sum, 0) / 2),
    ("AvgPool3DExt", (CUBE, 2, 2, 0, False, True, None), {}, pooled(CUBE, 2, 2, 0, np.mean)),
    ("AdaptiveAvgPool1D", (LINE, 3), {}, LINE.reshape(2, 3, 3, 3).mean(-1)),
    ("AdaptiveAvgPool2DExt", (IMAGE, (2, 5)), {}, IMAGE.reshape(2, 3, 2, 3, 5).mean(3)),
    ("AdaptiveAvgPool3D", (CUBE,), {"output_size": (2, 2, 2)}, pooled(CUBE, 2, 2, 0, np.mean)),
    ("AdaptiveAvgPool3DExt", (CUBE, (1, 1, 1)), {}, CUBE.mean((2, 3, 4), keepdims=True)),
    ("AdaptiveMaxPool1D", (LINE, 3), {}, LINE.reshape(2, 3, 3, 3).max(-1)),
    # normalisation
    ("LayerNormExt", (X, (3, 4), M, None, 1e-5), {}, norm(X, (1, 2)) * M),
    ("LayerNorm", (X, M[0], V, 1, 2, 1e-5), {}, norm(X, (1, 2)) * M[0] + V),
    # reductions
    ("MeanExt", (X, 1, True, None), {}, X.mean(1, keepdims=True)),
    ("ReduceProd", (X, (0,), False), {}, X.prod(0)),
    ("LogSumExp", (X, (1,), False), {}, np.log(np.exp(X).sum(1))),
    ("Var", (X, (1,), 1, False), {}, X.var(1, ddof=1)),
    ("Std", (X, None, 0, False), {}, X.std()),
    ("VarMean", (X, (0, 2), 0, True), {}, (X.var((0, 2), keepdims=True), X.mean((0, 2), keepdims=True))),
    ("StdMean", (X, (1,), 1, False), {}, (X.std(1, ddof=1), X.mean(1))),
    ("Norm", (X, 3.0, (1,), False, None), {}, (np.abs(X) ** 3).sum(1) ** F32(1 / 3)),
    ("LinalgVectorNorm", (X, float("inf"), (1,), False, None), {}, np.abs(X).max(1)),
    ("LinalgVectorNorm", (X, 0.0, None, False, None), {}, F32(np.count_nonzero(X))),
    ("LpNormV2", (X, 1.0, (1,), False, 1e-12), {}, np.abs(X).sum(1)),
    ("CumsumExt", (X, 1, None), {}, X.cumsum(1)),
    ("CumSum", (X, 1, True, True), {}, X[:, ::-1].cumsum(1)[:, ::-1] - X),
    ("CountNonZero", (N, (1,)), {}, np.count_nonzero(N, 1)),
    # shapes
    ("View", (X, (6, 4)), {}, X.reshape(6, 4)),
    ("ViewAs", (X, floats(4, 6)), {}, X.reshape(4, 6)),
    ("ReshapeExt", (X, (4, 6)), {}, X.reshape(4, 6)),
    ("TransposeView", (X, (2, 0, -2)), {}, X.transpose(2, 0, 1)),
    ("TransposeExtView", (X, 0, -1), {}, X.swapaxes(0, 2)),
    ("TExt", (M,), {}, M.T),
    ("ExpandDimsView", (X, 1), {}, X[:, None]),
    ("FlattenExt", (X, 1, -1), {}, X.reshape(2, 12)),
    ("BroadcastToView", (M, (2, -1, 4)), {}, np.broadcast_to(M, (2, 3, 4))),
    ("ExpandAs", (M, X), {}, np.broadcast_to(M, (2, 3, 4))),
    ("Repeat", (M, (2, 1, 3)), {}, np.tile(M, (2, 1, 3))),
    ("RepeatInterleaveInt", (M, 2, 1, None), {}, M.repeat(2, 1)),
    ("RepeatInterleaveInt", (M, 2, None, None), {}, M.repeat(2)),
    ("RepeatElements", (M,), {"rep": 3, "axis": 0}, M.repeat(3, 0)),
    ("TensorShape", (X,), {}, np.int64([2, 3, 4])),
    ("DynamicShape", (X,), {}, np.int64([2, 3, 4])),
    ("PixelShuffle", (floats(1, 4, 2, 3), 2), {}, None),
    ("Im2Col", (IMAGE,), {"ksizes": (2, 2), "strides": 1, "dilations": 1, "pads": (1, 0)}, None),
    (
        "ExtractImagePatches",
        (IMAGE, (2, 2), (2, 2), (1, 1), 1),
        {},
        np.concatenate(
            [np.pad(IMAGE, ((0, 0), (0, 0), (0, 0), (0, 1)))[:, :, r::2, c::2] for r in (0, 1) for c in (0, 1)], 1
        ),
    ),
    ("Roll", (X, (1, -2), (0, 2)), {}, np.roll(X, (1, -2), (0, 2))),
    ("Roll", (X, (5,), ()), {}, np.roll(X, 5)),
    # slices
    ("Narrow", (X, 1, 1, 2), {}, X[:, 1:3]),
    ("NarrowView", (X, 2, -3, 2), {}, X[:, :, 1:3]),
    ("SelectExtView", (X, 1, -1), {}, X[:, -1]),
    ("SliceExt", (X, 2, 1, 4, 2), {}, X[:, :, 1:4:2]),
    ("SliceExtView", (X, 0, -1, 9, 1), {}, X[-1:]),
    ("Slice", (X, (0, 1, 2), (2, -1, 1)), {}, X[:, 1:, 2:3]),
    ("SplitTensor", (X, 3, 2), {}, (X[:, :, :3], X[:, :, 3:])),
    ("SplitTensorView", (X, 1, 0), {}, (X[:1], X[1:])),
    ("SplitWithSize", (X, (1, 2), 1), {}, (X[:, :1], X[:, 1:])),
    ("SplitWithSizeView", (X, (3, 1), 2), {}, (X[:, :, :3], X[:, :, 3:])),
    ("SplitV", (X,), {"size_splits": (1, -1), "split_dim": 1, "num_split": 2}, (X[:, :1], X[:, 1:])),
    ("Chunk", (X, 3, 2), {}, (X[:, :, :2], X[:, :, 2:])),
    ("ChunkView", (X, 2, 0), {}, (X[:1], X[1:])),
    ("UnstackExtView", (X, 1), {}, (X[:, 0], X[:, 1], X[:, 2])),
    ("StridedSlice", (X, (0, 1), (2, 9), (1, 2), 1, 2, 0, 0, 0), {}, X[:, 1::2]),
    ("StridedSlice", (X, (0, 0, 1), (0, 0, 0), (1, 1, -1), 0, 4, 2, 1, 0), {}, X[None, ..., 1::-1]),
    ("StridedSlice", (X, (-1, 0), (0, 0), (1, 1), 0, 0, 2, 0, 1), {}, X[-1]),
    ("StridedSlice", (X, (1, 0, 3), (2, 0, 0), (1, 1, -2), 0, 4, 0, 2, 0), {}, X[1:2, None, 3::-2]),
    # joining
    ("StackExt", ((X, Y), -1), {}, np.stack((X, Y), -1)),
    ("SequenceConcat", ((X, Y), 1), {}, np.concatenate((X, Y), 1)),
    ("SequenceStack", ((X, Y),), {"axis": 1}, np.stack((X, Y), 1)),
    ("Meshgrid", ((V, V[:2]), "xy"), {}, tuple(np.meshgrid(V, V[:2]))),
    # padding
    ("ConstantPadND", (X, (1, 0, 2, 1), 3.0), {}, np.pad(X, ((0, 0), (2, 1), (1, 0)), constant_values=3)),
    ("ReflectionPad1D", (X, (2, 1)), {}, np.pad(X, ((0, 0), (0, 0), (2, 1)), "reflect")),
    ("ReflectionPad2D", (X, (2, 1, 1, 0)), {}, np.pad(X, ((0, 0), (1, 0), (2, 1)), "reflect")),
    (
        "ReflectionPad3D",
        (CUBE, (1, 2, 1, 0, 2, 1)),
        {},
        np.pad(CUBE, AROUND, "reflect"),
    ),
    ("ReplicationPad1D", (X, (2, 1)), {}, np.pad(X, ((0, 0), (0, 0), (2, 1)), "edge")),
    ("ReplicationPad2D", (X, (2, 1, 1, 0)), {}, np.pad(X, ((0, 0), (1, 0), (2, 1)), "edge")),
    (
        "ReplicationPad3D",
        (CUBE, (1, 2, 1, 0, 2, 1)),
        {},
        np.pad(CUBE, AROUND, "edge"),
    ),
    # indexing
    ("GatherNdExt", (X, np.int64([[0, 1], [1, 2]])), {}, X[[0, 1], [1, 2]]),
    ("SparseGatherV2", (X, np.int32([1]), 0), {}, X[[1]]),
    ("IndexSelect", (X, 2, np.int32([3, 3, 0])), {}, X[:, :, [3, 3, 0]]),
    ("Embedding", (np.int32([2, 0]), M, None, None, 2.0, False), {}, M[[2, 0]]),
    ("EmbeddingLookup", (M, np.int32([2, 0]), 0), {}, M[[2, 0]]),
    ("OneHotExt", (np.int64([1, 3]), 4, 1, 0, -1), {}, np.eye(4, dtype=np.int64)[[1, 3]]),
    ("TensorScatterMul", (M, np.int64([[0], [2]]), M[:2]), {}, scattered(M, [0, 2], M[:2], np.multiply)),
    ("TensorScatterMax", (M, np.int64([[0], [2]]), M[:2]), {}, scattered(M, [0, 2], M[:2], np.maximum)),
    ("TensorScatterMin", (M, np.int64([[0], [2]]), M[:2]), {}, scattered(M, [0, 2], M[:2], np.minimum)),
    ("Scatter", (V, 0, np.int64([3, 1]), V[:2], 0), {}, scattered(V, [3, 1], V[:2])),
    ("ScatterAddExt", (V, 0, np.int64([3, 3]), V[:2]), {}, scattered(V, [3, 3], V[:2], np.add)),
    ("ScatterValue", (V, 0, np.int64([3, 1]), 7.0, 0), {}, scattered(V, [3, 1], 7.0)),
    ("IndexAddExt", (M, 0, np.int64([2, 2]), M[:2], 2), {}, scattered(M, [2, 2], 2 * M[:2], np.add)),
    ("IndexAdd", (M, np.int32([2, 0]), M[:2]), {"axis": 0}, scattered(M, [2, 0], M[:2], np.add)),
    ("MaskedSelect", (X, B), {}, X[B]),
    # in place, of operands that nobody else reads
    ("ScatterUpdate", (M, np.int32([2, 0]), M[:2]), {}, scattered(M, [2, 0], M[:2])),
    ("ScatterSub", (M, np.int32([2, 2]), M[:2]), {}, scattered(M, [2, 2], M[:2], np.subtract)),
    ("ScatterMul", (M, np.int32([2, 0]), M[:2]), {}, scattered(M, [2, 0], M[:2], np.multiply)),
    ("ScatterMax", (M, np.int32([2, 0]), M[:2]), {}, scattered(M, [2, 0], M[:2], np.maximum)),
    ("ScatterMin", (M, np.int32([2, 0]), M[:2]), {}, scattered(M, [2, 0], M[:2], np.minimum)),
    ("ScatterNdAdd", (M, np.int32([[2], [2]]), M[:2]), {}, scattered(M, [2, 2], M[:2], np.add)),
    ("ScatterNdSub", (M, np.int32([[2], [2]]), M[:2]), {}, scattered(M, [2, 2], M[:2], np.subtract)),
    ("ScatterNdMul", (M, np.int32([[2], [0]]), M[:2]), {}, scattered(M, [2, 0], M[:2], np.multiply)),
    ("ScatterNdMax", (M, np.int32([[2], [0]]), M[:2]), {}, scattered(M, [2, 0], M[:2], np.maximum)),
    ("ScatterNdMin", (M, np.int32([[2], [0]]), M[:2]), {}, scattered(M, [2, 0], M[:2], np.minimum)),
    ("InplaceCopy", (X, M, False), {}, np.broadcast_to(M, X.shape)),
    ("InplaceSubScalar", (X, 3, 1), {}, X - 3),
    ("InplaceMul", (X, Y), {}, X * Y),
    ("InplaceDiv", (X, P), {}, X / P),
    ("InplaceDivs", (X, 2), {}, X / 2),
    ("InplaceDivMod", (X, P, 2), {}, np.floor(X / P)),
    ("InplaceDivMods", (X, 0.5, 1), {}, np.trunc(X * 2)),
    ("InplaceFloorDivide", (N, J), {}, N // np.where(J == 0, 1, J)),
    ("InplaceFloorDivides", (N, 3), {}, N // 3),
    ("InplaceRemainderTensorTensor", (N, J), {}, np.mod(N, J)),
    ("InplaceRemainderTensorScalar", (N, 3), {}, np.mod(N, 3)),
    ("InplaceReLU", (X,), {}, np.maximum(X, 0)),
    ("InplaceSigmoid", (X,), {}, sigmoid(X)),
    ("InplaceTanh", (X,), {}, np.tanh(X)),
    ("InplaceExp", (X,), {}, np.exp(X)),
    ("InplaceLog", (P,), {}, np.log(P)),
    ("InplaceFloor", (X,), {}, np.floor(X)),
    ("InplaceSiLU", (X,), {}, X * sigmoid(X)),
    ("InplaceElu", (X, 1.0), {}, where(X > 0, X, np.expm1(X))),
    ("InplaceThreshold", (X, 0.1, 5.0), {}, where(X > 0.1, X, 5.0)),
    ("InplaceHardtanh", (X, -0.5, 0.5), {}, np.clip(X, F32(-0.5), F32(0.5))),
    ("InplaceClampScalar", (X, -0.5, None), {}, np.maximum(X, F32(-0.5))),
    ("InplaceClampTensor", (X, None, V), {}, np.minimum(X, V)),
    ("InplaceMaskedFillScalar", (X, B, 2.0), {}, where(B, 2, X)),
    ("InplaceMaskedFillTensor", (X, B, np.float32(2)), {}, where(B, 2, X)),
    ("InplaceFillScalar", (X, 2.0), {}, np.full_like(X, 2)),
    ("InplaceFillTensor", (X, np.float32(2)), {}, np.full_like(X, 2)),
    ("InplaceZero", (X,), {}, np.zeros_like(X)),
    # searching
    ("ArgMaxExt", (X, 1, True), {}, X.argmax(1)[:, None]),
    ("ArgMinExt", (X, None, False), {}, np.int64(X.argmin())),
    ("ArgSort", (X, 1, True, True), {}, np.argsort(-X, 1)),
    ("SortExt", (X, 1, False, True), {}, (np.sort(X, 1), np.argsort(X, 1))),
    ("TopkExt", (X, 2, 1, False, True), {}, (np.sort(X, 1)[:, :2], np.argsort(X, 1)[:, :2])),
    ("MaxDim", (X, 2, False), {}, (X.max(2), X.argmax(2))),
    ("MinDim", (X, 0, True), {}, (X.min(0, keepdims=True), X.argmin(0)[None])),
    # creation
    ("Arange", (1, 8, 3, None), {}, np.arange(1, 8, 3)),
    ("Range", (1, 8, 3, 100), {}, np.arange(1, 8, 3)),
    ("LinSpaceExt", (0.0, 1.0, 5, 43), {}, np.linspace(0, 1, 5, dtype=F32)),
    ("Ones", ((2, 3), 43), {}, np.ones((2, 3), F32)),
    ("Zeros", ((2, 3), 34), {}, np.zeros((2, 3), np.int32)),
    ("NewOnes", (X, (2, 3), None), {}, np.ones((2, 3), F32)),
    ("NewZeros", (X, (2, 3), 34), {}, np.zeros((2, 3), np.int32)),
    ("NewFull", (X, (2, 3), 1.5, None), {}, np.full((2, 3), 1.5, F32)),
    ("FillScalar", ((2, 2), 3.5, None), {}, np.full((2, 2), 3.5, F32)),
    ("FillTensor", ((2, 2), np.float32(3.5), None), {}, np.full((2, 2), 3.5, F32)),
    ("OnesLike", (X,), {}, np.ones_like(X)),
    ("OnesLikeExt", (X, 34), {}, np.ones(X.shape, np.int32)),
    ("ZerosLike", (X,), {}, np.zeros_like(X)),
    ("ZerosLikeExt", (X, None), {}, np.zeros_like(X)),
    ("FullLike", (X, 2.0, None), {}, np.full_like(X, 2)),
    ("TrilExt", (M, 1), {}, np.tril(M, 1)),
    ("DiagExt", (V, 0), {}, np.diag(V)),
    # numbers
    ("ScalarToTensor", (3, 43), {}, np.float32(3)),
    ("TupleToTensor", ((1, 2, 3), 34), {}, np.int32([1, 2, 3])),
    ("ListToTensor", ((1.5, 2.0), 43), {}, np.float32([1.5, 2])),
    ("TensorToTuple", (np.int64([4, 5]),), {}, (np.int64(4), np.int64(5))),
    ("TensorToScalar", (np.int64([4]),), {}, np.int64(4)),
    ("Rank", (X,), {}, np.int64(3)),
    ("Size", (X,), {}, np.int64(24)),
    *((f"Scalar{name}", pair, {}, want) for name, pair, want in NUMBERS),
    # of numbers that are computed, which are tensors here
    *((f"Scalar{name}", tuple(map(np.int64, pair)), {}, want) for name, pair, want in NUMBERS),
    ("ScalarCast", (2.7, 35), {}, np.int64(2)),
    ("ScalarBool", (0,), {}, np.bool_(False)),
    ("ScalarUadd", (3,), {}, np.int64(3)),
    ("ScalarLog", (np.float32(2),), {}, np.float32(np.log(2))),
    ("BoolNot", (True,), {}, np.bool_(False)),
    ("BoolNot", (np.bool_(False),), {}, np.bool_(True)),
    ("BoolAnd", (True, False), {}, np.bool_(False)),
    ("BoolAnd", (np.bool_(True), True), {}, np.bool_(True)),
    ("BoolOr", (np.bool_(False), True), {}, np.bool_(True)),
    ("BoolEq", (False, False), {}, np.bool_(True)),
    ("sequence_len", ((1, 2, 3),), {}, np.int64(3)),
    ("SequenceAdd", ((1,), (2,)), {}, (np.int64(1), np.int64(2))),
    ("SequenceMul", ((1, 2), 2), {}, (np.int64(1), np.int64(2)) * 2),
    ("SequenceSlice", ((1, 2, 3), 0, 3, 2), {}, (np.int64(1), np.int64(3))),
    ("RealTupleGetItem", ((5, 6, 7), 1), {}, np.int64(6)),
    ("RealTupleGetItem", ((5, 6, 7), np.int64(2)), {}, np.int64(7)),
    ("RealMakeTuple", (5, 6), {}, (np.int64(5), np.int64(6))),
    ("InSequence", (3, (1, 3)), {}, np.bool_(True)),
    ("is_", (None, None), {}, np.bool_(True)),
    ("is_not", (3, None), {}, np.bool_(True)),
]


@pytest.mark.parametrize(
    ("primitive", "operands", "attrs", "expected"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_primitive(
    primitive: str, operands: tuple[Any, ...], attrs: dict[str, Any], expected: Any, tmp_path: Path
) -> None:
    if expected is None:
        expected = SPECIAL[primitive](*operands)
    given = run(tmp_path, primitive, operands, attrs, expected)
    wanted = list(expected) if isinstance(expected, tuple) else [expected]
    assert len(given) == len(wanted)
    for result, want in zip(given, wanted, strict=True):
        want = np.asarray(want)
        assert (result.dtype, result.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(result, want, rtol=2e-5, atol=2e-6)


SPECIAL: dict[str, Any] = {
    "BatchMatMulExt": lambda a, b: a @ b,
    "Mm": lambda a, b: a @ b,
    "Dense": lambda x, w, _: x @ w.T,
    "Conv3DTranspose": lambda x, w: transposed(x, w, 2, 0),
    "PixelShuffle": shuffled,
    "Im2Col": columns,
}
"""Expected values that need the operands as they were drawn."""


RESIZED = [
    ("UpsampleNearest2D", (IMAGE, (9, 10), None), "ResizeNearestNeighborV2", (IMAGE, (9, 10), False, False)),
    ("UpsampleNearest2D", (IMAGE, None, (2.0, 2.0)), "ResizeNearestNeighborV2", (IMAGE, (12, 10), False, False)),
    ("UpsampleBilinear2D", (IMAGE, (9, 7), None, True), "ResizeBilinearV2", (IMAGE, (9, 7), True, False)),
    ("UpsampleBilinear2D", (IMAGE, (9, 7), None, False), "ResizeBilinearV2", (IMAGE, (9, 7), False, True)),
    ("UpsampleBicubic2D", (IMAGE, (9, 7), None, True), "ResizeBicubic", (IMAGE, (9, 7), True, False)),
]


@pytest.mark.parametrize(("primitive", "operands", "other", "others"), RESIZED)
def test_resizing_is_that_of_the_older_primitives(
    primitive: str, operands: tuple[Any, ...], other: str, others: tuple[Any, ...], tmp_path: Path
) -> None:
    one, two = run(tmp_path, primitive, operands, {}, None), run(tmp_path, other, others, {}, None)
    np.testing.assert_allclose(one[0], two[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rank", [1, 3])
def test_resizing_of_lines_and_volumes(rank: int, tmp_path: Path) -> None:
    data, size = (LINE, (18,)) if rank == 1 else (CUBE, (8, 8, 8))
    (nearest,) = run(tmp_path, f"UpsampleNearest{rank}D", (data, size, None), {}, None)
    expected = data
    for axis in range(2, 2 + rank):
        expected = expected.repeat(2, axis)
    assert np.array_equal(nearest, expected)
    name = "UpsampleLinear1D" if rank == 1 else "UpsampleTrilinear3D"
    (linear,) = run(tmp_path, name, (data, size, None, True), {}, None)
    assert linear.shape == expected.shape
    corners = tuple(slice(None, None, s - 1) for s in size)
    ends = tuple(slice(None, None, s - 1) for s in data.shape[2:])
    np.testing.assert_allclose(linear[(..., *corners)], data[(..., *ends)], rtol=1e-6)
