"""Every node test of the ONNX backend suite that means the same at the IR's opset, with the suite's own tolerance."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

from autofusion_kernels_reference.evaluate import run_graph
from plugins.kernels.reference.tests.onnx_nodes import as_ir, graph_of, unusable

_RANDOM = "draws random numbers, and the operator set does not say which"
_ALIGNED = "takes the length before rounding; the operator's text takes the length of the result, as onnxruntime does"
EXCEPTIONS: dict[str, str] = {
    "test_resize_downsample_scales_cubic_align_corners": _ALIGNED,
    "test_resize_downsample_scales_linear_align_corners": _ALIGNED,
    "test_bernoulli": _RANDOM,
    "test_bernoulli_double": _RANDOM,
    "test_bernoulli_seed": _RANDOM,
    "test_training_dropout": _RANDOM,
    "test_training_dropout_default": _RANDOM,
    "test_training_dropout_default_mask": _RANDOM,
    "test_training_dropout_mask": _RANDOM,
}
"""Cases that are not run, with the reason."""


@cache
def _cases() -> dict[str, Any]:
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = loader.load_model_tests(kind="node")
    return {case.name: case for case in found if not unusable(case.model)}


def _same(got: Any, expected: Any, rtol: float, atol: float) -> None:
    if isinstance(expected, list):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            _same(g, e, rtol, atol)
        return
    if expected is None:
        assert got is None
        return
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert got.flags.c_contiguous
    if expected.dtype == object:
        assert got.tolist() == expected.tolist()
    elif expected.dtype.kind == "V" or expected.dtype.name.startswith(("float", "bfloat")):
        # Where the suite computes in 16 bits we round once, at the end: two units in the last place apart.
        rtol = max(rtol, {"bfloat16": 2.0**-6, "float16": 2.0**-9}.get(expected.dtype.name, 0))
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol, atol)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", sorted(_cases()))
def test_onnx_node_case(name: str) -> None:
    if name in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[name])
    if "image_decoder" in name:
        pytest.importorskip("PIL")
    case = _cases()[name]
    graph = graph_of(case.model)
    for inputs, outputs in case.data_sets:
        inputs = [as_ir(x) for x in inputs]
        kept = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
        names = [v.name for v in graph.inputs if v.const is None]
        got = run_graph(graph, dict(zip(names, inputs, strict=True)))
        for g, e in zip(got, outputs, strict=True):
            _same(g, as_ir(e), case.rtol, case.atol)
            arrays = [x for x in inputs if isinstance(x, np.ndarray) and isinstance(g, np.ndarray)]
            assert not any(np.may_share_memory(x, g) for x in arrays)
        for x, k in zip(inputs, kept, strict=True):
            if isinstance(x, np.ndarray) and x.dtype != object:
                assert x.tobytes() == k.tobytes()


def test_exceptions_are_cases() -> None:
    assert set(EXCEPTIONS) <= set(_cases())
