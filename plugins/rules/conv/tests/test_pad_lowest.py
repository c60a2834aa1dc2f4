"""A Pad with the lowest number before a maximum, which has no meaning in other element types than its own."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.fusion.optimise import prepare
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.options import Options
from autofusion.testing.golden import same_numbers
from autofusion_kernels_reference.evaluate import run_graph
from autofusion_rules_conv.pack import PACK


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(("share", "left"), [(1.0, ["MaxPool"]), (0.5, ["Pad", "MaxPool"])], ids=["lowest", "higher"])
def test_a_pad_with_the_lowest_number_is_taken_in(dtype: str, share: float, left: list[str]) -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(np.dtype(dtype), (2, 3, 8, 8)))
    low = np.asarray(np.finfo(dtype).min * np.dtype(dtype).type(share), dtype)
    amounts = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    padded = graph.node("Pad", [x, graph.constant(amounts), graph.constant(low)]).output
    graph.add_output(graph.node("MaxPool", [padded], {"kernel_shape": [3, 3], "strides": [2, 2]}).output)
    infer_graph(graph)
    found, _ = prepare(graph, [PACK], Options())
    assert [node.op for node in found.nodes] == left
    same_numbers(graph, found, run_graph)
