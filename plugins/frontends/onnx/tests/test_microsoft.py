"""Fused operators of onnxruntime, each against onnxruntime's own kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from plugins.frontends.onnx.tests.microsoft import RNG, f32, i8, scalar, single, u8
from plugins.frontends.onnx.tests.onnx_models import assert_same, check_against_ort, load, model, ort, run


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid", None])
@pytest.mark.parametrize("addend", [False, True])
def test_fused_conv(activation: str | None, addend: bool) -> None:
    parameters = {"LeakyRelu": [0.2], "Clip": [-0.5, 0.5], "HardSigmoid": [0.3, 0.4]}.get(activation or "")
    attrs: dict[str, Any] = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    if activation:
        attrs["activation"] = activation
    if parameters:
        attrs["activation_params"] = parameters
    z = f32(1, 4, 6, 6) if addend else None
    single("FusedConv", {"x": f32(1, 3, 6, 6), "W": f32(4, 3, 3, 3), "B": f32(4), "z": z}, **attrs)


@pytest.mark.parametrize(
    ("a", "b", "attrs"),
    [
        ((3, 4), (4, 5), {}),
        ((2, 4, 3), (2, 4, 5), {"transA": 1, "alpha": 0.5}),
        ((2, 3, 4), (2, 5, 4), {"transB": 1}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((4, 2, 3), (2, 4, 5), {"transBatchA": 1, "transA": 1}),
    ],
)
def test_fused_matmul(a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, Any]) -> None:
    single("FusedMatMul", {"a": f32(*a), "b": f32(*b)}, **attrs)


def test_fused_gemm() -> None:
    operands = {"a": f32(4, 3), "b": f32(5, 4), "c": f32(5)}
    attrs = {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0, "activation": "LeakyRelu", "activation_alpha": 0.1}
    single("FusedGemm", operands, **attrs)


@pytest.mark.parametrize("op", ["Gelu", "FastGelu", "QuickGelu"])
def test_gelu(op: str) -> None:
    single(op, {"x": f32(3, 40, scale=3)})


@pytest.mark.parametrize("op", ["BiasGelu", "FastGelu"])
def test_gelu_with_bias(op: str) -> None:
    single(op, {"x": f32(3, 40, scale=3), "bias": f32(40)})


@pytest.mark.parametrize(("axis", "inner", "bias"), [(3, 0, (2, 1, 1, 6)), (2, 1, (1, 4, 6)), (1, 1, (3, 4, 6))])
def test_bias_softmax(axis: int, inner: int, bias: tuple[int, ...]) -> None:
    try:
        single("BiasSoftmax", {"x": f32(2, 3, 4, 6), "bias": f32(*bias)}, axis=axis, is_inner_broadcast=inner)
    except Exception as error:  # no CPU kernel in some builds of onnxruntime
        if "NOT_IMPLEMENTED" not in str(error) and "Could not find an implementation" not in str(error):
            raise
        pytest.skip("this onnxruntime has no kernel to compare with")


def test_nhwc_max_pool() -> None:
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    single("NhwcMaxPool", {"x": u8(1, 7, 6, 4)}, **attrs)


def test_skip_layer_normalization() -> None:
    single("SkipLayerNormalization", {"x": f32(2, 3, 8), "s": f32(2, 3, 8), "g": f32(8), "b": f32(8), "bias": f32(8)})


def test_skip_layer_normalization_sum() -> None:
    names = ["x", "s", "g", "b"]
    inputs = {"x": f32(2, 3, 8), "s": f32(2, 3, 8), "g": f32(8), "b": f32(8)}
    node = helper.make_node(
        "SkipLayerNormalization", names, ["y", "", "", "total"], domain="com.microsoft", epsilon=1e-5
    )
    source = model([node], inputs, ["y", "total"], domains={"com.microsoft": 1})
    check_against_ort(source, inputs, atol=1e-5)


def test_skip_simplified_layer_normalization() -> None:
    single("SkipSimplifiedLayerNormalization", {"x": f32(2, 3, 8), "s": f32(2, 3, 8), "g": f32(8)}, epsilon=1e-6)


def test_simplified_layer_normalization_of_the_default_domain() -> None:
    inputs = {"x": f32(2, 3, 8), "g": f32(8)}
    node = helper.make_node("SimplifiedLayerNormalization", ["x", "g"], ["y"], axis=-1, epsilon=1e-6)
    check_against_ort(model([node], inputs, ["y"]), inputs)


def test_layer_normalization_before_its_operator_set() -> None:
    inputs = {"x": f32(2, 3, 8), "g": f32(8), "b": f32(8)}
    node = helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1, epsilon=1e-6)
    check_against_ort(model([node], inputs, ["y"], opset=12), inputs)


def test_embed_layer_normalization() -> None:
    ids, segments = RNG.integers(0, 10, (2, 4)).astype(np.int32), RNG.integers(0, 2, (2, 4)).astype(np.int32)
    single(
        "EmbedLayerNormalization",
        {
            "ids": ids,
            "segments": segments,
            "words": f32(10, 8),
            "positions": f32(6, 8),
            "table": f32(2, 8),
            "gamma": f32(8),
            "beta": f32(8),
            "mask": np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32),
        },
        2,
    )


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", [None, "lengths", "raw", "square"])
def test_attention(causal: int, mask: str | None) -> None:
    masks = {
        "lengths": np.array([3, 5], np.int32),
        "raw": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
        "square": np.tril(np.ones((2, 5, 5), np.int32)),
    }
    operands = {"x": f32(2, 5, 8), "w": f32(8, 24), "b": f32(24), "mask": masks.get(mask or "")}
    single("Attention", operands, num_heads=2, unidirectional=causal)


def test_attention_with_past() -> None:
    operands = {"x": f32(2, 3, 8), "w": f32(8, 24), "b": f32(24), "mask": None, "past": f32(2, 2, 2, 4, 4)}
    single("Attention", operands, 2, num_heads=2, unidirectional=1)


@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(bias: bool) -> None:
    operands = {
        "q": f32(2, 4, 8),
        "k": f32(2, 6, 8),
        "v": f32(2, 6, 8),
        "bias": f32(24) if bias else None,
        "mask": np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32),
        "extra": f32(1, 2, 4, 6),
    }
    single("MultiHeadAttention", operands, num_heads=2)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("row", [False, True])
def test_rotary_embedding(interleaved: int, row: bool) -> None:
    positions = np.array([[0, 1, 2], [3, 4, 5]], np.int64) if row else np.array([2], np.int64)
    operands = {"x": f32(2, 3, 16), "p": positions, "c": f32(8, 4), "s": f32(8, 4)}
    single("RotaryEmbedding", operands, interleaved=interleaved, num_heads=0)
    single("RotaryEmbedding", operands, interleaved=interleaved)


def q(scale: float, zero: int, dtype: Any = np.uint8) -> tuple[np.ndarray, np.ndarray]:
    return scalar(scale), scalar(zero, dtype)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_qlinear_binary(op: str) -> None:
    (sa, za), (sb, zb), (sc, zc) = q(0.02, 120), q(0.03, 130), q(0.05, 110)
    single(op, {"a": u8(2, 3, 4), "SA": sa, "ZA": za, "b": u8(3, 4), "SB": sb, "ZB": zb, "SC": sc, "ZC": zc}, atol=1.01)


@pytest.mark.parametrize(("op", "attrs"), [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1})])
def test_qlinear_unary(op: str, attrs: dict[str, Any]) -> None:
    (sx, zx), (sy, zy) = q(0.05, 128), q(1 / 256 if op == "QLinearSigmoid" else 0.05, 0)
    single(op, {"x": u8(3, 40), "SX": sx, "ZX": zx, "SY": sy, "ZY": zy}, atol=1.01, **attrs)


def test_qlinear_softmax() -> None:
    (sx, zx), (sy, zy) = q(0.05, 128), q(1 / 256, 0)
    single("QLinearSoftmax", {"x": u8(3, 10), "SX": sx, "ZX": zx, "SY": sy, "ZY": zy}, atol=1.01, axis=-1, opset=13)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    ("op", "attrs"),
    [("QLinearGlobalAveragePool", {}), ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]})],
)
def test_qlinear_pool(op: str, attrs: dict[str, Any], last: int) -> None:
    (sx, zx), (sy, zy) = q(0.05, 128), q(0.04, 120)
    operands = {"x": u8(1, 4, 6, 8), "SX": sx, "ZX": zx, "SY": sy, "ZY": zy}
    single(op, operands, atol=1.01, channels_last=last, **attrs)


def test_qlinear_concat() -> None:
    (sa, za), (sb, zb), (sc, zc) = q(0.02, 120), q(0.03, 130), q(0.05, 110)
    operands = {"SC": sc, "ZC": zc, "a": u8(2, 3), "SA": sa, "ZA": za, "b": u8(2, 5), "SB": sb, "ZB": zb}
    single("QLinearConcat", operands, atol=1.01, axis=1)


def test_qlinear_where() -> None:
    (sa, za), (sb, zb), (sc, zc) = q(0.02, 120), q(0.03, 130), q(0.05, 110)
    condition = RNG.integers(0, 2, (2, 3)).astype(bool)
    operands = {
        "c": condition,
        "a": u8(2, 3),
        "SA": sa,
        "ZA": za,
        "b": u8(2, 3),
        "SB": sb,
        "ZB": zb,
        "SC": sc,
        "ZC": zc,
    }
    single("QLinearWhere", operands, atol=1.01)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize(("trans_a", "trans_b", "alpha"), [(0, 0, 1.0), (1, 0, 0.7), (0, 1, 1.3)])
def test_qgemm(quantised: bool, bias: bool, per_column: bool, trans_a: int, trans_b: int, alpha: float) -> None:
    """Integers are the same: sums are exact, and scaled by factors that are computed in one order."""
    (sa, za), (sc, zc) = q(0.02, 120), q(1.7, 128)
    n = 37
    operands = {
        "a": u8(40, 23) if trans_a else u8(23, 40),
        "SA": sa,
        "ZA": za,
        "B": i8(n, 40) if trans_b else i8(40, n),
        "SB": np.abs(f32(n)) / 30 + np.float32(0.01) if per_column else scalar(0.03),
        "ZB": np.zeros(n, np.int8) if per_column else scalar(3, np.int8),
        "C": RNG.integers(-9000, 9000, (n,)).astype(np.int32) if bias else None,
    }
    if quantised:
        operands |= {"SY": sc, "ZY": zc}
    single("QGemm", operands, atol=0 if quantised else 1e-4, alpha=alpha, transA=trans_a, transB=trans_b)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("per_column", [False, True])
def test_dynamic_quantize_matmul(bias: bool, per_column: bool) -> None:
    scale = np.abs(f32(5)) + 0.01 if per_column else scalar(0.02)
    zero = np.zeros(5, np.int8) if per_column else scalar(3, np.int8)
    operands = {"a": f32(3, 4), "B": i8(4, 5), "S": scale, "Z": zero, "BIAS": f32(5) if bias else None}
    single("DynamicQuantizeMatMul", operands, atol=1e-4)


def test_matmul_integer_to_float() -> None:
    operands = {
        "a": u8(3, 4),
        "B": i8(4, 5),
        "SA": scalar(0.02),
        "SB": scalar(0.03),
        "ZA": scalar(120, np.uint8),
        "ZB": scalar(0, np.int8),
        "BIAS": f32(5),
    }
    single("MatMulIntegerToFloat", operands, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("k", [32, 40])
def test_matmul_n_bits(bits: int, zeros: bool, k: int) -> None:
    n, size = 6, 16
    blocks = -(-k // size)
    operands = {
        "a": f32(3, k),
        "B": u8(n, blocks, size * bits // 8),
        "S": np.abs(f32(n * blocks, scale=0.1)),
        "Z": u8(n * (-(-blocks * bits // 8))) if zeros else None,
    }
    single("MatMulNBits", operands, atol=2e-3, K=k, N=n, bits=bits, block_size=size)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_dynamic_quantize_lstm(direction: str) -> None:
    d, hidden = (2 if direction == "bidirectional" else 1), 5
    operands = {
        "x": f32(4, 2, 3),
        "W": i8(d, 3, 4 * hidden),
        "R": i8(d, hidden, 4 * hidden),
        "B": f32(d, 8 * hidden),
        "SEQ": None,
        "h": f32(d, 2, hidden),
        "c": f32(d, 2, hidden),
        "P": None,
        "WS": np.full(d, 0.01, np.float32),
        "WZ": np.zeros(d, np.int8),
        "RS": np.full(d, 0.02, np.float32),
        "RZ": np.zeros(d, np.int8),
    }
    single("DynamicQuantizeLSTM", operands, 3, atol=1e-4, hidden_size=hidden, direction=direction)


def test_expand_dims_and_pad() -> None:
    single("ExpandDims", {"x": f32(2, 3), "A": np.array(1, np.int32)})
    single("Pad", {"x": f32(2, 3), "P": np.array([0, 1, 0, 2], np.int64), "V": np.array([1.5], np.float32)})


def test_form_that_is_not_known_stays_opaque() -> None:
    operands = {"x": f32(1, 3, 8), "w": f32(8, 24), "b": f32(24)}
    source = helper.make_node("Attention", list(operands), ["y"], domain="com.microsoft", num_heads=2, do_rotary=1)
    graph = load(model([source], operands, ["y"], domains={"com.microsoft": 1}))
    (node,) = graph.nodes
    assert node.op == "com.microsoft::Attention"
    assert node.attrs["not_converted"] == "rotary embeddings and shared caches are not supported"


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", ["prompt", "next", "several", "window", "softcap"])
def test_group_query_attention(case: str, packed: bool, rotary: int) -> None:
    heads, groups, size, batch = 4, 2, 16, 2
    past = {"prompt": 0, "next": 3, "several": 4, "window": 6, "softcap": 3}[case]
    length = {"prompt": 5, "next": 1, "several": 1, "window": 1, "softcap": 1}[case]
    ends = [past + length - 1] * batch
    if case == "prompt":
        ends = [4, 2]
    attrs: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": rotary}
    if case == "window":
        attrs["local_window_size"] = 3
    if case == "softcap":
        attrs["softcap"] = 2.0
    q, k, v = (f32(batch, length, n * size) for n in (heads, groups, groups))
    operands: dict[str, np.ndarray | None] = {
        "q": np.concatenate([q, k, v], -1) if packed else q,
        "k": None if packed else k,
        "v": None if packed else v,
        "pk": f32(batch, groups, past, size),
        "pv": f32(batch, groups, past, size),
        "ends": np.array(ends, np.int32),
        "TOTAL": np.array(past + length, np.int32),
        "C": f32(16, size // 2) if rotary else None,
        "S": f32(16, size // 2) if rotary else None,
    }
    names = [n if value is not None else "" for n, value in operands.items()]
    node = helper.make_node("GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", **attrs)
    constants = {n: a for n, a in operands.items() if n.isupper()}
    fed = {n: a for n, a in operands.items() if a is not None and not n.isupper()}
    source = model([node], fed, node.output, constants=constants, domains={"com.microsoft": 1})
    got, expected = run(load(source), fed), ort(source, fed)
    if case == "prompt":  # what padded queries see is left open
        got[0][1, 3:] = expected[0][1, 3:] = 0
    assert_same(got, expected, rtol=1e-4, atol=1e-5)
