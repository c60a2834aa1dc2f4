"""Every operator that a Transpose may pass gives the same on the other side, whatever the permutation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from autofusion.fusion.ledger import Verdict
from autofusion.fusion.optimise import prepare
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.options import Options
from autofusion.testing.golden import same_numbers
from autofusion_kernels_reference.evaluate import run_graph
from autofusion_rules_layout.axes import inverse
from autofusion_rules_layout.pack import PACK

F32 = np.dtype(np.float32)
SHAPE = (2, 3, 4, 5)
PERMS = [(0, 2, 3, 1), (0, 3, 1, 2), (3, 1, 0, 2), (1, 0, 3, 2)]


class Net:
    def __init__(self) -> None:
        self.graph = Graph()

    def c(self, data: object) -> Value:
        return self.graph.constant(np.asarray(data, np.float32), "c")

    def i(self, *data: int) -> Value:
        return self.graph.constant(np.array(data, np.int64), "i")

    def op(self, op: str, *inputs: Value | None, outputs: int = 1, **attrs: object) -> Value:
        return self.graph.node(op, inputs, attrs, outputs=outputs).output


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def builders() -> Iterator[tuple[str, Callable[[Net, Value], Value]]]:
    """(name, what to do with a value of rank 4)."""
    yield "unary", lambda n, t: n.op("Sigmoid", t)
    yield "vector", lambda n, t: n.op("Add", t, n.c(rng().random(dims(t)[3])))
    yield "two axes", lambda n, t: n.op("Mul", n.c(rng().random((dims(t)[1], 1, dims(t)[3]))), t)
    yield "number", lambda n, t: n.op("Sub", t, n.c([0.5]))
    yield "clip", lambda n, t: n.op("Clip", t, n.c(0.0), None)
    yield "prelu", lambda n, t: n.op("PRelu", t, n.c(rng().random((dims(t)[2], 1))))
    yield "cast", lambda n, t: n.op("Cast", t, to=np.dtype(np.float64))
    yield "twice", lambda n, t: n.op("Mul", t, n.op("Tanh", t))
    for axes, keep in itertools.product(([1], [-1, 1], [2, 3], [0, 1, 2, 3]), (0, 1)):
        yield f"mean {axes} {keep}", lambda n, t, a=axes, k=keep: n.op("ReduceMean", t, n.i(*a), keepdims=k)  # type: ignore[misc]
    yield "mean all", lambda n, t: n.op("ReduceMean", t, keepdims=0)
    for axis, keep in itertools.product((0, 2, -1), (0, 1)):
        yield f"argmax {axis} {keep}", lambda n, t, a=axis, k=keep: n.op("ArgMax", t, axis=a, keepdims=k)  # type: ignore[misc]
    for axis in (1, 3):
        yield f"softmax {axis}", lambda n, t, a=axis: n.op("Softmax", t, axis=a)  # type: ignore[misc]
        yield f"concat {axis}", lambda n, t, a=axis: n.op("Concat", t, n.op("Exp", t), n.c(like(t)), axis=a)  # type: ignore[misc]
        yield f"gather {axis}", lambda n, t, a=axis: n.op("Gather", t, n.i(1, 0), axis=a)  # type: ignore[misc]
        yield f"pick {axis}", lambda n, t, a=axis: n.op("Gather", t, n.graph.constant(np.int64(1)), axis=a)  # type: ignore[misc]
    yield "pad", lambda n, t: n.op("Pad", t, n.i(1, 0, 2, 0, 0, 3, 0, 1), n.c(0.5))
    yield "pad axes", lambda n, t: n.op("Pad", t, n.i(1, 2, 0, 1), None, n.i(-1, 1), mode="edge")
    yield "slice", lambda n, t: n.op("Slice", t, n.i(0, 1), n.i(9, 3))
    yield "slice axes", lambda n, t: n.op("Slice", t, n.i(-1, 0), n.i(-9, 2), n.i(2, -1), n.i(-1, 1))
    yield "tile", lambda n, t: n.op("Tile", t, n.i(1, 2, 1, 3))
    yield "resize", lambda n, t: n.op("Resize", t, None, n.c([1.0, 2.0, 1.0, 3.0]), mode="nearest")
    yield "resize axes", lambda n, t: n.op("Resize", t, None, None, n.i(7, 2), axes=[1, 2], mode="linear")
    yield "unsqueeze", lambda n, t: n.op("Unsqueeze", t, n.i(1, -1))
    yield "squeeze", lambda n, t: n.op("Squeeze", n.op("ReduceMax", t, n.i(1, 3)), n.i(3, 1))


def dims(value: Value) -> tuple[int, ...]:
    if value.producer is not None and value.producer.graph is not None:
        infer_graph(value.producer.graph)
    return value.tensor.static_shape


def like(value: Value) -> np.ndarray:
    return rng().random(dims(value)).astype(np.float32)


BUILDERS = dict(builders())


def net_of(name: str, perm: tuple[int, ...], lifted: bool) -> Graph:
    """Transpose, the operator, and the Transpose back where the rank allows; ``lifted``: right behind the input."""
    net = Net()
    x = net.graph.add_input("x", TensorType(F32, SHAPE))
    if lifted:
        y = BUILDERS[name](net, x)
        if len(dims(y)) == 4:
            y = net.op("Transpose", y, perm=list(perm))
    else:
        # An operator with two computed operands, so that the value does not hang on the input alone.
        source = net.op("Add", x, net.op("Exp", x))
        y = BUILDERS[name](net, net.op("Transpose", source, perm=list(perm)))
        if len(dims(y)) == 4:
            y = net.op("Transpose", y, perm=list(inverse(perm)))
    net.graph.add_output(y)
    infer_graph(net.graph)
    return net.graph


@pytest.mark.parametrize("perm", PERMS)
@pytest.mark.parametrize("name", BUILDERS)
def test_sinking_keeps_the_numbers(name: str, perm: tuple[int, ...]) -> None:
    graph = net_of(name, perm, lifted=False)
    found, ledger = prepare(graph, [PACK], Options())
    same_numbers(graph, found, run_graph)
    assert not [r for r in ledger.records if r.verdict.value == "error"]
    left = sum(node.op == "Transpose" for node in found.nodes)
    shared = name in ("twice", "concat 1", "concat 3")
    if "softmax" not in name and (
        perm in PERMS[:2] or not shared
    ):  # one that others need only sinks if it moves channels
        assert left <= (1 if len(graph.outputs[0].tensor.static_shape) != 4 else 0), name


@pytest.mark.parametrize("perm", PERMS)
@pytest.mark.parametrize("name", BUILDERS)
def test_lifting_keeps_the_numbers(name: str, perm: tuple[int, ...]) -> None:
    graph = net_of(name, perm, lifted=True)
    found, ledger = prepare(graph, [PACK], Options())
    same_numbers(graph, found, run_graph)
    assert not [r for r in ledger.records if r.verdict.value == "error"]


def random_net(seed: int) -> Graph:
    """Shared Transposes of every kind, gates and residuals."""
    pick = np.random.default_rng(seed)
    net = Net()
    x = net.graph.add_input("x", TensorType(F32, (4, 4, 4, 4)))
    values = [net.op("Add", x, net.op("Exp", x))]
    for _ in range(25):
        a, b = (values[int(i)] for i in pick.integers(0, len(values), 2))
        perm = PERMS[int(pick.integers(0, len(PERMS)))]
        kind = int(pick.integers(0, 6))
        if kind == 0:
            values.append(net.op("Transpose", a, perm=list(perm)))
        elif kind == 1:
            values.append(net.op("Sub", a, b))
        elif kind == 4:
            values.append(net.op("Sigmoid", a))
        elif kind == 5:
            row = net.c(pick.random((4, 1, 4)))
            values.append(net.op("Squeeze", net.op("Mul", net.op("Unsqueeze", a, net.i(3)), row), net.i(-2)))
        else:
            axes = net.i(1, 2) if kind == 2 else net.i(2, 3)
            values.append(net.op("Mul", a, net.op("ReduceMean", b, axes)))
    for value in values[-3:]:
        net.graph.add_output(value)
    infer_graph(net.graph)
    net.graph.prune()
    return net.graph


@pytest.mark.parametrize("seed", range(60))
def test_rules_come_to_an_end_where_transposes_cannot_cancel(seed: int) -> None:
    graph = random_net(seed)
    found, ledger = prepare(graph, [PACK], Options())
    assert not [r.reason for r in ledger.records if r.verdict.value in ("error", "disabled")]
    same_numbers(graph, found, run_graph)
    again, second = prepare(found, [PACK], Options())
    assert len(again) == len(found) and not list(second.of(Verdict.FUSED)), "the first run stopped early"
