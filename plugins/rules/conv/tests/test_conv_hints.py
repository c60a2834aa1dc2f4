"""What would change a refusal is said wherever it can be."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.fusion.ledger import Record, Verdict
from autofusion.fusion.optimise import prepare
from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.options import Options
from autofusion_rules_conv.epilogue import ACTIVATION
from autofusion_rules_conv.pack import PACK

PADDED = [1, 1, 1, 1]


def conv(graph: Graph, x: Value, pads: list[int], name: str = "c") -> Value:
    weight = graph.constant(np.ones((4, 4, 3, 3), np.float32), f"{name}.w")
    return graph.node("Conv", [x, weight], {"pads": pads, "kernel_shape": [3, 3]}, name=name, origin=(name,)).output


def started() -> tuple[Graph, Value]:
    graph = Graph()
    return graph, graph.add_input("x", TensorType(F32, (1, 4, 6, 6)))


def refused(graph: Graph, rule: str) -> Record:
    infer_graph(graph)
    _, ledger = prepare(graph, [PACK], Options())
    (record,) = [r for r in ledger.of(Verdict.ILLEGAL) if r.rule.startswith(f"{rule}@")]
    return record


def test_padding_that_a_shift_would_miss() -> None:
    graph, x = started()
    shifted = graph.node("Add", [x, graph.constant(np.ones((4, 1, 1), np.float32), "t")], name="s").output
    graph.add_output(conv(graph, shifted, PADDED))
    assert refused(graph, "conv.fold_input_shift").hint == "would fold if the pads of Conv 'c' were 0"


def test_an_interior_value_with_another_reader() -> None:
    graph, x = started()
    shifted = graph.node("Add", [x, graph.constant(np.ones((4, 1, 1), np.float32), "t")], name="s").output
    graph.add_output(conv(graph, shifted, [0, 0, 0, 0]))
    graph.add_output(graph.node("Relu", [shifted], name="r").output)
    record = refused(graph, "conv.fold_input_shift")
    assert (record.culprit, record.hint) == (shifted.name, f"would apply if '{shifted.name}' had no other consumer")


def test_a_constant_that_the_caller_may_override() -> None:
    graph, x = started()
    scale = graph.add_input("scale", TensorType(F32, (4, 1, 1)), default=np.ones((4, 1, 1), np.float32))
    graph.add_output(graph.node("Mul", [conv(graph, x, PADDED), scale], name="m").output)
    record = refused(graph, "conv.fold_scale")
    assert record.hint == "would apply if 'scale' were a stored constant only, not also an input of the model"


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((1, 4, 6, 6), ""),
        ((1, 4, 6, 1), "would fuse if 'v' had one element, or the shape of 'c'"),
        ((2, 4, 6, 6), "would fuse if dim 0 of 'v' were 1"),
    ],
)
def test_sizes_that_would_let_an_operand_join(shape: tuple[int, ...], hint: str) -> None:
    graph, x = started()
    other = graph.add_input("v", TensorType(F32, shape))
    graph.add_output(graph.node("Add", [conv(graph, x, PADDED), other], name="a").output)
    infer_graph(graph)
    anchor = next(n for n in graph.nodes if n.op == "Conv")
    hints = [r.hint for r in ACTIVATION.grow(anchor) if hasattr(r, "hint")]
    assert hints == ([hint] if hint else [])


def test_a_product_of_computed_values_is_not_told_of_and_one_by_an_overridable_weight_is() -> None:
    def scaled(default: np.ndarray | None) -> Graph:
        graph, x = started()
        other = graph.add_input("k", TensorType(F32, (6, 6)), default)
        product = graph.node("MatMul", [x, other], name="p").output
        graph.add_output(graph.node("Mul", [product, graph.constant(np.float32(0.5), "s")], name="m").output)
        return graph

    graph = scaled(None)
    infer_graph(graph)
    _, ledger = prepare(graph, [PACK], Options())
    assert list(ledger.of(Verdict.ILLEGAL)) == []
    assert "'k'" in refused(scaled(np.ones((6, 6), np.float32)), "conv.fold_scale").reason
