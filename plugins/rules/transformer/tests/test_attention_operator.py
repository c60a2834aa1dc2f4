"""The operator Attention written out: the same numbers, and attention that fuses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from autofusion.fusion.optimise import prepare
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType, of_array
from autofusion.options import Options
from autofusion_kernels_reference.evaluate import run_graph
from autofusion_rules_transformer.pack import PACK

F32 = np.float32


def _f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, F32)


def _graph(operands: list[np.ndarray | None], outputs: int, **attrs: Any) -> Graph:
    graph = Graph("g")
    values = [None if x is None else graph.add_input(f"x{i}", of_array(x)) for i, x in enumerate(operands)]
    node = graph.node("Attention", values, attrs, outputs=outputs)
    for value in node.outputs:
        graph.add_output(value)
    infer_graph(graph)
    return graph


def _check(operands: list[np.ndarray | None], outputs: int = 1, **attrs: Any) -> Graph:
    while operands and operands[-1] is None:
        operands.pop()
    graph = _graph(operands, outputs, **attrs)
    found, _ = prepare(graph, [PACK], Options())
    assert "Attention" not in [n.op for n in found.nodes]
    fed = {f"x{i}": x for i, x in enumerate(operands) if x is not None}
    for got, expected in zip(run_graph(found, fed), run_graph(graph, fed), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    return found


_MASKS: list[np.ndarray | None] = [None, _f32(5, 7), _f32(2, 1, 5, 7), np.tri(5, 7, 1, dtype=bool)]


@pytest.mark.parametrize(("mask", "causal", "past"), itertools.product(range(4), (0, 1), (0, 3)))
def test_masks_and_pasts(mask: int, causal: int, past: int) -> None:
    fresh = 7 - past
    operands = [_f32(2, 4, 5, 8), _f32(2, 4, fresh, 8), _f32(2, 4, fresh, 6), _MASKS[mask]]
    operands += [_f32(2, 4, past, 8), _f32(2, 4, past, 6)] if past else [None, None]
    _check(operands, 3, is_causal=causal, softcap=1.5)


@pytest.mark.parametrize("kind", [bool, F32])
def test_a_query_that_sees_no_key_gives_zero(kind: Any) -> None:
    seen = np.ones((5, 7), bool)
    seen[2] = False
    mask = seen if kind is bool else np.where(seen, 0, -np.inf).astype(F32)
    _check([_f32(1, 2, 5, 8), _f32(1, 2, 7, 8), _f32(1, 2, 7, 8), mask])


def test_shared_keys_and_packed_heads() -> None:
    _check([_f32(2, 6, 5, 8), _f32(2, 2, 7, 8), _f32(2, 2, 7, 8)], scale=0.3)
    _check([_f32(2, 5, 48), _f32(2, 7, 16), _f32(2, 7, 12)], 3, q_num_heads=6, kv_num_heads=2)


def test_what_stays_an_operator() -> None:
    x = _f32(1, 2, 4, 8)
    half = x.astype(np.float16)
    for graph in (_graph([half, half, half], 1), _graph([x, x, x], 4), _graph([x, x, x, _f32(4, 3)], 1)):
        found, _ = prepare(graph, [PACK], Options())
        assert [n.op for n in found.nodes] == ["Attention"]
    graph = _graph([x, x, x], 1)
    graph.inputs[0].type = TensorType(np.dtype(F32), (1, 2, "s", 8))
    found, _ = prepare(graph, [PACK], Options())
    assert [n.op for n in found.nodes] == ["Attention"]
