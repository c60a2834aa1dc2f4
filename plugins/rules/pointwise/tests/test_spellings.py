"""Every spelling of an activation that exporters write must match; what is nearly one must not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from autofusion.fusion.optimise import prepare
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.options import Options
from autofusion.testing.golden import same_numbers
from autofusion_kernels_reference.evaluate import run_graph
from autofusion_rules_pointwise.pack import PACK

F32 = np.dtype(np.float32)
SWAPS = list(itertools.product((False, True), repeat=3))


class Net:
    """A graph with one input ``x`` of symbolic batch, and short names for building."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.x = self.graph.add_input("x", TensorType(F32, ("N", 5)))

    def c(self, data: object) -> Value:
        return self.graph.constant(np.asarray(data, np.float32))

    def op(self, op: str, *inputs: Value | None, **attrs: object) -> Value:
        return self.graph.node(op, inputs, attrs).output

    def mul(self, a: Value, b: Value, swap: bool = False) -> Value:
        return self.op("Mul", b, a) if swap else self.op("Mul", a, b)

    def add(self, a: Value, b: Value, swap: bool = False) -> Value:
        return self.op("Add", b, a) if swap else self.op("Add", a, b)


def operators(build: Callable[[Net], Value], *, as_output: bool = True) -> list[str]:
    """The operators left after the rules, whose result must be the same on random numbers."""
    net = Net()
    y = build(net)
    net.graph.add_output(y if as_output else net.op("Neg", y))
    infer_graph(net.graph)
    found, _ = prepare(net.graph, [PACK], Options())
    same_numbers(net.graph, found, run_graph)
    return [node.op for node in found.nodes]


def thirds(net: Net, x: Value, bracket: Value, form: int, swaps: tuple[bool, ...]) -> Value:
    """``0.5 * x * bracket`` in three associations."""
    half = net.c(0.5)
    if form == 0:
        return net.mul(net.mul(x, half, swaps[0]), bracket, swaps[2])
    if form == 1:
        return net.mul(net.mul(x, bracket, swaps[0]), half, swaps[2])
    return net.mul(x, net.mul(bracket, half, swaps[0]), swaps[2])


@pytest.mark.parametrize("form", range(3))
@pytest.mark.parametrize("argument", range(6))
def test_gelu_erf(form: int, argument: int) -> None:
    def build(net: Net, swaps: tuple[bool, ...]) -> Value:
        x, root = net.x, math.sqrt(2)
        arguments: list[Callable[[], Value]] = [
            lambda: net.op("Div", x, net.c(root)),
            lambda: net.mul(x, net.c(1 / root), swaps[0]),
            lambda: net.op("Neg", net.mul(x, net.c(1 / root), swaps[0])),
            lambda: net.op("Mul", net.op("Neg", x), net.c(1 / root)),
            lambda: net.op("Mul", x, net.c(-1 / root)),
            lambda: net.op("Div", net.op("Neg", x), net.c(root)),
        ]
        erf = net.op("Erf", arguments[argument]())
        one = net.c([1.0])
        bracket = net.add(erf, one, swaps[1]) if argument < 2 else net.op("Sub", one, erf)
        return thirds(net, x, bracket, form, swaps)

    for swaps in SWAPS:
        for as_output in (False, True):
            found = operators(lambda net, s=swaps: build(net, s), as_output=as_output)  # type: ignore[misc]
            assert found[:1] == ["Gelu"] and len(found) == 2 - as_output


@pytest.mark.parametrize("form", range(3))
@pytest.mark.parametrize("cube", range(6))
def test_gelu_tanh(form: int, cube: int) -> None:
    k = math.sqrt(2 / math.pi)

    def build(net: Net, swaps: tuple[bool, ...]) -> Value:
        x, factor = net.x, net.c(0.044715)
        if cube == 5:  # x taken out of the sum
            square = net.op("Pow", x, net.c(2.0))
            inner = net.mul(net.mul(x, net.c(k), swaps[0]), net.add(net.c(1.0), net.mul(square, factor)), swaps[1])
        else:
            cubes: list[Callable[[], Value]] = [
                lambda: net.mul(net.op("Pow", x, net.c(3.0)), factor, swaps[0]),
                lambda: net.mul(factor, net.mul(net.mul(x, x), x), swaps[0]),
                lambda: net.mul(x, net.mul(net.mul(x, x), factor), swaps[0]),
                lambda: net.mul(net.mul(x, factor), net.mul(x, x), swaps[0]),
                lambda: net.mul(x, net.mul(x, net.mul(factor, x)), swaps[0]),
            ]
            inner = net.mul(net.add(x, cubes[cube](), swaps[1]), net.c(k), swaps[1])
        bracket = net.add(net.op("Tanh", inner), net.c(1.0), swaps[1])
        return thirds(net, x, bracket, form, swaps)

    for swaps in SWAPS:
        assert operators(lambda net, s=swaps: build(net, s)) == ["Gelu"]  # type: ignore[misc]


@pytest.mark.parametrize("clamp", range(4))
@pytest.mark.parametrize("form", range(8))
def test_hard_swish_and_hard_sigmoid(form: int, clamp: int) -> None:
    def build(net: Net, swaps: tuple[bool, ...]) -> Value:
        x, zero, six, sixth = net.x, net.c(0.0), net.c(6.0), net.c(1 / 6)
        shifted = net.add(x, net.c(3.0), swaps[0])
        relu6 = [
            lambda: net.op("Clip", shifted, zero, six),
            lambda: net.op("Min", net.op("Relu", shifted), six),
            lambda: net.op("Min", six, net.op("Max", shifted, zero)),
            lambda: net.op("Clip", net.op("Relu", shifted), None, six),
        ][clamp]
        forms: list[Callable[[], Value]] = [
            lambda: net.op("Div", net.mul(x, relu6(), swaps[1]), six),
            lambda: net.mul(net.mul(x, relu6(), swaps[1]), sixth, swaps[0]),
            lambda: net.mul(x, net.op("Div", relu6(), six), swaps[1]),
            lambda: net.mul(x, net.mul(relu6(), sixth, swaps[0]), swaps[1]),
            lambda: net.mul(net.op("Div", x, six), relu6(), swaps[1]),
            lambda: net.mul(net.mul(x, sixth, swaps[0]), relu6(), swaps[1]),
            lambda: net.mul(x, net.op("HardSigmoid", x, alpha=0.1666666716337204, beta=0.5), swaps[1]),
            lambda: net.op("Div", relu6(), six),
        ]
        return forms[form]()

    for swaps in SWAPS[::2]:
        found = operators(lambda net, s=swaps: build(net, s))  # type: ignore[misc]
        assert found == ["HardSigmoid" if form == 7 else "HardSwish"]


def test_other_activations() -> None:
    def line(net: Net) -> Value:
        return net.op("Clip", net.add(net.mul(net.x, net.c(0.2)), net.c(0.5)), net.c(0.0), net.c(1.0))

    def mish(net: Net) -> Value:
        return net.mul(net.op("Tanh", net.op("Log", net.add(net.op("Exp", net.x), net.c(1.0)))), net.x)

    def prelu(net: Net) -> Value:
        slope = net.c([-0.1, -0.2, 0.3, 0.4, 0.5])
        return net.add(net.op("Relu", net.x), net.mul(slope, net.op("Relu", net.op("Neg", net.x))))

    assert operators(line) == ["HardSigmoid"]
    assert operators(mish) == ["Mish"]
    assert operators(prelu) == ["PRelu"]


NEARLY: dict[str, Callable[[Net], Value]] = {
    "divisor": lambda n: n.mul(n.mul(n.x, n.c(0.5)), n.add(n.op("Erf", n.op("Div", n.x, n.c(1.4137))), n.c(1.0))),
    "another tensor": lambda n: n.mul(
        n.mul(n.op("Neg", n.x), n.c(0.5)), n.add(n.op("Erf", n.op("Div", n.x, n.c(math.sqrt(2)))), n.c(1.0))
    ),
    "cubic": lambda n: n.mul(
        n.mul(n.x, n.c(0.5)),
        n.add(
            n.op(
                "Tanh", n.mul(n.add(n.x, n.mul(n.op("Pow", n.x, n.c(3.0)), n.c(0.0452))), n.c(math.sqrt(2 / math.pi)))
            ),
            n.c(1.0),
        ),
    ),
    "sixth": lambda n: n.mul(n.x, n.mul(n.op("Clip", n.add(n.x, n.c(3.0)), n.c(0.0), n.c(6.0)), n.c(0.166))),
    "three": lambda n: n.op("Div", n.mul(n.x, n.op("Clip", n.add(n.x, n.c(3.01)), n.c(0.0), n.c(6.0))), n.c(6.0)),
    "no lower bound": lambda n: n.op("Div", n.mul(n.x, n.op("Clip", n.add(n.x, n.c(3.0)), None, n.c(6.0))), n.c(6.0)),
    "gate of another": lambda n: n.mul(n.op("Neg", n.x), n.op("HardSigmoid", n.x, alpha=1 / 6, beta=0.5)),
}


@pytest.mark.parametrize("name", NEARLY)
def test_lookalikes_do_not_match(name: str) -> None:
    found = operators(NEARLY[name])
    assert not {"Gelu", "HardSwish"} & set(found)


def test_a_near_miss_names_the_constant() -> None:
    net = Net()
    net.graph.add_output(NEARLY["divisor"](net))
    infer_graph(net.graph)
    _, ledger = prepare(net.graph, [PACK], Options())
    told = [r.reason for r in ledger.records if r.rule.startswith("pointwise.gelu_erf")]
    assert any("1.4137" in reason and "1.41421" in reason for reason in told), told


def test_special_numbers_survive() -> None:
    """NaN, infinities and zeros of either sign give the same before and after."""
    special = np.array([[np.nan, np.inf, -np.inf, -0.0, 1e30]], np.float32)
    builds: list[Callable[[Net], Value]] = [
        lambda n: n.op("Clip", n.op("Relu", n.x), n.c(1.0), n.c(3.0)),
        lambda n: n.op("Clip", n.op("Clip", n.x, n.c(-1.0), n.c(1.0)), n.c(2.0), n.c(0.5)),
        lambda n: n.op("Min", n.op("Max", n.x, n.c(0.0)), n.c(6.0)),
        lambda n: n.op("Mul", n.op("Div", n.op("Sub", n.x, n.c(0.0)), n.c(1.0)), n.c(1.0)),
        lambda n: n.op("Pow", n.x, n.c(2.0)),
        lambda n: n.op("Div", n.mul(n.x, n.op("Clip", n.add(n.x, n.c(3.0)), n.c(0.0), n.c(6.0))), n.c(6.0)),
        lambda n: n.op("Mul", n.x, n.c(0.0)),
        lambda n: n.op("Add", n.x, n.c(0.0)),
    ]
    for build in builds:
        net = Net()
        net.graph.add_output(build(net))
        infer_graph(net.graph)
        found, _ = prepare(net.graph, [PACK], Options())
        with np.errstate(all="ignore"):
            expected, got = run_graph(net.graph, {"x": special})[0], run_graph(found, {"x": special})[0]
        np.testing.assert_allclose(got, expected, rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(got[0, 3:]), np.signbit(expected[0, 3:]))
