"""Primitives in a form that is not supported are refused with the node, the file and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.errors import ModelError
from plugins.frontends.mindspore.tests.one_primitive import run

pytestmark = pytest.mark.mindspore


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


X, Y, M, V = floats(2, 3, 4), floats(2, 3, 4), floats(3, 4), floats(4)
IMAGE, W = floats(2, 3, 6, 5), floats(4, 3, 3, 3)


@pytest.mark.parametrize(
    ("primitive", "operands", "attrs", "message"),
    [
        ("Conv2D", (IMAGE, W), {"pad_mode": "odd"}, "unknown pad_mode 'odd'"),
        ("Conv2D", (IMAGE, W), {"pad_mode": "pad", "pad": (1, 1)}, "expected 4 numbers"),
        ("Conv2D", (IMAGE,), {"pad_mode": "valid"}, "operand 1 is missing"),
        ("Conv2D", (IMAGE, floats(4, 2, 3, 3)), {"pad_mode": "valid", "stride": (1, 1, 1, 1)}, "Conv"),
        ("Reshape", (X, (5, 5)), {}, "Reshape"),
        ("Transpose", (X, (0, 3, 1)), {}, "axis 3 is out of range for 'x0' of rank 3"),
        ("Transpose", (X, np.int64([0, 2, 1])), {}, "must be known when the model is loaded"),
        ("Cast", (X, 99), {}, "element type 99"),
        ("Dropout", (X, 0.5, 0, 0), {}, r"export the network with set_train\(False\)"),
        ("TupleGetItem", (X, 0), {}, "takes element 0"),
        ("Softmax", (X, "a"), {}, "cannot be read"),
        ("Embedding", (np.int32([0]), M, None, 1.0, 2.0, False), {}, "max_norm"),
        ("Split", (X, 2, 3), {}, "cannot be cut into 3 equal parts"),
        ("LSTM", (X, X, X, V), {"bidirectional": True, "hidden_size": 2, "input_size": 4}, "bidirectional"),
        ("DivMod", (X, Y, 7), {}, "unknown rounding mode 7"),
        ("GeluExt", (X, 7), {}, "unknown approximation 7"),
        ("MirrorPad", (X, np.int64([[0, 0]] * 3)), {"mode": "ODD"}, "must be known|unknown mode"),
        ("Concat", ((), 0), {}, "joins no tensors"),
        ("ScatterNd", (X,), {}, "cannot be read|is missing"),
    ],
)
def test_what_is_refused_names_the_node(
    primitive: str, operands: tuple[Any, ...], attrs: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        run(tmp_path, primitive, operands, attrs, None)
    assert "'result'" in str(caught.value) and "one.mindir" in str(caught.value)


def test_a_result_that_is_not_what_the_file_declares(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"its result is declared f32\[2, 3, 5\], but computed as f32\[2, 3, 4\]"):
        run(tmp_path, "Add", (X, Y), {}, floats(2, 3, 5))
