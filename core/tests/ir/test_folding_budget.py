"""Folding makes no more than its budget, whatever a small file says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from autofusion.ir import specialise
from autofusion.ir.graph import Graph, Node
from autofusion.ir.types import TensorType


def evaluate(node: Node, operands: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
    arrays = [x for x in operands if x is not None]
    if node.op == "Concat":
        return [np.concatenate(arrays, node.attrs["axis"])]
    return [np.negative(arrays[0])]


def _doubled(times: int, *, negated: bool) -> Graph:
    graph = Graph("doubled")
    value = graph.constant(np.ones(1024, np.float32), "c")
    for i in range(times):
        other = value
        if negated:
            other = graph.node("Neg", [value], {}, name=f"neg{i}").outputs[0]
        value = graph.node("Concat", [value, other], {"axis": 0}, name=f"cat{i}").outputs[0]
    x = graph.add_input("x", TensorType(np.dtype(np.float32), (1,)))
    graph.add_output(graph.node("Add", [x, value], {}, name="add").outputs[0])
    return graph


@pytest.mark.parametrize("negated", [False, True])
def test_a_constant_joined_with_itself_again_and_again(negated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "FOLD_BYTES", 1 << 16)
    monkeypatch.setattr(specialise, "FOLD_FREE", 1 << 20)
    folded = specialise.specialise(_doubled(40, negated=negated), {}, evaluate)
    assert sum(v.const.nbytes for v in folded.constants() if v.const is not None) <= 1 << 20
    assert sum(n.op == "Concat" for n in folded.nodes) > 20


def test_within_the_budget_all_is_folded() -> None:
    folded = specialise.specialise(_doubled(4, negated=True), {}, evaluate)
    assert [n.op for n in folded.nodes] == ["Add"]
