"""Data sets on disk, and made-up samples that cover more than the usual case."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autofusion.errors import InputError
from autofusion.ir.dtypes import F32, I64
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
from autofusion.tools.samples import disturbed, made_up, open_data, overflows


def graph(*types: TensorType) -> Graph:
    made = Graph()
    for number, type_ in enumerate(types):
        made.add_input(f"x{number}", type_)
    return made


def test_made_up_samples() -> None:
    one = graph(TensorType(F32, ("n", 3, "h", "w")), TensorType(F32, ("n", "w")), TensorType(I64, (2,)))
    shapes = {"x0": (1, 3, 8, 7), "x1": (1, 7)}
    uniform, normal, other, two, three, wide, large, not_a_number = made_up(one, shapes)
    assert uniform.shapes == normal.shapes == {"x0": [1, 3, 8, 7], "x1": [1, 7], "x2": [2]}
    assert uniform.inputs["x0"].min() >= 0 and normal.inputs["x0"].min() < 0
    assert other.shapes == {"x0": [1, 3, 7, 6], "x1": [1, 6], "x2": [2]}, (
        "equal symbols stay equal, the first dim as it is"
    )
    assert other.optional and not normal.optional
    assert two.shapes == {"x0": [2, 3, 8, 7], "x1": [2, 7], "x2": [2]} and two.optional, "both have 'n' images"
    assert three.shapes == {"x0": [3, 3, 8, 7], "x1": [3, 7], "x2": [2]} and three.optional
    assert wide.optional and wide.inputs["x0"] is uniform.inputs["x0"]
    nan = np.isnan(not_a_number.inputs["x0"])
    assert not_a_number.optional and not not_a_number.clean and nan.any() and not nan.all()
    zeros = large.inputs["x0"][large.inputs["x0"] == 0]
    assert large.optional and np.abs(large.inputs["x0"]).max() > 100 and 0 < np.signbit(zeros).sum() < zeros.size
    np.testing.assert_array_equal(made_up(one, shapes)[1].inputs["x0"], normal.inputs["x0"])


def test_nothing_to_vary_in_a_static_model() -> None:
    assert [s.name for s in made_up(graph(TensorType(F32, (2, 3))), {})] == [
        "uniform",
        "normal",
        "large",
        "not a number",
    ]
    assert [s.name for s in made_up(graph(TensorType(I64, (2, 3))), {})] == ["uniform", "normal", "wide integers"]
    with pytest.raises(InputError, match="open dims"):
        made_up(graph(TensorType(F32, ("n", 3))), {})


def test_what_overflows_in_the_reference_is_not_compared() -> None:
    *_, normal, large, _ = made_up(graph(TensorType(F32, (2, 3))), {})
    finite, other = {"y": np.float32([1, 2])}, {"y": np.float32([1, np.nan])}
    assert overflows(large, other) and not overflows(large, finite) and not overflows(normal, other)


def test_disturbed_inputs_are_others_of_the_same_types() -> None:
    given = {"x": np.float32([[1, 2], [3, 4]]), "n": np.array([5, 6]), "more": ["text"]}
    other = disturbed(given)
    np.testing.assert_array_equal(other["x"], np.float32([[4, 3], [2, 1]]))
    assert other["x"].dtype == np.float32 and other["n"] is given["n"] and other["more"] is given["more"]


def test_data_sets(tmp_path: Path) -> None:
    one = graph(TensorType(F32, (2,)))
    for name in ("b", "a"):
        np.savez(tmp_path / f"{name}.npz", x0=np.float32([1, 2]), label=np.array([3]))
    (tmp_path / "charset.txt").write_text("a\n \nb\n")
    data = open_data(tmp_path, one)
    assert len(data) == 2 and data.charset == ("a", " ", "b")
    sample = data.sample(0)
    assert sample.name == "a" and set(sample.inputs) == {"x0"} and sample.targets["label"] == [3]
    assert len(open_data(tmp_path / "b.npz", one)) == 1


def test_missing_data(tmp_path: Path) -> None:
    one = graph(TensorType(F32, (2,)))
    with pytest.raises(InputError, match="no data at"):
        open_data(tmp_path / "nothing", one)
    with pytest.raises(InputError, match=r"has no \.npz files"):
        open_data(tmp_path, one)
    (tmp_path / "bad.npz").write_text("text")
    with pytest.raises(InputError, match=r"no \.npz file"):
        open_data(tmp_path, one).sample(0)
