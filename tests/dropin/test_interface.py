"""The stand-in answers as the real onnxruntime does: same values, same signatures, same exceptions by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime as theirs
import pytest

import autofusion.onnxruntime as ours
from tests.support import dropin_models as models

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
BOTH = pytest.mark.parametrize("ort", [theirs, ours], ids=["theirs", "ours"])


@pytest.fixture(scope="module")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.gemm(tmp_path_factory.mktemp("models") / "gemm.onnx")


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSION_STRICT", "1")


def ending(act: Callable[[], Any]) -> str:
    """The name of the exception that ``act`` ends in, with the status if its message states one."""
    try:
        act()
    except Exception as error:
        status = re.match(r"\[ONNXRuntimeError\] : (\d+ : \w+) : ", str(error))
        return f"{type(error).__name__} {status[1] if status else ''}".strip()
    return "none"


def same(act: Callable[[ModuleType], Any], expected: str) -> None:
    assert {ort.__name__: ending(lambda ort=ort: act(ort)) for ort in (theirs, ours)} == {
        "onnxruntime": expected,
        "autofusion.onnxruntime": expected,
    }


def session(ort: ModuleType, path: Path, **options: Any) -> Any:
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"], **options)


def test_signature_and_metadata(gemm: Path) -> None:
    real, mine = session(theirs, gemm), session(ours, gemm)
    for look in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        args = [[(a.name, a.type, a.shape) for a in getattr(s, look)()] for s in (real, mine)]
        assert args[0] == args[1]
    assert [a.shape for a in mine.get_outputs()] == [["N", 3], ["M", 3]]
    for name in ours.ModelMetadata.__dataclass_fields__:
        assert getattr(real.get_modelmeta(), name) == getattr(mine.get_modelmeta(), name)
    assert mine.get_modelmeta().custom_metadata_map == {"names": "['cat', 'dog']", "stride": "32"}
    assert mine.get_providers() == ours.get_available_providers() == ["CPUExecutionProvider"]


def test_symbols_that_name_no_size_are_told_as_they_stand(tmp_path: Path) -> None:
    from onnx import helper

    path = models.save(
        tmp_path / "odd.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [models.tensor("x", [None, "?", -1, "unk"])],
        [models.tensor("y", None)],
    )
    found = [
        [a.shape for a in (*s.get_inputs(), *s.get_outputs())] for s in (session(theirs, path), session(ours, path))
    ]
    assert found[0][0] == found[1][0] == [None, "?", None, "unk"]


@pytest.mark.parametrize("make", [str, Path, lambda p: Path(p).read_bytes()], ids=["str", "PathLike", "bytes"])
def test_where_models_come_from(gemm: Path, make: Callable[[str], Any]) -> None:
    (want,) = session(theirs, gemm).run(["z"], {"x": X})
    (got,) = ours.InferenceSession(make(str(gemm))).run(["z"], {"x": X})
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("names", [None, [], ["y"], ("z", "y"), ["z", "z"]])
def test_results_are_in_the_order_asked_for(gemm: Path, names: Any) -> None:
    feed = {"x": X, "b": np.ones(3, np.float32)}
    want, got = (session(ort, gemm).run(names, feed) for ort in (theirs, ours))
    assert len(want) == len(got)
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


def run_bound(made: Any, output: str) -> None:
    bound = made.io_binding()
    bound.bind_cpu_input("x", X)
    bound.bind_output(output)
    made.run_with_iobinding(bound)


WRONG = {
    "output name": (lambda s: s.run(["nope"], {"x": X}), "InvalidArgument 2 : INVALID_ARGUMENT"),
    "output names": (lambda s: s.run("y", {"x": X}), "TypeError"),
    "input name": (lambda s: s.run(None, {"x": X, "nope": X}), "InvalidArgument 2 : INVALID_ARGUMENT"),
    "missing": (lambda s: s.run(None, {}), "ValueError"),
    "dtype": (lambda s: s.run(None, {"x": X.astype(np.float64)}), "InvalidArgument 2 : INVALID_ARGUMENT"),
    "text": (lambda s: s.run(None, {"x": X.astype(str)}), "InvalidArgument 2 : INVALID_ARGUMENT"),
    "rank": (lambda s: s.run(None, {"x": X[0]}), "InvalidArgument 2 : INVALID_ARGUMENT"),
    "size": (lambda s: s.run(None, {"x": X[:, :3]}), "InvalidArgument 2 : INVALID_ARGUMENT"),
    "number": (lambda s: s.run(None, {"x": 1.0}), "RuntimeError"),
    "object": (lambda s: s.run(None, {"x": "a"}), "RuntimeError"),
    "run options": (lambda s: s.run(None, {"x": X}, 5), "TypeError"),
    "unbound": (lambda s: s.run_with_iobinding(s.io_binding()), "RuntimeError"),
    "bound input": (lambda s: s.io_binding().bind_cpu_input("nope", X), "RuntimeError"),
    "bound output": (lambda s: run_bound(s, "nope"), "RuntimeError"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_runs(gemm: Path, what: str) -> None:
    act, expected = WRONG[what]
    same(lambda ort: act(session(ort, gemm)), expected)


def test_wrong_models(tmp_path: Path, gemm: Path) -> None:
    same(lambda ort: session(ort, tmp_path / "none.onnx"), "NoSuchFile 3 : NO_SUCHFILE")
    same(lambda ort: ort.InferenceSession(b"no model"), "InvalidProtobuf 7 : INVALID_PROTOBUF")
    same(lambda ort: ort.InferenceSession(b""), "InvalidArgument 2 : INVALID_ARGUMENT")
    same(lambda ort: ort.InferenceSession(5), "TypeError")
    same(lambda ort: ort.InferenceSession(str(gemm), 5), "TypeError")
    (tmp_path / "text.onnx").write_text("no model " * 99)
    same(lambda ort: session(ort, tmp_path / "text.onnx"), "InvalidProtobuf 7 : INVALID_PROTOBUF")


@BOTH
def test_lists_and_scalars_in_a_list(gemm: Path, tmp_path: Path, ort: ModuleType) -> None:
    a = session(ort, gemm)
    for _ in range(2):
        np.testing.assert_array_equal(a.run(["y"], {"x": X.tolist()})[0], a.run(["y"], {"x": X})[0])
    b = session(ort, models.scalar(tmp_path / "scalar.onnx"))
    for _ in range(2):
        assert b.run(None, {"x": np.float32([1, 2]), "s": np.float32([3])})[0].tolist() == [3, 6]


def test_options_are_checked() -> None:
    same(lambda ort: setattr(ort.SessionOptions(), "nope", 1), "AttributeError")
    same(lambda ort: setattr(ort.SessionOptions(), "intra_op_num_threads", "a"), "TypeError")
    same(lambda ort: setattr(ort.SessionOptions(), "logid", 1), "TypeError")
    same(lambda ort: setattr(ort.SessionOptions(), "graph_optimization_level", "all"), "TypeError")
    same(lambda ort: ort.SessionOptions().get_session_config_entry("nope"), "RuntimeError")
    for kind in ("SessionOptions", "RunOptions"):
        real, mine = getattr(theirs, kind)(), getattr(ours, kind)()
        for name in mine._defaults:
            default = getattr(real, name)
            assert getattr(mine, name) == (int(default) if not isinstance(default, str | bool) else default)
            setattr(mine, name, getattr(mine, name))


def test_options_that_count(gemm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> tuple[str, int, str]:
        options = ours.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = ours.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        found = session(ours, gemm, sess_options=options)
        assert found.get_session_options() is options
        context = found._session.context
        return context.options.level.name, context.target.threads, context.options.numerics.value

    assert made() == ("OFF", 1, "approximate")
    monkeypatch.setenv("AUTOFUSION_LEVEL", "basic")  # the program cannot be changed, so its user has the last word
    monkeypatch.setenv("AUTOFUSION_THREADS", "2")
    monkeypatch.setenv("AUTOFUSION_NUMERICS", "exact")
    assert made() == ("BASIC", 2, "exact")


def test_a_run_that_is_called_off(gemm: Path) -> None:
    def act(ort: ModuleType) -> None:
        options = ort.RunOptions()
        options.terminate = True
        session(ort, gemm).run(None, {"x": X}, options)

    same(act, "Fail 1 : FAIL")


@BOTH
def test_bound_inputs_and_outputs(gemm: Path, ort: ModuleType) -> None:
    s = session(ort, gemm)
    y, z = s.run(["y", "z"], {"x": X})
    place = np.zeros((2, 3), np.float32)
    bound = s.io_binding()
    bound.bind_cpu_input("x", X)
    bound.bind_output("z")
    bound.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(place))
    s.run_with_iobinding(bound)
    for want, got, value in zip((z, y), bound.copy_outputs_to_cpu(), bound.get_outputs(), strict=True):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(value.numpy(), want)
    np.testing.assert_array_equal(place, y)
    bound = s.io_binding()
    bound.bind_input("x", "cpu", 0, np.float32, [2, 4], X.ctypes.data)
    bound.bind_output("y", "cpu", 0, np.float32, [2, 3], place.ctypes.data)
    place[:] = 0
    s.run_with_iobinding(bound)
    np.testing.assert_array_equal(place, y)


@BOTH
def test_values(gemm: Path, ort: ModuleType) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X.copy())
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 4], "tensor(float)", 1)
    assert (value.device_name(), value.has_value(), value.is_tensor()) == ("cpu", True, True)
    assert (value.is_tensor_sequence(), value.is_sparse_tensor(), value.tensor_size_in_bytes()) == (False, False, 32)
    seen = value.numpy()
    value.update_inplace(X + 1)
    np.testing.assert_array_equal(seen, X + 1)  # one memory
    assert ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64).numpy().shape == (2, 3)
    s = session(ort, gemm)
    (y,) = s.run_with_ort_values(["y"], {"x": ort.OrtValue.ortvalue_from_numpy(X)})
    np.testing.assert_array_equal(y.numpy(), s.run(["y"], {"x": ort.OrtValue.ortvalue_from_numpy(X)})[0])


def test_wrong_values() -> None:
    same(lambda ort: ort.OrtValue.ortvalue_from_numpy([1]), "RuntimeError")
    same(lambda ort: ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0), "RuntimeError")
    same(lambda ort: ort.OrtValue.ortvalue_from_numpy(X.copy()).update_inplace(X[0]), "RuntimeError")


@BOTH
def test_run_async(gemm: Path, ort: ModuleType) -> None:
    import threading

    done, seen = threading.Event(), []

    def finish(results: Any, data: Any, error: str) -> None:
        seen.append((results, data, error))
        done.set()

    s = session(ort, gemm)
    s.run_async(["y"], {"x": X}, finish, "mine")
    assert done.wait(60)
    results, data, error = seen[0]
    np.testing.assert_array_equal(results[0], s.run(["y"], {"x": X})[0])
    assert (data, error) == ("mine", "")


def test_a_provider_that_does_not_exist_is_told(gemm: Path) -> None:
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available"):
        made = ours.InferenceSession(str(gemm), providers=[("CUDAExecutionProvider", {}), "CPUExecutionProvider"])
    assert made.get_providers() == ["CPUExecutionProvider"]
