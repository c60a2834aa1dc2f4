"""Kernel switches: what they cover, what is refused, what a planner and a lowering make of them."""

from __future__ import annotations

import pytest

from autofusion.errors import OptionError
from autofusion.ir.graph import Graph
from autofusion.kernels.contract import Offer
from autofusion.numerics import Numerics
from autofusion.offers.switches import KernelSwitch, KernelSwitches
from autofusion.options import Options


class Pack:
    name = "cpu"


def node(graph: Graph, name: str, origin: tuple[str, ...] = ()) -> object:
    return graph.node("Relu", [None], name=name, origin=origin)


def switches(*texts: str, graph: Graph | None = None) -> KernelSwitches:
    return KernelSwitches([Pack()], Options(disable_kernels=frozenset(texts)), graph)  # type: ignore[list-item]


def offer(kernel: str, numerics: Numerics = Numerics.REASSOCIATED) -> Offer:
    return Offer(kernel, (), (), lambda *_: None, numerics=numerics)


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
    assert "switched off by 'cpu:one@y'" in found.refusal(Pack(), offer("one"), b).reason  # type: ignore
    assert not found.refusal(Pack(), offer("one"), a)  # type: ignore[arg-type]
    assert not found.refusal(Pack(), offer("two"), b)  # type: ignore[arg-type]
    assert found.has_site_switch(b) and not found.has_site_switch(a)  # type: ignore[arg-type]


def test_unknown_names() -> None:
    graph = Graph()
    node(graph, "conv1")
    with pytest.raises(OptionError, match="'cpx' is not the name of a kernel pack; did you mean 'cpu'"):
        switches("cpx")
    with pytest.raises(OptionError, match=r"'conv2' is not the name of a node.*'conv1'"):
        switches("cpu@conv2", graph=graph)
    found = switches("cpu:conv.direc")
    found.refusal(Pack(), offer("conv.direct"), graph.nodes[0])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"offers no kernel 'conv.direc'.*did you mean 'conv.direct'"):
        found.require_known()


def test_numerics_leave_out_what_is_less_exact() -> None:
    graph = Graph()
    node(graph, "a")
    for budget, allowed in (("exact", 1), ("reassociated", 2), ("approximate", 3)):
        found = KernelSwitches([Pack()], Options(numerics=Numerics(budget)))  # type: ignore[list-item]
        reasons = [found.refusal(Pack(), offer("k", each), graph.nodes[0]) for each in Numerics]  # type: ignore[arg-type]
        assert [not reason for reason in reasons] == [True] * allowed + [False] * (3 - allowed)
        assert all(f"only allows {budget}" in reason.reason for reason in reasons if reason)
