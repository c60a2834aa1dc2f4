"""Nodes to try kernels on: every common operator on odd shapes, on size 0 and 1, and fused nodes of every kind.

The shapes are small and awkward on purpose: remainders of vector widths, one channel more than a block, one element,
none. What a kernel is fast on is not what it is wrong on.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text
from autofusion.ir.types import TensorType, of_array
from autofusion.plugins.registry import default_registry
from autofusion.testing.apply import apply_rules
from autofusion.testing.corpus import corpus
from autofusion.testing.graphs import is_open
from autofusion.testing.numbers import random_array, with_specials
from autofusion.testing.patterns import graphs_of

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NodeCase:
    """A node in a graph of its own, and data for its operands (for constants: their data)."""

    node: Node
    arrays: tuple[np.ndarray | None, ...]

    @property
    def key(self) -> str:
        """The operator, or ``Fused:kind``."""
        return f"{FUSED}:{self.node.attrs['kind']}" if self.node.op == FUSED else self.node.op

    def with_specials(self) -> NodeCase:
        """The same with NaN, infinities and zeros of both signs among the operands that are not constant."""
        pairs = zip(self.node.inputs, self.arrays, strict=True)
        made = tuple(a if a is None or v is None or v.const is not None else with_specials(a, 3) for v, a in pairs)
        return replace(self, arrays=made)

    def __str__(self) -> str:
        shapes = ", ".join("-" if a is None else f"{a.dtype.name}{list(a.shape)}" for a in self.arrays)
        attrs = {k: v for k, v in self.node.attrs.items() if k not in ("body", "kind")}
        return f"{self.key}({shapes}) {attrs or ''}".strip()


def node_case(
    op: str, operands: Sequence[Any], constants: Sequence[int] = (), outputs: int = 1, **attrs: Any
) -> NodeCase:
    """A case of an ordinary operator; raise ShapeError if the operands do not fit it."""
    graph = Graph(op)
    values: list[Value | None] = []
    arrays = tuple(None if x is None else np.asarray(x) for x in operands)
    for index, data in enumerate(arrays):
        if data is None:
            values.append(None)
        elif index in constants:
            values.append(graph.constant(data, f"c{index}"))
        else:
            values.append(graph.add_input(f"x{index}", of_array(data)))
    node = graph.node(op, values, attrs, outputs=outputs, origin=(op,))
    for value in node.outputs:
        graph.add_output(value)
    infer_graph(graph)
    return NodeCase(node, arrays)


def _data(shape: Shape, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return random_array(TensorType(np.dtype(dtype), shape), np.random.default_rng(seed + sum(shape)))


_UNARY = (
    "Abs Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf "
    "IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan "
    "Tanh ThresholdedRelu"
).split()
_BINARY = "Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul PRelu Pow Sub".split()
_UNARY_SHAPES: Sequence[Shape] = ((), (1,), (7,), (3, 5), (2, 17, 3, 5), (0, 4), (1, 33))
_BINARY_SHAPES: Sequence[tuple[Shape, Shape]] = (
    ((3, 5), (3, 5)),
    ((3, 5), (5,)),
    ((2, 17, 3, 5), (17, 1, 1)),
    ((2, 3), (1,)),
    ((7,), ()),
    ((0, 3), (3,)),
    ((4, 1), (1, 5)),
    ((1,), (1,)),
)


def _pointwise() -> Iterator[NodeCase]:
    for op, shape in itertools.product(_UNARY, _UNARY_SHAPES):
        yield node_case(op, [_data(shape)])
    for op in ("Relu", "Neg", "Exp"):
        for wide in (np.float64, np.float16):
            yield node_case(op, [_data((3, 7), wide)])
    for op, (left, right) in itertools.product(_BINARY, _BINARY_SHAPES):
        if op == "PRelu" and left == (4, 1):
            continue
        yield node_case(op, [_data(left), _data(right, seed=1)])
        yield node_case(op, [_data(left), np.abs(_data(right, seed=1)) + np.float32(0.5)], constants=[1])
    for dtype in (np.int32, np.int64, np.float64):
        yield node_case("Add", [_data((3, 7), dtype), _data((7,), dtype, 1)])
    for op in ("And", "Or", "Xor"):
        yield node_case(op, [_data((3, 7), bool), _data((7,), bool, 1)])
    yield node_case("Not", [_data((3, 7), bool)])
    yield node_case("Where", [_data((3, 1), bool), _data((3, 7)), _data((7,), seed=1)])
    for low, high in ((-0.5, 0.5), (0.0, 6.0)):
        yield node_case("Clip", [_data((3, 7)), np.float32(low), np.float32(high)], constants=[1, 2])
    yield node_case("Clip", [_data((5,)), None, np.float32(0.25)], constants=[2])
    for shape in ((7,), (3, 65), (0, 4)):
        yield node_case("DynamicQuantizeLinear", [_data(shape)], outputs=3)
    for to in (np.int32, np.float16, np.float64, np.bool_):
        yield node_case("Cast", [_data((3, 7))], to=np.dtype(to))


_CONV: Sequence[tuple[Shape, Shape, Mapping[str, Any]]] = (
    ((1, 3, 7, 9), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 17, 5, 5), (18, 17, 1, 1), {}),
    ((1, 4, 8, 6), (6, 4, 3, 3), {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    ((1, 6, 7, 7), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    ((1, 6, 7, 7), (4, 3, 3, 3), {"group": 2, "dilations": [2, 2]}),
    ((1, 3, 11), (4, 3, 5), {"pads": [2, 2]}),
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((0, 3, 5, 5), (4, 3, 3, 3), {}),
)
_MATMUL: Sequence[tuple[Shape, Shape]] = (
    ((1, 1), (1, 1)),
    ((5, 7), (7, 3)),
    ((2, 3, 5), (5, 17)),
    ((2, 1, 4, 3), (3, 3, 2)),
    ((7,), (7, 3)),
    ((4, 7), (7,)),
    ((0, 4), (4, 3)),
    ((3, 0), (0, 2)),
    ((33, 65), (65, 34)),
)


def _contractions() -> Iterator[NodeCase]:
    for shape, kernel, attrs in _CONV:
        for bias in (None, _data((kernel[0],), seed=2)):
            operands = [_data(shape), _data(kernel, seed=1) / np.float32(3), *([] if bias is None else [bias])]
            yield node_case("Conv", operands, constants=[1, 2], **attrs)
        for one, other in itertools.product((np.uint8, np.int8), repeat=2):
            integers = [_data(shape, one), _data(kernel, other, 1), _data((), one, 2), _data((), other, 3)]
            yield node_case("ConvInteger", integers, constants=[1, 2, 3], **attrs)
    yield node_case("Conv", [_data((1, 3, 5, 5)), _data((4, 3, 3, 3), seed=1)])
    upsampling: Sequence[dict[str, Any]] = (
        {"strides": [2, 2]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    )
    for attrs in upsampling:
        yield node_case("ConvTranspose", [_data((1, 3, 5, 4)), _data((3, 5, 3, 3), seed=1)], constants=[1], **attrs)
    for left, right in _MATMUL:
        for constants in ((), (1,)):
            yield node_case("MatMul", [_data(left), _data(right, seed=1)], constants=constants)
    for (left, right), (one, other) in itertools.product(_MATMUL, itertools.product((np.uint8, np.int8), repeat=2)):
        zeros = [_data((), one, 2), _data((), other, 3)]
        yield node_case("MatMulInteger", [_data(left, one), _data(right, other, 1), *zeros], constants=[1, 3])
        yield node_case("MatMulInteger", [_data(left, one), _data(right, other, 1)])
    for a, b in itertools.product((0, 1), repeat=2):
        left, right = ((7, 5) if a else (5, 7)), ((3, 7) if b else (7, 3))
        operands = [_data(left), _data(right, seed=1), _data((3,), seed=2)]
        yield node_case("Gemm", operands, constants=[1, 2], transA=a, transB=b)
    yield node_case("Gemm", [_data((5, 7)), _data((7, 3), seed=1), _data((5, 1), seed=2)], alpha=0.5, beta=2.0)


def _reductions() -> Iterator[NodeCase]:
    for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        for shape, axes, keep in (((3, 17), [-1], 1), ((2, 5, 7), [1], 0), ((2, 3, 4, 5), [2, 3], 1), ((4,), [0], 0)):
            yield node_case(f"Reduce{name}", [_data(shape), np.int64(np.array(axes))], constants=[1], keepdims=keep)
        yield node_case(f"Reduce{name}", [_data((3, 1)), np.array([1], np.int64)], constants=[1])
    yield node_case("ReduceSum", [_data((3, 0)), np.array([1], np.int64)], constants=[1])
    for op in ("ArgMax", "ArgMin"):
        yield node_case(op, [_data((3, 7))], axis=1, keepdims=0)
    for op in ("Softmax", "LogSoftmax"):
        for shape, axis in (((3, 17), -1), ((2, 5, 7), 1), ((1, 1), -1), ((0, 4), -1), ((9,), 0)):
            yield node_case(op, [_data(shape)], axis=axis)
    for shape in ((2, 5, 17), (3, 8), (1, 1)):
        scale, shift = _data(shape[-1:], seed=1), _data(shape[-1:], seed=2)
        yield node_case("LayerNormalization", [_data(shape), scale, shift], constants=[1, 2], axis=-1)
        yield node_case("RMSNormalization", [_data(shape), scale], constants=[1], axis=-1)
    for channels in (3, 17):
        vectors = [np.abs(_data((channels,), seed=i)) + np.float32(0.5) for i in range(4)]
        image = _data((2, channels, 4, 5))
        yield node_case("BatchNormalization", [image, *vectors], constants=[1, 2, 3, 4])
        yield node_case("InstanceNormalization", [image, *vectors[:2]], constants=[1, 2])
    for attrs in (
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [2, 2]},
        {"kernel_shape": [2, 3], "ceil_mode": 1, "strides": [2, 2]},
    ):
        for op in ("MaxPool", "AveragePool"):
            yield node_case(op, [_data((1, 17, 7, 8))], **attrs)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        for image_shape in ((2, 17, 3, 5), (1, 1, 1, 1)):
            yield node_case(op, [_data(image_shape)])


def _movement() -> Iterator[NodeCase]:
    for shape, perm in (((3, 5), [1, 0]), ((2, 3, 4, 5), [0, 2, 3, 1]), ((2, 3, 4, 5), [0, 1, 3, 2]), ((0, 3), [1, 0])):
        yield node_case("Transpose", [_data(shape)], perm=perm)
    for axis in (0, 1):
        yield node_case("Concat", [_data((2, 3)), _data((2, 3), seed=1), _data((2, 3), seed=2)], axis=axis)
    yield node_case("Concat", [_data((2, 0)), _data((2, 3), seed=1)], axis=1)
    yield node_case("Split", [_data((4, 7)), np.array([3, 4], np.int64)], constants=[1], outputs=2, axis=1)
    starts, ends, axes, steps = [np.array(v, np.int64) for v in ([1, -2], [5, -30], [0, 1], [2, -1])]
    yield node_case("Slice", [_data((6, 7)), starts, ends, axes, steps], constants=[1, 2, 3, 4])
    yield node_case("Gather", [_data((5, 7)), np.array([[0, -1], [2, 2]], np.int64)], constants=[1], axis=0)
    yield node_case("Gather", [_data((5, 7)), np.array(3, np.int64)], constants=[1], axis=1)
    pads = np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64)
    for mode in ("constant", "edge", "reflect"):
        yield node_case("Pad", [_data((1, 3, 4, 5)), pads], constants=[1], mode=mode)
    yield node_case("Expand", [_data((3, 1)), np.array([2, 3, 5], np.int64)], constants=[1])
    yield node_case("Tile", [_data((2, 3)), np.array([2, 1], np.int64)], constants=[1])
    scales = np.array([1, 1, 2, 2], np.float32)
    for mode in ("nearest", "linear"):
        yield node_case("Resize", [_data((1, 17, 3, 4)), None, scales], constants=[2], mode=mode)
    yield node_case("DepthToSpace", [_data((1, 8, 2, 3))], blocksize=2)


@functools.cache
def ordinary_cases() -> tuple[NodeCase, ...]:
    """Cases of ordinary operators."""
    return (*_pointwise(), *_contractions(), *_reductions(), *_movement())


@functools.cache
def fused_cases() -> tuple[NodeCase, ...]:
    """Fused nodes that the installed rules make of the kit's networks, all packs together and every rule alone."""
    from autofusion.options import Options
    from autofusion.rules.rule import FuseRule, RewriteRule

    packs = default_registry().rule_packs
    rules = [rule for pack in packs for rule in pack.rules]
    graphs = [*corpus(), *itertools.chain.from_iterable(_some(r) for r in rules if isinstance(r, RewriteRule))]
    rewrites = {rule.name for rule in rules if isinstance(rule, RewriteRule)}
    found: dict[str, NodeCase] = {}
    for chosen in (None, *(rule.name for rule in rules if isinstance(rule, FuseRule))):
        options = Options(only=frozenset() if chosen is None else frozenset({chosen, *rewrites}))
        for graph in graphs:
            for case in cases_of(apply_rules(graph, packs, options).graph, fused_only=True):
                found.setdefault(f"{case} {[n.op for n in case.node.body.nodes]}", case)
    return tuple(found.values())


def _some(rule: Any) -> Iterator[Graph]:
    return itertools.islice(graphs_of(rule, tries=8), 2)


def cases_of(graph: Graph, *, fused_only: bool = False) -> Iterator[NodeCase]:
    """A case for every node of a graph with static types, in a graph of its own."""
    rng = np.random.default_rng(7)
    for node in graph.nodes:
        values = [v for v in (*node.inputs, *node.outputs) if v is not None]
        static = all(isinstance(v.type, TensorType) and v.type.is_static for v in values)
        if not static or (fused_only and node.op != FUSED):
            continue
        alone = Graph(node.name)
        inside: dict[Value, tuple[Value, np.ndarray]] = {}
        arrays: list[np.ndarray | None] = []
        for value in node.inputs:
            if value is None:
                arrays.append(None)
                continue
            if value not in inside:
                data = value.const if value.const is not None else random_array(value.tensor, rng)
                made = alone.constant(data) if value.const is not None else alone.add_input(value.name, value.type)
                inside[value] = (made, data)
            arrays.append(inside[value][1])
        operands = [None if v is None else inside[v][0] for v in node.inputs]
        types = [v.type for v in node.outputs]
        copy = alone.node(node.op, operands, node.attrs, outputs=types, origin=node.origin or (node.name,))
        for value in copy.outputs:
            alone.add_output(value)
        yield NodeCase(copy, tuple(arrays))


def cases_in(folder: Path | str | None) -> list[NodeCase]:
    """A case for every node of the graphs (IR text, static sizes) in the ``.ir`` files of a folder."""
    found: list[NodeCase] = []
    for path in [] if folder is None else sorted(Path(folder).glob("*.ir")):
        for text in path.read_text().split("// -----\n"):
            graph = from_text(text, SeededConstants())
            infer_graph(graph)
            if is_open(graph):
                raise ValueError(f"{path.name}: cases of kernels need sizes that are numbers")
            found += cases_of(graph)
    return found
