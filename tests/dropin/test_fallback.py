"""A model that does not run here goes to the real onnxruntime, with one warning that says why."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import autofusion.onnxruntime as ort
from autofusion.errors import SizeWarning
from autofusion.onnxruntime import errors, fallback
from autofusion.runtime.session import Session
from tests.support import dropin_models as models

X = np.float32([1, -2])
SQUARE = np.float32([[1, 2], [3, 5]])


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    node = helper.make_node("Relu", ["x"], ["y"])
    return models.save(tmp_path / "relu.onnx", [node], [models.tensor("x", ["N"])], [models.tensor("y", ["N"])])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An operator of onnxruntime's own that no frontend reads."""
    node = helper.make_node("MurmurHash3", ["x"], ["y"], domain="com.microsoft", positive=0)
    result = models.tensor("y", [2, 2], TensorProto.INT32)
    return models.save(tmp_path / "own.onnx", [node], [models.tensor("x", [2, 2])], [result])


def hashed(path: Path) -> np.ndarray:
    """What the real one makes of it."""
    real = fallback.real()
    assert real is not None
    (y,) = real.InferenceSession(path).run(None, {"x": SQUARE})
    return np.asarray(y)


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def run(self: Session, inputs: Any) -> Any:
        raise error

    monkeypatch.setattr(Session, "run", run)


def test_a_model_that_cannot_be_loaded(own: Path) -> None:
    with pytest.warns(ort.FallbackWarning, match=f"'{own}': .*MurmurHash3") as told:
        session = ort.InferenceSession(own)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (y,) = session.run(None, {"x": SQUARE})
        assert [each.name for each in session.get_inputs()] == ["x"]
    np.testing.assert_array_equal(y, hashed(own))
    with pytest.raises(errors.InvalidArgument):
        session.run(None, {"x": X.astype(np.float64)})


def test_a_model_given_as_bytes(own: Path) -> None:
    with pytest.warns(ort.FallbackWarning, match="given as bytes: .*MurmurHash3"):
        session = ort.InferenceSession(own.read_bytes())
    np.testing.assert_array_equal(session.run(None, {"x": SQUARE})[0], hashed(own))


def test_strict_makes_it_an_error(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSION_STRICT", "1")
    with pytest.raises(errors.NotImplemented, match="MurmurHash3"):
        ort.InferenceSession(own)


def test_an_error_where_there_is_no_real_one(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "real", lambda: None)
    with pytest.raises(errors.NotImplemented, match="MurmurHash3"):
        ort.InferenceSession(own)


def test_what_neither_reads_is_an_error_without_a_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(errors.Fail, match="Whatever"):
            ort.InferenceSession(models.unknown(tmp_path / "unknown.onnx"))


@pytest.mark.parametrize("error", [errors.AutofusionError("no kernel runs it"), IndexError("a fault of ours")])
def test_a_run_that_fails(relu: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    session = ort.InferenceSession(relu)
    broken(monkeypatch, error)
    with pytest.warns(ort.FallbackWarning, match=str(error)) as told:
        assert session.run(None, {"x": X})[0].tolist() == [1, 0]
        assert session.run(["y"], {"x": X[1:]})[0].tolist() == [0]
    assert len(told) == 1
    monkeypatch.setenv("AUTOFUSION_STRICT", "1")
    again = ort.InferenceSession(relu)
    with pytest.raises((errors.RuntimeException, errors.Fail), match=str(error)):
        again.run(None, {"x": X})


def test_inputs_that_the_model_takes_though_a_symbol_differs(tmp_path: Path) -> None:
    session = ort.InferenceSession(models.one_symbol(tmp_path / "symbol.onnx"))
    with pytest.warns(SizeWarning, match="dim 'N' is 1 in input 'a'"):
        assert session.run(None, {"a": X[:1], "b": X})[0].tolist() == [2, -1]


def test_wrong_inputs_load_nothing(relu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ort.InferenceSession(relu)
    monkeypatch.setattr(fallback, "real", lambda: pytest.fail("the real onnxruntime was loaded"))
    for wrong in (X.astype(np.int32), X.reshape(1, 2), None):
        with pytest.raises(errors.InvalidArgument):
            session.run(None, {"x": wrong})
    assert session.run(None, {"x": X})[0].tolist() == [1, 0]


def test_options_that_only_the_real_one_has(relu: Path, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with pytest.warns(ort.FallbackWarning, match="SessionOptions.optimized_model_filepath"):
        session = ort.InferenceSession(relu, options)
    assert session.run(None, {"x": X})[0].tolist() == [1, 0]
    assert Path(options.optimized_model_filepath).exists()
