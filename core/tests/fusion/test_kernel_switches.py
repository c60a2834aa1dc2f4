"""Kernel switches: what they cover, what is refused, what a planner and a lowering make of them."""

from __future__ import annotations

import pytest

from autofusion.errors import OptionError
from autofusion.fusion.kernel_switches import KernelSwitch, KernelSwitches
from autofusion.fusion.options import FusionOptions
from autofusion.ir.graph import Graph


class Pack:
    name = "cpu"


def node(graph: Graph, name: str, origin: tuple[str, ...] = ()) -> object:
    return graph.node("Relu", [None], name=name, origin=origin)


def switches(*texts: str, graph: Graph | None = None) -> KernelSwitches:
    return KernelSwitches([Pack()], FusionOptions(disable_kernels=frozenset(texts)), graph)  # type: ignore[list-item]


def test_forms() -> None:
    assert KernelSwitch.parse("cpu") == KernelSwitch("cpu", "cpu", "", "")
    assert KernelSwitch.parse("cpu:conv.direct") == KernelSwitch("cpu:conv.direct", "cpu", "conv.direct", "")
    assert KernelSwitch.parse("cpu:c@a/b:0") == KernelSwitch("cpu:c@a/b:0", "cpu", "c", "a/b:0")
    assert KernelSwitch.parse("cpu@a") == KernelSwitch("cpu@a", "cpu", "", "a")
    for wrong in ("", ":c", "cpu:", "cpu:c@", "@a"):
        with pytest.raises(OptionError, match="does not name a kernel"):
            KernelSwitch.parse(wrong)


def test_what_a_switch_covers() -> None:
    graph = Graph()
    a, b = node(graph, "a"), node(graph, "fused", ("x", "y"))
    found = switches("cpu:one@y")
    assert "switched off by 'cpu:one@y'" in found.refusal(Pack(), "one", b)  # type: ignore[arg-type]
    assert not found.refusal(Pack(), "one", a)  # type: ignore[arg-type]
    assert not found.refusal(Pack(), "two", b)  # type: ignore[arg-type]
    assert found.singles_out(b) and not found.singles_out(a)  # type: ignore[arg-type]


def test_unknown_names() -> None:
    graph = Graph()
    node(graph, "conv1")
    with pytest.raises(OptionError, match="'cpx' is not the name of a kernel pack; did you mean 'cpu'"):
        switches("cpx")
    with pytest.raises(OptionError, match=r"'conv2' is not the name of a node.*'conv1'"):
        switches("cpu@conv2", graph=graph)
    found = switches("cpu:conv.direc")
    found.refusal(Pack(), "conv.direct", graph.nodes[0])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"offers no kernel 'conv.direc'.*did you mean 'conv.direct'"):
        found.require_known()
