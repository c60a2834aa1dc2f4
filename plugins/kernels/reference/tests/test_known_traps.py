"""Where implementations go wrong, the usual reference included: what must hold, computed another way."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from autofusion.errors import InputError, KernelError
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
from autofusion_kernels_reference.erf import erf
from autofusion_kernels_reference.evaluate import evaluate, run_graph
from plugins.kernels.reference.tests.single import make_node, run

F32 = np.float32
NAN, INF = F32("nan"), F32("inf")


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape, F32)


# ---- what onnx.reference gets wrong ------------------------------------------------------------------------


def test_max_pool_with_pads_at_the_start_only() -> None:
    x = _normal(1, 1, 4, 4)
    y = run("MaxPool", x, kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    padded = np.full((5, 5), -np.inf, F32)
    padded[1:, 1:] = x[0, 0]
    expected = [[padded[i : i + 2, j : j + 2].max() for j in range(4)] for i in range(4)]
    np.testing.assert_array_equal(y, np.array(expected, F32)[None, None])


def test_grouped_conv_transpose_is_one_per_group() -> None:
    x, w = _normal(2, 6, 4, 3), _normal(6, 2, 3, 2)
    whole = run("ConvTranspose", x, w, group=3, strides=[2, 1])
    parts = [run("ConvTranspose", x[:, 2 * g : 2 * g + 2], w[2 * g : 2 * g + 2], strides=[2, 1]) for g in range(3)]
    np.testing.assert_allclose(whole, np.concatenate(parts, 1), rtol=1e-6, atol=1e-6)


def test_grouped_conv_is_one_per_group() -> None:
    x, w = _normal(2, 6, 5, 5), _normal(9, 2, 3, 3)
    whole = run("Conv", x, w, group=3)
    parts = [run("Conv", x[:, 2 * g : 2 * g + 2], w[3 * g : 3 * g + 3]) for g in range(3)]
    np.testing.assert_allclose(whole, np.concatenate(parts, 1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_negative_pads_crop(mode: str) -> None:
    x = np.arange(20, dtype=F32).reshape(4, 5)
    y = run("Pad", x, np.array([-1, -2, 0, -1], np.int64), mode=mode)
    np.testing.assert_array_equal(y, x[1:, 2:4])


def test_pads_that_crop_at_one_end_and_add_at_the_other() -> None:
    x = np.arange(6, dtype=F32)
    np.testing.assert_array_equal(run("Pad", x, np.array([-2, 3], np.int64)), [2, 3, 4, 5, 0, 0, 0])
    np.testing.assert_array_equal(run("Pad", x, np.array([-2, 3], np.int64), mode="edge"), [2, 3, 4, 5, 5, 5, 5])
    assert run("Pad", x, np.array([-4, -4], np.int64)).shape == (0,)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "shape"),
    [
        ("Conv", [np.zeros((0, 3, 5, 5), F32), _normal(4, 3, 3, 3)], {"pads": [1, 1, 1, 1]}, (0, 4, 5, 5)),
        ("ConvTranspose", [np.zeros((0, 3, 5, 5), F32), _normal(3, 4, 2, 2)], {"strides": [2, 2]}, (0, 4, 10, 10)),
        ("MaxPool", [np.zeros((0, 3, 5, 5), F32)], {"kernel_shape": [2, 2]}, (0, 3, 4, 4)),
        ("AveragePool", [np.zeros((0, 3, 5, 5), F32)], {"kernel_shape": [2, 2]}, (0, 3, 4, 4)),
        ("BatchNormalization", [np.zeros((0, 3, 2), F32), *np.ones((4, 3), F32)], {}, (0, 3, 2)),
        ("LayerNormalization", [np.zeros((0, 3), F32), np.ones(3, F32)], {}, (0, 3)),
        ("MatMul", [np.zeros((0, 4, 5), F32), _normal(5, 2)], {}, (0, 4, 2)),
        ("MatMul", [np.zeros((4, 0), F32), np.zeros((0, 2), F32)], {}, (4, 2)),
        ("Gemm", [np.zeros((0, 4), F32), _normal(4, 2), _normal(2)], {}, (0, 2)),
        ("GroupNormalization", [np.zeros((0, 4, 3), F32), *np.ones((2, 4), F32)], {"num_groups": 2}, (0, 4, 3)),
        ("Attention", [np.zeros((0, 3, 8), F32)] * 3, {"q_num_heads": 2, "kv_num_heads": 2}, (0, 3, 8)),
        ("Softmax", [np.zeros((0, 4), F32)], {}, (0, 4)),
        ("Softmax", [np.zeros((4, 0), F32)], {}, (4, 0)),
        ("ReduceMax", [np.zeros((4, 0), F32), np.array([1])], {}, (4, 1)),
        ("Resize", [np.zeros((0, 1, 2, 2), F32), None, np.array([1, 1, 2, 2], F32)], {"mode": "linear"}, (0, 1, 4, 4)),
        ("Concat", [np.zeros((0, 4), F32), _normal(2, 4)], {"axis": 0}, (2, 4)),
        ("Gather", [_normal(3, 4), np.zeros((0,), np.int64)], {}, (0, 4)),
        ("Reshape", [np.zeros((0, 4), F32), np.array([2, 0, 3])], {"allowzero": 1}, (2, 0, 3)),
        ("Transpose", [np.zeros((0, 4), F32)], {}, (4, 0)),
        ("LSTM", [np.zeros((3, 0, 2), F32), _normal(1, 8, 2), _normal(1, 8, 2)], {"hidden_size": 2}, (3, 1, 0, 2)),
    ],
)
def test_zero_sizes(op: str, inputs: list[Any], attrs: dict[str, Any], shape: tuple[int, ...]) -> None:
    y = run(op, *inputs, **attrs)
    assert y.shape == shape
    assert y.dtype == F32


# ---- arithmetic --------------------------------------------------------------------------------------------


def test_integer_division_truncates_toward_zero() -> None:
    a, b = np.array([7, -7, 7, -7, 6, -6], np.int32), np.array([2, 2, -2, -2, 3, -3], np.int32)
    np.testing.assert_array_equal(run("Div", a, b), [3, -3, -3, 3, 2, 2])
    np.testing.assert_array_equal(run("Mod", a, b), [1, 1, -1, -1, 0, 0])
    np.testing.assert_array_equal(run("Mod", a, b, fmod=1), [1, -1, 1, -1, 0, 0])


def test_integer_powers() -> None:
    y = run("Pow", np.array([2, 2, 1, -1, 0], np.int64), np.array([10, -1, -5, -3, 0], np.int64))
    np.testing.assert_array_equal(y, [1024, 0, 1, -1, 1])
    assert run("Pow", np.array([2.0], F32), np.array([3], np.int64)).dtype == F32
    assert run("Pow", np.array([9], np.int32), np.array([0.5], F32)).tolist() == [3]


def test_clip_with_low_above_high_is_high() -> None:
    x = np.array([-5, 0, 5], F32)
    np.testing.assert_array_equal(run("Clip", x, np.array(3, F32), np.array(1, F32)), [1, 1, 1])
    np.testing.assert_array_equal(run("Clip", x, None, np.array(1, F32)), [-5, 0, 1])
    np.testing.assert_array_equal(run("Clip", x), x)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Relu", [[NAN, 1]]),
        ("Clip", [[NAN, 1], F32(0), F32(6)]),
        ("Max", [[NAN, 1], [0, 0]]),
        ("Min", [[0, 0], [NAN, 1]]),
        ("HardSigmoid", [[NAN, 1]]),
        ("HardSwish", [[NAN, 1]]),
        ("LeakyRelu", [[NAN, 1]]),
        ("Sigmoid", [[NAN, 1]]),
        ("Sign", [[NAN, 1]]),
        ("Gelu", [[NAN, 1]]),
        ("Erf", [[NAN, 1]]),
        ("Softplus", [[NAN, 1]]),
    ],
)
def test_nan_stays(op: str, inputs: list[Any]) -> None:
    y = run(op, *(np.asarray(x, F32) for x in inputs))
    assert np.isnan(y).tolist() == [True, False]


def test_nan_through_pooling_and_reductions() -> None:
    x = np.array([1, NAN, 3, 4], F32).reshape(1, 1, 4)
    y, where = run("MaxPool", x, outputs=2, kernel_shape=[2], strides=[2])
    assert np.isnan(y).ravel().tolist() == [True, False]
    assert where.ravel().tolist() == [1, 3]
    for op in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean"):
        assert np.isnan(run(op, x, keepdims=0)), op


def test_maxima_of_minus_infinity_have_positions() -> None:
    y, where = run("MaxPool", np.full((1, 1, 4), -INF, F32), outputs=2, kernel_shape=[2], strides=[2])
    assert y.ravel().tolist() == [-INF, -INF]
    assert where.ravel().tolist() == [0, 2]


def test_functions_do_not_overflow_on_the_way() -> None:
    x = np.array([-1000, 1000], F32)
    np.testing.assert_array_equal(run("Sigmoid", x), [0, 1])
    np.testing.assert_array_equal(run("Softplus", x), [0, 1000])
    np.testing.assert_array_equal(run("Mish", x), [-0.0, 1000])
    np.testing.assert_array_equal(run("Softmax", np.array([1e38, 1e38], F32)), [0.5, 0.5])
    assert run("ReduceLogSumExp", np.array([1e38, 1e38], F32), keepdims=0) == F32(1e38)


def test_sums_are_rounded_once() -> None:
    ones = np.full(1 << 20, 0.1, F32)
    assert run("ReduceSum", ones, keepdims=0) == F32(math.fsum(ones.tolist()))
    big = np.array([1e8, 1, -1e8], F32)
    assert run("MatMul", big, np.ones(3, F32)) == 1
    assert run("Conv", big.reshape(1, 3, 1), np.ones((1, 3, 1), F32)).item() == 1


def test_erf_is_as_good_as_the_scalar_one() -> None:
    x = np.concatenate([np.linspace(-7, 7, 4001), 10.0 ** np.arange(-300, 0, 7), [0.0, np.inf, -np.inf]])
    expected = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(erf(x), expected, rtol=5e-16, atol=0)
    assert np.signbit(erf(np.array([-0.0])))[0]


def test_reshape_zero_copies_the_dim_at_the_same_place() -> None:
    x = np.zeros((2, 3, 4), F32)
    assert run("Reshape", x, np.array([0, -1])).shape == (2, 12)
    assert run("Reshape", x, np.array([4, 0, -1])).shape == (4, 3, 2)
    with pytest.raises(KernelError, match=r"cannot reshape \(2, 3, 4\) into \(5, -1\)"):
        run("Reshape", x, np.array([5, -1]))
    with pytest.raises(KernelError, match="cannot reshape"):
        run("Reshape", np.zeros((0, 3), F32), np.array([0, -1]))


def test_softmax_hidden_rows_of_attention_are_zero() -> None:
    q = _normal(1, 1, 2, 4)
    mask = np.array([[True, False], [False, False]])
    y = run("Attention", q, q, q, mask)
    np.testing.assert_array_equal(y[0, 0, 1], np.zeros(4, F32))
    np.testing.assert_allclose(y[0, 0, 0], q[0, 0, 0], rtol=1e-6)


# ---- conversions -------------------------------------------------------------------------------------------


def test_casts() -> None:
    def cast(values: Any, dtype: Any, to: Any, **attrs: Any) -> list[Any]:
        return run("Cast", np.array(values, dtype), to=np.dtype(to), **attrs).tolist()

    assert cast([1.9, -1.9, 0.5], F32, np.int32) == [1, -1, 0]
    assert cast([0.0, -0.0, 0.1, NAN], F32, np.bool_) == [False, False, True, True]
    assert cast([300, -1], np.int32, np.uint8) == [44, 255]
    assert cast(["1.5", "-inf", "NaN", "1e3"], object, F32)[:2] == [1.5, -INF]
    assert cast(["7", "-12"], object, np.int64) == [7, -12]
    assert cast([1, -2], np.int64, object) == ["1", "-2"]
    assert cast([1.5, INF, -INF, NAN], F32, object) == ["1.5", "INF", "-INF", "NaN"]
    assert cast([True, False], np.bool_, object) == ["1", "0"]


def test_saturating_casts() -> None:
    import ml_dtypes

    x = np.array([1e6, -1e6, INF, 1.0], F32)
    for dtype, limit in ((ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344)):
        y = run("Cast", x, to=np.dtype(dtype)).astype(F32)
        assert y.tolist() == [limit, -limit, limit, 1.0]
    loose = run("Cast", x, to=np.dtype(ml_dtypes.float8_e5m2), saturate=0).astype(F32)
    assert loose.tolist() == [INF, -INF, INF, 1.0]


def test_narrow_types_go_through_movement_and_arithmetic() -> None:
    import ml_dtypes

    x = np.array([[1, 2], [3, 4]], ml_dtypes.bfloat16)
    y = run("Transpose", x)
    assert y.dtype == x.dtype
    assert y.astype(F32).tolist() == [[1, 3], [2, 4]]
    assert run("Add", x, x).astype(F32).tolist() == [[2, 4], [6, 8]]
    assert run("ReduceSum", x, keepdims=0).astype(F32) == 10
    assert run("Gather", x.astype(ml_dtypes.int4), np.array([1])).astype(np.int8).tolist() == [[3, 4]]


# ---- randomness --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["RandomNormal", "RandomUniform"])
def test_seeds(op: str) -> None:
    first, again = (run(op, shape=[500], seed=3.5) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, run(op, shape=[500], seed=3.25))
    assert not np.array_equal(run(op, shape=[500]), run(op, shape=[500]))
    assert first.dtype == F32


def test_distributions() -> None:
    y = run("RandomNormal", shape=[40000], mean=2.0, scale=3.0, seed=1.0)
    assert abs(y.mean() - 2) < 0.1
    assert abs(y.std() - 3) < 0.1
    y = run("RandomUniformLike", np.zeros((200, 200), np.float64), low=-1.0, high=3.0, seed=1.0)
    assert (y.dtype, y.shape) == (np.float64, (200, 200))
    assert y.min() >= -1
    assert y.max() < 3
    assert abs(y.mean() - 1) < 0.05
    y = run("Bernoulli", np.full((40000,), 0.3), seed=2.0)
    assert set(np.unique(y)) == {0, 1}
    assert abs(y.mean() - 0.3) < 0.02
    y = run("Multinomial", np.log(np.array([[0.1, 0.6, 0.3]], F32)), sample_size=40000, seed=2.0)
    assert (y.dtype, y.shape) == (np.int32, (1, 40000))
    np.testing.assert_allclose(np.bincount(y[0], minlength=3) / 40000, [0.1, 0.6, 0.3], atol=0.02)


def test_dropout() -> None:
    x = np.ones((100, 100), F32)
    y, mask = run("Dropout", x, np.array(0.25, F32), np.array(False), outputs=2)
    assert mask.all()
    np.testing.assert_array_equal(y, x)
    y, mask = run("Dropout", x, np.array(0.25, F32), np.array(True), outputs=2, seed=1)
    assert abs(mask.mean() - 0.75) < 0.03
    np.testing.assert_array_equal(y, np.where(mask, F32(1 / 0.75), F32(0)))


# ---- whole graphs ------------------------------------------------------------------------------------------


def _body(name: str, inputs: list[tuple[str, Any, tuple[int, ...]]]) -> tuple[Graph, list[Any]]:
    graph = Graph(name)
    return graph, [graph.add_input(n, TensorType(np.dtype(t), s)) for n, t, s in inputs]


def test_loops_stack_their_scan_outputs() -> None:
    body, (_, going, total, outer) = _body(
        "body", [("i", np.int64, ()), ("c", np.bool_, ()), ("s", F32, (2,)), ("w", F32, (2,))]
    )
    new = body.node("Add", [total, outer]).output
    body.add_output(body.node("Identity", [going]).output)
    body.add_output(new)
    body.add_output(body.node("Mul", [new, new], outputs=[TensorType(np.dtype(F32), (2,))]).output)
    graph = Graph()
    trips = graph.constant(np.array(3, np.int64))
    start, captured = graph.add_input("s", None), graph.add_input("w", None)
    loop = graph.node("Loop", [trips, None, start, captured], {"body": body, "captures": 1}, outputs=2)
    for value in loop.outputs:
        graph.add_output(value)
    last, scanned = run_graph(graph, [np.array([0, 1], F32), np.array([1, 10], F32)])
    np.testing.assert_array_equal(last, [3, 31])
    np.testing.assert_array_equal(scanned, [[1, 121], [4, 441], [9, 961]])
    trips.const = np.array(0, np.int64)
    last, scanned = run_graph(graph, {"s": np.array([0, 1], F32), "w": np.array([1, 10], F32)})
    assert scanned.shape == (0, 2)
    np.testing.assert_array_equal(last, [0, 1])


@pytest.mark.parametrize(("axis", "back_in", "back_out"), list(itertools.product([0, 1], [0, 1], [0, 1])))
def test_scans(axis: int, back_in: int, back_out: int) -> None:
    body, (state, element) = _body("body", [("s", F32, (3,)), ("x", F32, (3,))])
    new = body.node("Add", [state, element], outputs=[TensorType(np.dtype(F32), (3,))]).output
    body.add_output(new)
    body.add_output(body.node("Identity", [new], outputs=[TensorType(np.dtype(F32), (3,))]).output)
    attrs = {
        "body": body,
        "num_scan_inputs": 1,
        "scan_input_axes": [axis],
        "scan_input_directions": [back_in],
        "scan_output_axes": [axis],
        "scan_output_directions": [back_out],
    }
    x = _normal(4, 3) if axis == 0 else _normal(3, 4)
    last, sums = evaluate(make_node("Scan", [np.zeros(3, F32), x], 2, **attrs), [np.zeros(3, F32), x])
    ordered = np.flip(x, axis) if back_in else x
    expected = np.cumsum(ordered, axis, dtype=F32)
    np.testing.assert_allclose(sums, np.flip(expected, axis) if back_out else expected, rtol=1e-6)
    np.testing.assert_allclose(last, x.sum(axis), rtol=1e-5)


def test_if_takes_one_branch() -> None:
    branches = []
    for op in ("Neg", "Abs"):
        body, (x,) = _body(op, [("x", F32, (2,))])
        body.add_output(body.node(op, [x]).output)
        branches.append(body)
    attrs = {"then_branch": branches[0], "else_branch": branches[1], "captures": 1}
    x = np.array([-1, 2], F32)
    assert run("If", np.array(True), x, **attrs).tolist() == [1, -2]
    assert run("If", np.array([False]), x, **attrs).tolist() == [1, 2]


def test_fused_nodes_run_their_body() -> None:
    body, (x, y) = _body("body", [("a", F32, (2,)), ("b", F32, (2,))])
    body.add_output(body.node("Relu", [body.node("Sub", [x, y]).output]).output)
    got = run("Fused", np.array([1, 5], F32), np.array([3, 2], F32), kind="pointwise", rule="r@1", body=body)
    assert got.tolist() == [0, 3]


def test_graph_inputs() -> None:
    graph = Graph("net")
    x = graph.add_input("x", None)
    bias = graph.add_input("bias", None, default=np.array([10], F32))
    graph.add_output(graph.node("Add", [x, bias]).output)
    given = np.array([1], F32)
    assert run_graph(graph, {"x": given})[0].tolist() == [11]
    assert run_graph(graph, {"x": given, "bias": given})[0].tolist() == [2]
    assert run_graph(graph, [given, None])[0].tolist() == [11]
    with pytest.raises(InputError, match="input 'x' of graph 'net' is missing"):
        run_graph(graph, {})
    with pytest.raises(InputError, match=r"graph 'net' has no input 'bios'; did you mean 'bias'\?"):
        run_graph(graph, {"x": given, "bios": given})


# ---- results and errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["Identity", "Reshape", "Transpose", "Squeeze", "Slice", "Dropout", "Expand", "Flatten"])
def test_results_are_copies(op: str) -> None:
    x = np.arange(6, dtype=F32).reshape(2, 3)
    x.flags.writeable = False
    more = {
        "Reshape": [np.array([3, 2])],
        "Slice": [np.array([0]), np.array([9])],
        "Expand": [np.array([2, 3])],
    }.get(op, [])
    y = run(op, x, *more)
    assert not np.may_share_memory(x, y)
    assert y.flags.c_contiguous
    assert y.flags.writeable


def test_errors_name_the_node() -> None:
    with pytest.raises(KernelError, match=r"Conv 'Conv' with operands float32\[1, 3, 4, 4\], float32\[2, 5, 1, 1\]"):
        run("Conv", _normal(1, 3, 4, 4), _normal(2, 5, 1, 1))
    with pytest.raises(KernelError, match=r"no 'Convv'; did you mean 'Conv'"):
        run("Convv", _normal(1))
    with pytest.raises(KernelError, match=r"an index lies outside \[-3, 2\]"):
        run("Gather", _normal(3), np.array([3]))
    with pytest.raises(KernelError, match="has 2 results, but its operator makes 1"):
        run("Relu", _normal(3), outputs=2)


def test_a_result_that_is_not_as_declared_is_an_error() -> None:
    node = make_node("Relu", [_normal(3)])
    node.output.type = TensorType(np.dtype(F32), (4,))
    with pytest.raises(KernelError, match=r"gives 'Relu' as float32\[3\], but the graph declares f32\[4\]"):
        evaluate(node, [_normal(3)])
    node.output.type = TensorType(np.dtype(np.float64), None)
    with pytest.raises(KernelError, match=r"as float32\[3\], but the graph declares f64\[\*\]"):
        evaluate(node, [_normal(3)])
    node.output.type = TensorType(np.dtype(F32), ("n",))
    assert evaluate(node, [_normal(3)])[0].shape == (3,)


def test_running_statistics_do_not_change_at_inference() -> None:
    graph = Graph()
    arrays = [_normal(2, 3, 4), *(_normal(3) for _ in range(3)), np.abs(_normal(3)) + F32(0.5)]
    node = graph.node("BatchNormalization", [graph.constant(a) for a in arrays], outputs=3)
    y, mean, variance = evaluate(node, arrays)
    assert y.shape == (2, 3, 4)
    np.testing.assert_array_equal(mean, arrays[3])
    np.testing.assert_array_equal(variance, arrays[4])


@pytest.mark.filterwarnings("error")
def test_statistics_of_nothing_are_quiet() -> None:
    empty = np.zeros((2, 0), F32)
    for op, more in (("LayerNormalization", [np.ones(0, F32)]), ("MeanVarianceNormalization", [])):
        graph = Graph()
        node = graph.node(op, [graph.constant(a) for a in (empty, *more)], {"axes": [1]} if not more else {})
        assert evaluate(node, [empty, *more])[0].shape == (2, 0)


@pytest.mark.parametrize(("x", "count"), [(0.0, 0), (2.0, 1)])
def test_non_zero_of_a_scalar_has_no_axes(x: float, count: int) -> None:
    assert run("NonZero", np.array(x, F32)).shape == (0, count)
