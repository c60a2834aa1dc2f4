"""Inference against NumPy and onnx on random shapes: the corners that examples leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, assume, settings
from hypothesis import given as given_at_speed
from hypothesis import strategies as st
from onnx import TensorProto, helper

from autofusion.errors import ShapeError
from autofusion.ir import Graph, Shape, TensorType, Value
from autofusion.ir.infer import infer_node

F32 = np.dtype(np.float32)


def given(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like hypothesis's own, without limits on time: other jobs may share the machine."""
    unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    return lambda test: unhurried(given_at_speed(*strategies)(test))


dims = st.integers(0, 5)
shapes = st.lists(dims, max_size=4).map(tuple)


def inferred(op: str, operands: list[Any], outputs: int = 1, **attrs: Any) -> list[Shape | None]:
    """Result shapes; a tuple is an operand of that shape, an array a constant, None an absent one."""
    graph = Graph()
    values: list[Value | None] = []
    for operand in operands:
        if operand is None:
            values.append(None)
        elif isinstance(operand, np.ndarray):
            values.append(graph.constant(operand))
        else:
            values.append(graph.add_input("x", TensorType(F32, operand)))
    node = graph.node(op, values, attrs, outputs=outputs)
    infer_node(node)
    return [v.shape for v in node.outputs]


def ints(values: Any) -> np.ndarray:
    return np.array(values, np.int64)


@given(shapes, shapes)
def test_broadcast(a: Shape, b: Shape) -> None:
    try:
        expected = np.broadcast_shapes(a, b)  # type: ignore[arg-type]
    except ValueError:
        expected = None
    try:
        assert inferred("Add", [a, b]) == [expected]
    except ShapeError:
        assert expected is None


@given(st.lists(dims, min_size=1, max_size=3).map(tuple), st.data())
def test_slice(shape: tuple[int, ...], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(shape)))
    axes = data.draw(st.permutations(range(len(shape))))[:count]
    bound = st.integers(-7, 7) | st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
    starts, ends = (data.draw(st.lists(bound, min_size=count, max_size=count)) for _ in range(2))
    steps = data.draw(st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), min_size=count, max_size=count))
    index = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    expected = np.empty(shape)[tuple(index)].shape
    assert inferred("Slice", [shape, ints(starts), ints(ends), ints(axes), ints(steps)]) == [expected]


@given(st.lists(st.integers(1, 6), max_size=4).map(tuple), st.data())
def test_reshape(shape: tuple[int, ...], data: st.DataObject) -> None:
    size = int(np.prod(shape))
    target: list[int] = []
    rest = size
    while rest > 1:
        factor = data.draw(st.sampled_from([f for f in range(2, rest + 1) if rest % f == 0]))
        target.append(factor)
        rest //= factor
    expected = tuple(target)
    if target:
        hole = data.draw(st.integers(0, len(target)))
        if hole < len(target):
            target[hole] = -1
    assert inferred("Reshape", [shape, ints(target)]) == [expected]


@given(st.lists(dims, min_size=1, max_size=4).map(tuple), st.data())
def test_concat_and_split_are_inverse(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    sizes = data.draw(st.lists(dims, min_size=1, max_size=4))
    parts = [(*shape[: axis % len(shape)], s, *shape[axis % len(shape) + 1 :]) for s in sizes]
    (whole,) = inferred("Concat", parts, axis=axis)
    assert whole == np.concatenate([np.empty(p) for p in parts], axis).shape
    assert inferred("Split", [whole, ints(sizes)], outputs=len(sizes), axis=axis) == parts


@given(dims.filter(bool), st.integers(1, 5))
def test_split_in_equal_parts(size: int, parts: int) -> None:
    model = _model("Split", [(size,)], parts, num_outputs=parts)
    expected = _onnx_shapes(model)
    # onnx gives the last parts -1 elements if there are more parts than it takes to hold them all.
    assume(expected is not None and all(s and s[0] >= 0 for s in expected))
    assert inferred("Split", [(size,)], outputs=parts, num_outputs=parts) == expected


@given(shapes, st.data())
def test_pad_and_tile(shape: tuple[int, ...], data: st.DataObject) -> None:
    pads = data.draw(st.lists(st.integers(0, 3), min_size=2 * len(shape), max_size=2 * len(shape)))
    widths = np.array(pads, int).reshape(2, -1).T
    expected = np.pad(np.empty(shape), widths).shape if shape else ()
    assert inferred("Pad", [shape, ints(pads)]) == [expected]
    repeats = data.draw(st.lists(st.integers(0, 3), min_size=len(shape), max_size=len(shape)))
    if shape:
        assert inferred("Tile", [shape, ints(repeats)]) == [np.tile(np.empty(shape), repeats).shape]


@given(st.lists(dims, min_size=1, max_size=3).map(tuple), st.lists(st.integers(1, 3), max_size=2).map(tuple), st.data())
def test_gather(shape: tuple[int, ...], indices: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    assume(shape[axis] > 0)
    expected = np.take(np.empty(shape), np.zeros(indices, int), axis).shape
    assert inferred("Gather", [shape, np.zeros(indices, np.int64)], axis=axis) == [expected]


@given(st.lists(dims, min_size=1, max_size=4).map(tuple), st.lists(dims, min_size=1, max_size=4).map(tuple))
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        expected = np.matmul(np.empty(a), np.empty(b)).shape
    except ValueError:
        expected = None
    try:
        assert inferred("MatMul", [a, b]) == [expected]
    except ShapeError:
        assert expected is None


@given(
    st.sampled_from(
        ["ij,jk->ik", "ij,jk", "bhqd,bhkd->bhqk", "...ij,...jk->...ik", "ii->i", "i,i->", "ij->", "...i->..."]
    )
)
def test_einsum(equation: str) -> None:
    sizes = {"i": 3, "j": 4, "k": 5, "b": 2, "h": 6, "q": 7, "d": 8}
    terms = equation.split("->")[0].split(",")
    operands = [tuple([2, 9] * ("..." in t) + [sizes[c] for c in t.replace("...", "")]) for t in terms]
    expected = np.einsum(equation, *[np.empty(o) for o in operands]).shape
    assert inferred("Einsum", operands, equation=equation) == [expected]


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Attributes of a convolution or pooling over one or two axes, with the sizes it runs over."""
    rank = draw(st.integers(1, 2))

    def entries(low: int, high: int, count: int = rank) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    attrs: dict[str, Any] = {"kernel_shape": entries(1, 4), "strides": entries(1, 3), "dilations": entries(1, 2)}
    attrs["auto_pad"] = draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if attrs["auto_pad"] == "NOTSET":
        attrs["pads"] = [min(p, k - 1) for p, k in zip(entries(0, 3, 2 * rank), attrs["kernel_shape"] * 2, strict=True)]
    return {"attrs": attrs, "spatial": entries(7, 12)}


@given(windows(), st.booleans(), st.sampled_from(["MaxPool", "AveragePool", "LpPool"]))
def test_pooling_windows(window: dict[str, Any], ceil: bool, op: str) -> None:
    attrs = {**window["attrs"], "ceil_mode": int(ceil and window["attrs"]["auto_pad"] == "NOTSET")}
    shape = (2, 3, *window["spatial"])
    assert inferred(op, [shape], **attrs) == _onnx_shapes(_model(op, [shape], 1, **attrs))


@given(windows(), st.sampled_from([1, 3]))
def test_convolution_windows(window: dict[str, Any], group: int) -> None:
    attrs = {**window["attrs"], "group": group}
    shapes = [(2, 3, *window["spatial"]), (6, 3 // group, *attrs["kernel_shape"]), (6,)]
    assert inferred("Conv", shapes, **attrs) == _onnx_shapes(_model("Conv", shapes, 1, **attrs))


@given(windows(), st.sampled_from([1, 3]), st.booleans())
def test_transposed_convolution_windows(window: dict[str, Any], group: int, extra: bool) -> None:
    attrs = {**window["attrs"], "group": group}
    if extra and attrs["auto_pad"] == "NOTSET":
        attrs["output_padding"] = [s - 1 for s in attrs["strides"]]
    shapes = [(2, 3, *window["spatial"]), (3, 4, *attrs["kernel_shape"])]
    expected = _onnx_shapes(_model("ConvTranspose", shapes, 1, **attrs))
    assume(expected is not None)
    assert inferred("ConvTranspose", shapes, **attrs) == expected


@given(st.lists(st.integers(1, 20), min_size=1, max_size=3), st.data())
def test_resize_by_scales(shape: list[int], data: st.DataObject) -> None:
    scales = data.draw(
        st.lists(st.floats(0.25, 4, width=32), min_size=len(shape), max_size=len(shape)).map(
            lambda s: np.array(s, np.float32)
        )
    )
    # Where single and double precision differ, we follow the run times (single), and onnx's inference does not.
    exact = [int(np.floor(d * float(s))) for d, s in zip(shape, scales, strict=True)]
    assume(exact == [int(np.floor(np.float32(d) * s)) for d, s in zip(shape, scales, strict=True)])
    constant = helper.make_tensor("scales", TensorProto.FLOAT, [len(shape)], scales)
    model = _model("Resize", [tuple(shape), None, constant], 1)
    assert inferred("Resize", [tuple(shape), None, scales]) == _onnx_shapes(model)


def _model(op: str, operands: list[Any], outputs: int, **attrs: Any) -> onnx.ModelProto:
    inputs, names, constants = [], [], []
    for index, operand in enumerate(operands):
        names.append("" if operand is None else f"x{index}")
        if isinstance(operand, tuple):
            inputs.append(helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, operand))
        elif operand is not None:
            operand.name = names[-1]
            constants.append(operand)
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, **attrs)
    infos = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results]
    graph = helper.make_graph([node], "g", inputs, infos, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])


def _onnx_shapes(model: onnx.ModelProto) -> list[Shape] | None:
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return None
    return [tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in model.graph.output]
