"""The node tests that ship with onnx, through ``autofusion.backend`` and the default packs, unfused and fused.

Those that do not pass are listed with the reason in ``backend_suite_failures.toml``; onnxruntime's count in the same
environment is printed for comparison.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase as Case
from onnx.backend.test.loader import load_model_tests

import autofusion.backend as backend

SHARE = 0.98
LISTED = {
    name: group["reason"]
    for group in tomllib.loads(Path(__file__).with_name("backend_suite_failures.toml").read_text())["group"]
    for name in group["tests"]
}

Run = Callable[[onnx.ModelProto, Sequence[Any]], Sequence[Any]]


def _cases() -> list[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(load_model_tests(kind="node"))


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _require_equal(got: Any, expected: Any, case: Case) -> None:
    expected = _array(expected)
    if expected is None:
        assert got is None
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            _require_equal(g, e, case)
    else:
        got, expected = np.asarray(got), np.asarray(expected)
        assert got.shape == expected.shape
        if expected.dtype.kind in "OUS":
            assert (got == expected).all()
            return
        assert got.dtype == expected.dtype
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), expected.astype(wide), rtol=case.rtol, atol=case.atol)


def _passes(case: Case, prepare: Callable[[onnx.ModelProto], Callable[[list[Any]], Sequence[Any]]]) -> str:
    """An empty string, or what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = prepare(case.model)
            for inputs, outputs in case.data_sets or ():
                got = run([_array(value) for value in inputs])
                for g, e in zip(got, outputs, strict=True):
                    _require_equal(g, e, case)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return ""


def _onnxruntime(model: onnx.ModelProto) -> Callable[[list[Any]], Sequence[Any]]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return lambda inputs: session.run(None, dict(zip(names, inputs, strict=False)))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["off", "full"])
def test_node_tests_of_onnx(level: str) -> None:
    cases = _cases()
    wrong = {
        case.name: why
        for case in cases
        if (why := _passes(case, lambda model: backend.prepare(model, level=level, threads=1).run))
    }
    passed = len(cases) - len(wrong)
    print(f"\nnode tests of onnx at level {level}: {passed} of {len(cases)} pass ({100 * passed / len(cases):.2f} %)")
    unlisted = {name: why for name, why in wrong.items() if name not in LISTED}
    assert not unlisted
    # Random ones may pass by chance.
    healed = [n for n, reason in LISTED.items() if n not in wrong and not reason.startswith("random")]
    assert not healed, "these pass now: take them off the list"
    assert passed >= SHARE * len(cases)


@pytest.mark.slow
def test_not_below_onnxruntime() -> None:
    cases = _cases()
    theirs = sum(not _passes(case, _onnxruntime) for case in cases)
    print(f"\nnode tests of onnx: onnxruntime passes {theirs} of {len(cases)}, Autofusion all but {len(LISTED)}")
    assert len(cases) - len(LISTED) >= theirs


def test_single_nodes_and_devices() -> None:
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    a, b = np.arange(3, dtype=np.float32), np.float32([1, 2, 3])
    (c,) = backend.run_node(node, [a, b])
    np.testing.assert_array_equal(c, a + b)
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
