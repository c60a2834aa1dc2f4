"""Every spelling of the normalisations and of Softmax must match; look-alikes must not."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from autofusion.fusion.ledger import Ledger, Verdict
from autofusion.fusion.optimise import prepare
from autofusion.ir.dtypes import dtype_from_name
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.options import Options
from autofusion.testing.golden import same_numbers
from autofusion_kernels_reference.evaluate import run_graph
from autofusion_rules_transformer.pack import PACK

GAMMA = np.linspace(0.5, 1.5, 8)
BETA = np.linspace(-1, 1, 8)


class Net:
    def __init__(self, shape: tuple[int | str, ...] = ("N", 3, 8), dtype: str = "f32") -> None:
        self.graph = Graph()
        self.dtype = dtype_from_name(dtype)
        self.x = self.graph.add_input("x", TensorType(self.dtype, shape))

    def c(self, data: object) -> Value:
        return self.graph.constant(np.asarray(data, self.dtype))

    def i(self, *data: int) -> Value:
        return self.graph.constant(np.array(data, np.int64))

    def op(self, op: str, *inputs: Value | None, **attrs: object) -> Value:
        return self.graph.node(op, inputs, attrs).output

    def mean(self, x: Value, *axes: int, keepdims: int = 1) -> Value:
        return self.op("ReduceMean", x, self.i(*axes), keepdims=keepdims)


def rewritten(net: Net, y: Value) -> tuple[list[str], Ledger]:
    net.graph.add_output(y)
    infer_graph(net.graph)
    found, ledger = prepare(net.graph, [PACK], Options())
    same_numbers(net.graph, found, run_graph)
    return [node.op for node in found.nodes], ledger


def layer_norm(
    net: Net,
    *,
    square: int = 0,
    root: int = 0,
    twice: bool = False,
    axes: tuple[int, ...] = (-1,),
    keepdims: int = 1,
    gamma: object = None,
    beta: object = None,
) -> Value:
    x = net.x
    mean = net.mean(x, *axes, keepdims=keepdims)
    d = net.op("Sub", x, mean)
    other = net.op("Sub", x, mean) if twice else d
    s = net.op("Pow", d, net.c(2.0)) if square == 0 else net.op("Mul", d, d)
    v = net.op("Add", net.mean(s, *axes, keepdims=keepdims), net.c(1e-5))
    y = [
        lambda: net.op("Div", other, net.op("Sqrt", v)),
        lambda: net.op("Mul", net.op("Reciprocal", net.op("Sqrt", v)), other),
        lambda: net.op("Mul", other, net.op("Div", net.c(1.0), net.op("Sqrt", v))),
        lambda: net.op("Mul", other, net.op("Pow", v, net.c(-0.5))),
        lambda: net.op("Div", other, net.op("Pow", v, net.c(0.5))),
    ][root]()
    y = y if gamma is None else net.op("Mul", y, net.c(gamma))
    return y if beta is None else net.op("Add", net.c(beta), y)


@pytest.mark.parametrize("square", range(2))
@pytest.mark.parametrize("root", range(5))
def test_layer_norm(square: int, root: int) -> None:
    net = Net()
    ops, _ = rewritten(net, layer_norm(net, square=square, root=root, gamma=GAMMA, beta=BETA))
    assert ops == ["LayerNormalization"]


def test_layer_norm_over_several_axes() -> None:
    net = Net()
    y = layer_norm(net, axes=(1, 2), gamma=np.linspace(0.5, 1.5, 24).reshape(1, 3, 8), beta=BETA)
    assert rewritten(net, y)[0] == ["LayerNormalization"]


def test_squares_that_overflow_in_half_precision_still_do() -> None:
    net = Net(dtype="f16")
    ops, ledger = rewritten(net, layer_norm(net, gamma=GAMMA))
    assert "LayerNormalization" not in ops
    assert any("squares overflow" in record.reason for record in ledger.of(Verdict.ILLEGAL))


def test_layer_norm_of_open_size_waits_with_its_scale() -> None:
    net = Net(("N", "S", "C"))
    net.graph.add_output(layer_norm(net, gamma=GAMMA))
    infer_graph(net.graph)
    found, _ = prepare(net.graph, [PACK], Options())
    assert [n.op for n in found.nodes] == ["LayerNormalization", "Mul"]
    same_numbers(net.graph, found, run_graph, {"C": 8})
    found.inputs[0].type = TensorType(net.dtype, (2, 3, 8))
    infer_graph(found)
    static, _ = prepare(found, [PACK], Options())
    assert [n.op for n in static.nodes] == ["LayerNormalization"]
    same_numbers(net.graph, static, run_graph, {"N": 2, "S": 3, "C": 8})


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize(("with_gamma", "with_beta"), list(itertools.product((True, False), repeat=2)))
def test_multiplied_out(form: int, with_gamma: bool, with_beta: bool) -> None:
    net = Net()
    x = net.x
    mean = net.mean(x, -1)
    d = net.op("Sub", x, mean) if form % 2 else net.op("Sub", mean, x)
    variance = net.mean(net.op("Mul", d, d), -1)
    scale = net.op("Reciprocal", net.op("Sqrt", net.op("Add", variance, net.c(1e-5))))
    scale = net.op("Mul", scale, net.c(GAMMA[None, None])) if with_gamma else scale
    scaled = net.op("Mul", x, scale)
    if form < 2:
        shift = net.op("Mul", net.op("Neg", mean), scale)
        y = net.op("Add", scaled, net.op("Add", shift, net.c(BETA)) if with_beta else shift)
    elif with_beta:
        y = net.op("Add", scaled, net.op("Sub", net.c(BETA), net.op("Mul", mean, scale)))
    else:
        y = net.op("Sub", scaled, net.op("Mul", mean, scale))
    assert rewritten(net, y)[0] == ["LayerNormalization"]


def refused(net: Net, y: Value, words: str, rule: str = "transformer.layer_norm") -> None:
    ops, ledger = rewritten(net, y)
    assert not {"LayerNormalization", "Softmax"} & set(ops)
    told = [r.reason for r in ledger.records if r.rule.startswith(rule)]
    assert any(words in reason for reason in told), told


def test_lookalikes_are_refused_with_the_reason() -> None:
    net = Net((4, 4))
    refused(net, layer_norm(net, axes=(1,), keepdims=0), "keepdims is 0")
    net = Net()
    refused(net, layer_norm(net, axes=(1,)), "which are not the last ones")
    net = Net(("N", 3, 8))
    d = net.op("Sub", net.x, net.mean(net.x, -1))
    v = net.op("Add", net.mean(net.op("Mul", d, d), 1, 2), net.c(1e-5))
    refused(net, net.op("Div", d, net.op("Sqrt", v)), "reduce other axes")


def test_double_precision_and_negative_epsilon_stay() -> None:
    net = Net(dtype="f64")
    assert "LayerNormalization" not in rewritten(net, layer_norm(net))[0]


def test_rms_norm_takes_a_scale_that_does_not_enlarge() -> None:
    def rms(net: Net, gamma: object) -> Value:
        mean = net.mean(net.op("Pow", net.x, net.c(2.0)), -1)
        y = net.op("Div", net.x, net.op("Sqrt", net.op("Add", mean, net.c(1e-6))))
        return net.op("Mul", y, net.c(gamma))

    net = Net()
    assert rewritten(net, rms(net, GAMMA))[0] == ["RMSNormalization"]
    net = Net((3, 1))
    ops, ledger = rewritten(net, rms(net, [1.0, 2.0]))
    assert ops == ["RMSNormalization", "Mul"]
    assert any("does not lie along the normalised axes" in r.reason for r in ledger.records)


@pytest.mark.parametrize("axis", (-1, 1))
def test_softmax(axis: int) -> None:
    def pieces(net: Net, second: int) -> tuple[Value, Value, Value]:
        shifted = net.op("Sub", net.x, net.op("ReduceMax", net.x, net.i(axis)))
        exp = net.op("Exp", shifted)
        return shifted, exp, net.op("ReduceSum", exp, net.i(second))

    forms: list[Callable[[Net, Value, Value, Value], Value]] = [
        lambda n, s, e, t: n.op("Div", e, t),
        lambda n, s, e, t: n.op("Mul", n.op("Reciprocal", t), e),
    ]
    for form in forms:
        net = Net()
        assert rewritten(net, form(net, *pieces(net, axis)))[0] == ["Softmax"]
    net = Net()
    shifted, _, total = pieces(net, axis)
    assert rewritten(net, net.op("Sub", shifted, net.op("Log", total)))[0] == ["LogSoftmax"]
    net = Net()
    _, exp, total = pieces(net, 0)
    refused(net, net.op("Div", exp, total), "other axes", "transformer.softmax")
