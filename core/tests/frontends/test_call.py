"""What every converter may rely on, whichever the frontend: operands, axes, constants, emission and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.errors import GraphError, InputError, ModelError
from autofusion.frontends import Call, Origins, naming_file, naming_node
from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import TensorType

F32 = np.dtype(np.float32)


def call(*shapes: Any, **attrs: Any) -> Call:
    graph = Graph("g")
    operands = [None if s is None else graph.add_input(f"x{i}", TensorType(F32, s)) for i, s in enumerate(shapes)]
    return Call(graph, "Op", "block/op", operands, attrs)


def data(value: Value) -> np.ndarray:
    assert value.const is not None
    return value.const


def test_operands() -> None:
    made = call((2,), None, (3,))
    assert made.operand(0).name == "x0" and made.optional(1) is None and made.optional(7) is None
    assert made.has(2) and not made.has(1)
    with pytest.raises(ModelError, match=r"node 'block/op' \(Op\): operand 1 is missing"):
        made.operand(1)


def test_constant_operands() -> None:
    made = call((2,))
    made.inputs += [made.ints([1, 2]), made.ints(7)]
    assert made.known_ints(1, "axes") == [1, 2] and made.known_int(2, "axis") == 7
    with pytest.raises(ModelError, match="its axes 'x0' must be constant"):
        made.known(0, "axes")
    with pytest.raises(ModelError, match=r"its axis must be one number, found \[1, 2\]"):
        made.known_int(1, "axis")


@pytest.mark.parametrize(("axis", "rank", "found"), [(-1, 3, 2), (2, 3, 2), (0, 0, 0)])
def test_axes_are_counted_from_the_front(axis: int, rank: int, found: int) -> None:
    assert call().axis(axis, rank) == found


def test_an_axis_that_is_not_there() -> None:
    made = call((2, 3), None)
    with pytest.raises(ModelError, match="axis 2 is out of range for 'x0' of rank 2"):
        made.axis(2, made.operand(0))
    with pytest.raises(ModelError, match="axis -1 is out of range for rank 0"):
        made.axis(-1, 0)


def test_what_is_not_known_fails() -> None:
    made = call(("N", 3), None)
    unknown = made.graph.add_input("y", None)
    for function in (made.rank, made.dtype):
        with pytest.raises(ModelError, match="'y' is not known"):
            function(unknown)
    assert made.static_dim(made.operand(0), -1) == 3
    with pytest.raises(ModelError, match="the size of axis 0 of 'x0' is not known"):
        made.static_dim(made.operand(0), 0)


def test_emitted_nodes_have_types_names_and_an_origin() -> None:
    made = call((2, 3))
    result = made.transpose(made.operand(0), (1, 0))
    assert result.shape == (3, 2) and result.producer in made.made
    assert result.producer is not None and result.producer.origin == ("block/op",)
    assert made.transpose(result, (0, 1)) is result
    made.name_results([result], ["final"])
    assert result.name == "final"
    made.undo()
    assert len(made.graph) == 0


def test_names_that_were_not_made_here_stay() -> None:
    made = call((2,))
    made.name_results([made.operand(0), None], ["y", "z"])
    assert made.operand(0).name == "x0"


def test_constants_are_folded() -> None:
    made = call()
    total = made.emit("Add", made.ints([1, 2]), made.ints([10, 20]))
    assert data(total).tolist() == [11, 22]
    assert data(made.emit("Max", made.ints([1, 9]), made.ints([5, 5]), made.ints([0, 0]))).tolist() == [5, 9]
    assert not made.made


def test_folding_does_not_hide_operands_that_do_not_fit() -> None:
    made = call()
    with pytest.raises(GraphError):
        made.emit("Add", made.ints([1]), made.const([1.0], np.float32))
    with pytest.raises(GraphError):
        made.emit("Add", made.ints([1, 2]), made.ints([1, 2, 3]))


def test_sizes() -> None:
    made = call(("N", 3))
    x = made.operand(0)
    assert data(made.dim(x, -1)).tolist() == [3] and made.dim(x, 0).const is None
    assert made.shape(x).const is None
    assert data(made.shape(made.const(np.zeros((4, 5))))).tolist() == [4, 5]
    assert made.like(2, x).dtype == F32
    assert made.cast(x, None) is x and made.cast(x, np.float32) is x


def test_origins_are_unique_and_can_be_taken_back() -> None:
    origins = Origins()
    before = origins.copy()
    assert [origins.unique("a") for _ in range(3)] == ["a", "a#2", "a#3"]
    assert origins.unique("a#2") == "a#2#2"
    origins.restore(before)
    assert origins.unique("a") == "a"


@pytest.mark.parametrize(
    "error", [KeyError("k"), ValueError("v"), ZeroDivisionError(), TypeError("t"), GraphError("g")]
)
def test_damage_becomes_an_error_that_names_the_node(error: Exception) -> None:
    with pytest.raises(ModelError, match=r"node 'n' \(Op\): "), naming_node("node 'n' (Op)"):
        raise error


def test_other_faults_pass_unless_they_are_named() -> None:
    with pytest.raises(OSError), naming_node("node 'n'"):
        raise OSError("disk")
    with pytest.raises(ModelError, match="node 'n': it cannot be read: OSError"), naming_node("node 'n'", (Exception,)):
        raise OSError("disk")


def test_every_error_names_the_file_once() -> None:
    path = Path("folder/m.net")
    with pytest.raises(ModelError, match=r"^'folder/m\.net': bad$"), naming_file(path), naming_file(path):
        raise ModelError("bad")
    with pytest.raises(ModelError, match=r"^'folder/m\.net': bad$"), naming_file(path):
        raise GraphError("bad")
    with pytest.raises(InputError, match=r"^'folder/m\.net': bad$"), naming_file(path):
        raise InputError("bad")
    with pytest.raises(ModelError, match="nested too deep"), naming_file(path):
        raise RecursionError
    with pytest.raises(ModelError, match=r"'folder/m\.net' is damaged: KeyError"), naming_file(path, (KeyError,)):
        raise KeyError("k")
