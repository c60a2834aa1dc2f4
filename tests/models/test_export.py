"""Every model of the zoo as ``export`` writes it, in onnxruntime: the same results, and fewer nodes.

The numbers are those of ``test_zoo.py``. A limit of 1e-5 on the largest difference would be too narrow for one of them:
rounding the folded weights of the PP-OCRv4 detector to single precision, and nothing else, moves its last sigmoid by
1.5e-5 (both sides evaluated in double precision), and the optimisation levels of onnxruntime itself are as far apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import autofusion as af
from autofusion.ir.text import from_text
from autofusion.tools.export import export
from tests.zoo import zoo
from tests.zoo.agreement import errors, unoptimised

pytest.importorskip("onnxruntime")

LARGEST, MEAN = 3e-5, 1e-5
LEFT_AS_THEY_ARE = {"silero_vad_op18_ifless"}
"""Nothing in them can be folded or recomposed: they were simplified before."""


def _params() -> list[Any]:
    marks = {True: [pytest.mark.slow], False: []}
    return [
        pytest.param(name, id=name, marks=marks[model.slow])
        for name, model in zoo.MODELS.items()
        if model.group in ("first", "second")
    ]


def _nodes(path: Path) -> int:
    return len(onnx.load(path, load_external_data=False).graph.node)


@pytest.mark.parametrize("name", _params())
def test_round_trip(name: str, tmp_path: Path) -> None:
    inputs, path = zoo.inputs(name, 0), tmp_path / "out.onnx"
    session = af.compile(zoo.model_path(name), shapes={k: v.shape for k, v in inputs.items()}, threads=2)
    export(session, path, inline=True)
    before, after = _nodes(zoo.model_path(name)), _nodes(path)
    assert after <= before if name in LEFT_AS_THEY_ARE else after < before
    expected, got = unoptimised(zoo.model_path(name), inputs), unoptimised(path, inputs)
    assert got.keys() == expected.keys()
    for key, want in expected.items():
        assert (got[key].dtype, got[key].shape) == (want.dtype, want.shape)
        largest, mean = errors(got[key], want, zoo.MODELS[name].near_zero)
        assert largest <= LARGEST and mean <= MEAN, f"'{key}': largest/range {largest:.2e}, mean relative {mean:.2e}"


MEAN_OF_A_MAP = """
graph @mean(%x: f32[1, 8, 6, 6], %w: f32[8, 8, 1, 1]) -> (f32[1, 8]) {
  %c = Conv(%x, %w) : f32[1, 8, 6, 6]
  %axes = constant dense<[2, 3]> : i64[2]
  %y = ReduceMean(%c, %axes) {keepdims = 0} : f32[1, 8]
  return %y
}
"""


@pytest.mark.parametrize("shapes", [None, {"x": (1, 8, 6, 6)}])
def test_what_only_suits_the_kernels_here_is_undone(shapes: dict[str, Any] | None, tmp_path: Path) -> None:
    session = af.compile(from_text(MEAN_OF_A_MAP), shapes=shapes, threads=1)
    assert "GlobalAveragePool" in [node.op for node in session.graph.nodes]
    export(session, tmp_path / "out.onnx", inline=True)
    written = onnx.load(tmp_path / "out.onnx").graph.node
    assert [node.op_type for node in written] == ["Conv", "ReduceMean"]
