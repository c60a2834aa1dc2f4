"""Attention of onnxruntime's domain in its many forms: sinks, biases, packed operands, masks of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from plugins.frontends.onnx.tests.microsoft import RNG, f32, single
from plugins.frontends.onnx.tests.onnx_models import assert_same, check_against_ort, load, model, ort, run


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def _group_query(length: int, past: int, **more: np.ndarray | None) -> dict[str, np.ndarray | None]:
    """Operands for 4 heads of 8 that share 2 heads of keys, in a batch of 2."""
    return {
        "q": f32(2, length, 32),
        "k": f32(2, length, 16),
        "v": f32(2, length, 16),
        "pk": f32(2, 2, past, 8),
        "pv": f32(2, 2, past, 8),
        "ends": _i32(past + length - 1, past + length - 1),
        "TOTAL": np.array(past + length, np.int32),
        "cos": None,
        "sin": None,
        "positions": None,
        "bias": None,
        "sink": None,
    } | more


_HEADS = {"num_heads": 4, "kv_num_heads": 2}


@pytest.mark.parametrize(("length", "past"), [(5, 0), (1, 4)])
@pytest.mark.parametrize("more", ["sink", "smooth", "sink and softcap"])
def test_sinks(more: str, length: int, past: int) -> None:
    operands = _group_query(length, past, sink=None if more == "smooth" else f32(4))
    attrs: dict[str, Any] = {"smooth_softmax": 1} if more == "smooth" else {}
    if "softcap" in more:
        attrs["softcap"] = 2.0
    single("GroupQueryAttention", operands, 3, **_HEADS, **attrs)


@pytest.mark.parametrize(("length", "past"), [(5, 0), (1, 4)])
@pytest.mark.parametrize("shape", [(2, 4), (1, 4), (2, 1), (1, 1)])
@pytest.mark.parametrize("softcap", [0.0, 1.5])
def test_bias_of_grouped_heads(shape: tuple[int, int], length: int, past: int, softcap: float) -> None:
    operands = _group_query(length, past, bias=f32(*shape, length, past + length))
    single("GroupQueryAttention", operands, 3, softcap=softcap, **_HEADS)


def test_bias_of_a_cache_that_is_longer_than_its_content() -> None:
    operands = _group_query(1, 6, bias=f32(1, 1, 1, 4), ends=_i32(3, 2), TOTAL=np.array(4, np.int32))
    fed = {n: v for n, v in operands.items() if v is not None}
    names = [n if v is not None else "" for n, v in operands.items()]
    node = helper.make_node("GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", **_HEADS)
    source = model([node], fed, node.output, domains={"com.microsoft": 1})
    assert_same(run(load(source), fed)[:1], ort(source, fed)[:1], 1e-4, 1e-5)  # what lies behind the end is left open


@pytest.mark.parametrize(("length", "past"), [(3, 0), (1, 4)])
def test_stated_positions(length: int, past: int) -> None:
    positions = np.arange(past, past + length, dtype=np.int64)[None].repeat(2, 0)
    more = {"q": f32(2, length, 64), "k": f32(2, length, 32), "v": f32(2, length, 32)}
    more |= {"pk": f32(2, 2, past, 16), "pv": f32(2, 2, past, 16), "cos": f32(16, 8), "sin": f32(16, 8)}
    operands = _group_query(length, past, positions=positions, **more)
    single("GroupQueryAttention", operands, 3, do_rotary=1, **_HEADS)


@pytest.mark.parametrize(("length", "past"), [(3, 0), (1, 2)])
def test_every_size_open(length: int, past: int) -> None:
    operands = _group_query(length, past, sink=f32(4))
    names = [n if v is not None else "" for n, v in operands.items()]
    node = helper.make_node("GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", **_HEADS)
    fed = {n: v for n, v in operands.items() if v is not None}
    check_against_ort(model([node], fed, ["y", "nk", "nv"], domains={"com.microsoft": 1}, dynamic=True), fed, atol=1e-5)
    packed = operands | {"q": f32(2, length, 64), "k": None, "v": None}
    names = [n if v is not None else "" for n, v in packed.items()]
    node = helper.make_node("GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", **_HEADS)
    fed = {n: v for n, v in packed.items() if v is not None}
    check_against_ort(model([node], fed, ["y", "nk", "nv"], domains={"com.microsoft": 1}, dynamic=True), fed, atol=1e-5)


def test_not_causal() -> None:
    operands = _group_query(4, 0)
    names = [n if v is not None else "" for n, v in operands.items()]
    node = helper.make_node("GroupQueryAttention", names, ["y"], domain="com.microsoft", causal=0, **_HEADS)
    fed = {n: v for n, v in operands.items() if v is not None}
    (y,) = run(load(model([node], fed, ["y"], domains={"com.microsoft": 1})), fed)
    q, k, v = (fed[n].reshape(2, 4, -1, 8).transpose(0, 2, 1, 3).astype(np.float64) for n in "qkv")
    k, v = k.repeat(2, 1), v.repeat(2, 1)
    weights = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(8))
    expected = (weights / weights.sum(-1, keepdims=True)) @ v
    np.testing.assert_allclose(y, expected.transpose(0, 2, 1, 3).reshape(2, 4, 32), rtol=1e-4, atol=1e-5)


def test_normalised_queries_and_keys() -> None:
    operands = _group_query(3, 0) | {"ks": None, "vs": None, "qn": f32(8), "kn": f32(8)}
    names = [n if v is not None else "" for n, v in operands.items()]
    node = helper.make_node("GroupQueryAttention", names, ["y"], domain="com.microsoft", **_HEADS)
    fed = {n: v for n, v in operands.items() if v is not None}
    (y,) = run(load(model([node], fed, ["y"], domains={"com.microsoft": 1})), fed)

    def normal(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        by_head = x.reshape(2, 3, -1, 8)
        return (by_head / np.sqrt((by_head**2).mean(-1, keepdims=True) + 1e-6) * weight).reshape(x.shape)

    plain = _group_query(3, 0, q=normal(fed["q"], fed["qn"]), k=normal(fed["k"], fed["kn"]), v=fed["v"])
    names = [n if v is not None else "" for n, v in plain.items()]
    node = helper.make_node("GroupQueryAttention", names, ["y"], domain="com.microsoft", **_HEADS)
    fed = {n: v for n, v in plain.items() if v is not None}
    (expected,) = run(load(model([node], fed, ["y"], domains={"com.microsoft": 1})), fed)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", ["qkv", "kv", "by head"])
def test_packed_heads(form: str, bias: bool, dynamic: bool) -> None:
    """onnxruntime has kernels for GPUs only: compared with the form that is not packed."""
    q, k, v = f32(2, 4, 16), f32(2, 4, 16), f32(2, 4, 16)
    added = f32(48) if bias else None
    apart = [x.reshape(2, 4, 2, 8) for x in (q, k, v)]
    packed: dict[str, np.ndarray | None] = {"q": q, "k": np.stack(apart[1:], 3), "v": None, "b": added}
    if form == "qkv":
        packed = {"q": np.stack(apart, 3), "k": None, "v": None, "b": added}
    elif form == "by head":
        packed = {"q": q, "k": apart[1].transpose(0, 2, 1, 3), "v": apart[2].transpose(0, 2, 1, 3), "b": added}
        if added is not None:
            added = added.copy()
            added[16:] = 0  # they come from another node, with theirs
    results = []
    for operands in (packed, {"q": q, "k": k, "v": v, "b": added}):
        names = [n if x is not None else "" for n, x in operands.items()]
        node = helper.make_node("MultiHeadAttention", names, ["y"], domain="com.microsoft", num_heads=2)
        fed = {n: x for n, x in operands.items() if x is not None}
        graph = load(model([node], fed, ["y"], domains={"com.microsoft": 1}, dynamic=dynamic))
        assert not [n for n in graph.nodes if "::" in n.op]
        results += run(graph, fed)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_keys_and_values_by_head_against_onnxruntime() -> None:
    single("MultiHeadAttention", {"q": f32(2, 3, 16), "k": f32(2, 2, 5, 8), "v": f32(2, 2, 5, 8)}, num_heads=2)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "mask",
    [
        _i32(3, 5),
        _i32(5, 4, 1, 0),  # ends, then begins
        RNG.integers(0, 2, (2, 5)).astype(np.int32),
        RNG.integers(0, 2, (2, 5, 5)).astype(np.int32),
    ],
)
@pytest.mark.parametrize("causal", [0, 1])
def test_masks_of_attention(mask: np.ndarray, causal: int, dynamic: bool) -> None:
    inputs = {"x": f32(2, 5, 8), "w": f32(8, 24), "b": f32(24), "m": mask}
    attrs = {"num_heads": 2, "unidirectional": causal}
    node = helper.make_node("Attention", list(inputs), ["y"], domain="com.microsoft", **attrs)
    check_against_ort(model([node], inputs, ["y"], domains={"com.microsoft": 1}, dynamic=dynamic), inputs, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("form", ["totals", "all that may be"])
def test_masks_that_only_other_providers_know(form: str, dynamic: bool) -> None:
    """Compared with the plain mask that says the same."""
    plain = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    mask = _i32(3, 5, 0, 5, 10, 0, 3, 8)
    if form == "all that may be":
        plain = RNG.integers(0, 2, (2, 5, 5)).astype(np.int32)
        mask = np.zeros((2, 1, 7, 7), np.int32)
        mask[:, 0, :5, :5] = plain
    x, w, b = f32(2, 5, 8), f32(8, 24), f32(24)
    results = []
    for m in (mask, plain):
        inputs = {"x": x, "w": w, "b": b, "m": m}
        node = helper.make_node("Attention", list(inputs), ["y"], domain="com.microsoft", num_heads=2)
        results += run(load(model([node], inputs, ["y"], domains={"com.microsoft": 1}, dynamic=dynamic)), inputs)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)
