"""The test cases that ship with onnx: all of them load, and give their expected values by the reference kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from autofusion.errors import KernelError
from autofusion_frontend_onnx.load import load_model
from plugins.frontends.onnx.tests.onnx_models import load, run

# Random by nature: what comes out is tested elsewhere.
RANDOM = ("bernoulli", "training_dropout")
# The size that a fractional scale gives enters their coordinates before it is rounded down; the specification (and
# onnxruntime) go by the size of the result.
DOUBTFUL = ("resize_downsample_scales_linear_align_corners", "resize_downsample_scales_cubic_align_corners")
# What running these would take is not there: kernels of other domains, and a library that reads image files.
LACKING = re.compile(r"ai\.onnx\.(ml|preview\.training)::|Pillow")
# Half precision: sums in another order differ in the last bit of a coarse type.
COARSE = ("bf16", "fp16", "float16", "bfloat16")


def _read(path: Path, type_: onnx.TypeProto) -> Any:
    data = path.read_bytes()
    if type_.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if type_.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _data_sets(case: Any, model: onnx.ModelProto) -> list[tuple[list[Any], list[Any]]]:
    if case.data_sets is not None:
        return case.data_sets
    found = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        inputs = [
            _read(folder / f"input_{i}.pb", v.type)
            for i, v in enumerate(model.graph.input)
            if (folder / f"input_{i}.pb").exists()
        ]
        found.append((inputs, [_read(folder / f"output_{i}.pb", v.type) for i, v in enumerate(model.graph.output)]))
    return found


def _difference(got: Any, expected: Any, rtol: float, atol: float) -> str:
    if isinstance(expected, onnx.TensorProto):
        expected = numpy_helper.to_array(expected)
    if expected is None or got is None:
        return "" if got is expected else f"{got} is not {expected}"
    if isinstance(expected, list):
        return next((d for d in (_difference(g, e, rtol, atol) for g, e in zip(got, expected, strict=True)) if d), "")
    got, expected = np.asarray(got), np.asarray(expected)
    if expected.dtype.kind in "USO":
        return "" if np.array_equal(got.astype(str), expected.astype(str)) else f"{got} is not {expected}"
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{got.shape} is not {expected.dtype}{expected.shape}"
    if got.dtype.kind not in "fiubc":
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    same = np.allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
    return "" if same else f"differs by up to {np.nanmax(np.abs(got.astype(np.float64) - expected.astype(np.float64)))}"


@pytest.mark.filterwarnings("ignore")
def test_every_node_case_loads() -> None:
    cases = load_model_tests(kind="node")
    assert len(cases) > 1000
    for case in cases:
        assert load(case.model).outputs, case.name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", [pytest.param("node", marks=pytest.mark.slow), "simple", "pytorch-operator", "pytorch-converted"]
)
def test_cases_of_onnx(kind: str) -> None:
    """Where the reference kernels lack an operator of another domain (training, trees) the model must load."""
    wrong, compared = [], 0
    for case in load_model_tests(kind=kind):
        source = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
        graph = load(source) if case.model is not None else load_model(Path(case.model_dir) / "model.onnx")
        if any(word in case.name for word in RANDOM + DOUBTFUL):
            continue
        coarse = any(word in case.name.lower() for word in COARSE)
        rtol, atol = (2e-2, 5e-3) if coarse else (max(case.rtol, 1e-3), max(case.atol, 1e-6))
        for inputs, outputs in _data_sets(case, source):
            arrays = [numpy_helper.to_array(i) if isinstance(i, onnx.TensorProto) else i for i in inputs]
            try:
                got = run(graph, {v.name: a for v, a in zip(source.graph.input, arrays, strict=False)})
            except KernelError as error:
                if LACKING.search(str(error)) is None:
                    wrong.append(f"{case.name}: {error}")
                continue
            differences = [_difference(g, e, rtol, atol) for g, e in zip(got, outputs, strict=True)]
            wrong.extend(f"{case.name}: {d}" for d in differences if d)
            compared += 1
    assert not wrong, "\n".join(wrong)
    assert compared > 20
