"""ResNet-50 from MindIR and from ONNX: the same number of fused sites of each kind, with as much inside them."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator

import pytest

import autofusion as af
from autofusion.ir.graph import FUSED, Graph, Node
from plugins.frontends.mindspore.tests import mindir_cache
from tests.zoo import zoo

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("mindspore", "mindcv", "onnx")),
        reason="mindspore, mindcv or onnx is not installed",
    ),
]


def site_kinds(graph: Graph) -> Counter[str]:
    """How many fused sites of each kind there are."""
    return Counter(str(node.attrs["kind"]) for node in graph.nodes if node.op == FUSED)


def operators(graph: Graph) -> Iterator[Node]:
    """Every node, and those inside fused nodes in place of these."""
    for node in graph.nodes:
        if node.op == FUSED:
            yield from operators(node.body)
        else:
            yield node


def test_resnet_50_has_the_same_sites_from_both() -> None:
    graphs = [
        af.compile(mindir_cache.exported("mindcv-resnet50").path, threads=2).plan.graph,
        af.compile(zoo.model_path("resnet50"), shapes={"input": (1, 3, 224, 224)}, threads=2).plan.graph,
    ]
    kinds = [site_kinds(graph) for graph in graphs]
    assert kinds[0]["conv"] > 40 and kinds[0] == kinds[1]
    inside = [Counter(node.op for node in operators(graph)) for graph in graphs]
    assert inside[0] == inside[1]
