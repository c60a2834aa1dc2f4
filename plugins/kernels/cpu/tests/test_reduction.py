"""Reductions, Softmax, normalisations and ArgMax against the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import of_array
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.reduction.offers import offers
from autofusion_kernels_cpu.reduction.programs import REDUCTIONS
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check, check_node, make_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

rng = np.random.default_rng(0)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


SHAPES_AND_AXES = [
    ((7, 50), [1]),
    ((7, 50), [0]),
    ((7, 50), [0, 1]),
    ((7, 50), None),
    ((3, 5, 37), [-1]),
    ((3, 5, 37), [1]),
    ((3, 5, 37), [0]),
    ((3, 5, 37), [0, 2]),
    ((2, 3, 4, 5), [2, 3]),
    ((2, 3, 4, 5), [0, 2, 3]),
    ((2, 3, 4, 5), [1, 3]),
    ((2, 3, 4, 5), [0, 2]),
    ((2, 20, 6, 7), [1]),
    ((2, 20, 6, 7), [2, 3]),
    ((3, 1, 5), [1]),
    ((1, 1, 1), [0, 1, 2]),
    ((4, 1), [0]),
    ((1000,), [0]),
    ((5, 300), [1]),
    ((300, 5), [0]),
    ((6, 130), [0]),
    ((3, 0), [1]),
    ((0, 3), [1]),
    ((), None),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("shape", "axes"), SHAPES_AND_AXES, ids=str)
def test_mean_over_axes(shape, axes, keepdims, isa):
    x = array(*shape)
    inputs = [x] if axes is None else [x, np.array(axes, np.int64)]
    for threads in (1, 3):
        constants = [] if axes is None else [1]
        check(
            offers,
            "ReduceMean",
            inputs,
            {"keepdims": keepdims},
            isa=isa,
            threads=threads,
            constants=constants,
            rtol=1e-6,
            atol=1e-6,
        )


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize(("shape", "axes"), [((6, 150), [1]), ((150, 6), [0]), ((3, 4, 5, 33), [1, 3])], ids=str)
def test_every_reduction(op, shape, axes, isa):
    x = np.abs(array(*shape)) * 0.5 + 0.5 if op in ("ReduceLogSum", "ReduceProd") else array(*shape)
    check(offers, op, [x, np.array(axes)], isa=isa, constants=[1], rtol=3e-6, atol=4e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceLogSumExp", "ReduceMean"])
def test_special_values(op, isa):
    x = array(6, 40)
    x[0, 3], x[1, 17], x[2, 39], x[3] = np.nan, np.inf, -np.inf, -np.inf
    x[4, 1], x[4, 2] = np.inf, -np.inf
    for data, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
        check(offers, op, [data, np.array([axis])], isa=isa, constants=[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8, np.float16, np.float64], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean"])
def test_element_types(op, dtype, isa):
    if op == "ReduceMean" and np.dtype(dtype).kind == "i":
        node = make_node(op, [np.zeros((3, 4), dtype)])
        node.output.type = of_array(np.zeros((1, 1), dtype))
        assert isinstance(offers(node, target_for(isa)), Refusal)
        return
    x = rng.integers(-2, 3, (5, 43)).astype(dtype)
    for axis in (0, 1):
        check(offers, op, [x, np.array([axis])], isa=isa, constants=[1], rtol=1e-3 if dtype == np.float16 else 1e-14)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_arg(op, last, isa):
    ties = rng.integers(-2, 3, (6, 45)).astype(np.float32)
    special = array(6, 45)
    special[0, 7] = special[0, 30] = np.nan
    special[1] = -np.inf
    special[2] = np.inf
    special[3, 5:9] = np.nan
    for x in (ties, special, array(3, 1), array(1, 100), array(4, 5, 6), ties.astype(np.int32)):
        for axis in range(x.ndim):
            for keepdims in (0, 1):
                attrs = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
                check(offers, op, [x], attrs, isa=isa, threads=2)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shape", [(5, 77), (3, 4, 20), (2, 19, 5, 6), (1, 1), (4, 128), (3, 700), (2, 0)], ids=str)
def test_softmax(op, shape, isa):
    for axis in range(-1, len(shape) - 1):
        for scale in (1, 30):
            x = array(*shape) * scale
            for threads in (1, 2):
                check(offers, op, [x], {"axis": axis}, isa=isa, threads=threads, rtol=4e-6, atol=2e-6 * scale)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_softmax_special_values(isa):
    x = array(6, 40)
    x[0, 3], x[1, 17], x[2, 39], x[3] = np.nan, np.inf, -np.inf, -np.inf
    x[4] = np.where(np.arange(40) < 39, -np.inf, 2.0)
    for op in ("Softmax", "LogSoftmax"):
        check(offers, op, [x], isa=isa, rtol=4e-6, atol=2e-6)
        check(offers, op, [np.ascontiguousarray(x.T)], {"axis": 0}, isa=isa, rtol=4e-6, atol=2e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_layer_normalization(threads, isa):
    for shape, axis in [((5, 77), -1), ((2, 3, 64), -1), ((2, 3, 7), 1), ((3, 4, 5), 0), ((9, 768), -1), ((4, 1), -1)]:
        x = array(*shape) * 3 + 100
        scale, bias = array(*shape[axis:]), array(*shape[axis:])
        for inputs in ([x, scale], [x, scale, bias]):
            for constants in ([], list(range(1, len(inputs)))):
                check(
                    offers,
                    "LayerNormalization",
                    inputs,
                    {"axis": axis, "epsilon": 1e-3},
                    isa=isa,
                    threads=threads,
                    constants=constants,
                    outputs=3,
                    rtol=2e-5,
                    atol=2e-5,
                )


@pytest.mark.parametrize("isa", RUNNABLE)
def test_other_normalizations(isa):
    x = array(2, 20, 6, 5) * 2 + 1
    scale, bias = array(20), array(20)
    close = {"isa": isa, "threads": 2, "rtol": 2e-5, "atol": 2e-5}
    check(offers, "RMSNormalization", [array(7, 90), array(90)], **close)
    check(offers, "RMSNormalization", [array(2, 3, 24), array(3, 24)], {"axis": 1}, constants=[1], **close)
    for constants in ([], [1, 2]):
        check(offers, "InstanceNormalization", [x, scale, bias], {"epsilon": 1e-2}, constants=constants, **close)
        for groups in (1, 4, 10, 20):
            attrs = {"num_groups": groups}
            check(offers, "GroupNormalization", [x, scale, bias], attrs, constants=constants, **close)
    check(offers, "MeanVarianceNormalization", [x], **close)
    check(offers, "MeanVarianceNormalization", [x], {"axes": [2, 3]}, **close)
    for p in (1, 2):
        for axis in (-1, 1):
            check(offers, "LpNormalization", [x], {"p": p, "axis": axis}, **close)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(2, 20, 6, 5), (1, 3, 17), (2, 7), (1, 1, 4, 4), (2, 0, 3)], ids=str)
def test_lrn(shape, threads, isa):
    for attrs in ({"size": 5}, {"size": 2, "alpha": 0.5, "beta": 0.5, "bias": 2.0}, {"size": 11, "alpha": 1.0}):
        check(offers, "LRN", [array(*shape)], attrs, isa=isa, threads=threads, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_blocked_offers(isa):
    """Where only spatial axes are reduced, a vector is a block of channels."""
    block = {"avx512": 16, "avx2": 8, "neon": 4}[isa]
    scale, bias = array(21), array(21)
    for op, inputs, attrs, constants in [
        ("ReduceMean", [array(2, 21, 6, 5), np.array([2, 3])], {}, [1]),
        ("ReduceMax", [array(2, 21, 6, 5), np.array([3])], {}, [1]),
        ("Softmax", [array(2, 21, 6, 5)], {"axis": 2}, []),
        ("InstanceNormalization", [array(2, 21, 6, 5), scale, bias], {}, [1, 2]),
        ("MeanVarianceNormalization", [array(2, 21, 6, 5)], {"axes": [2, 3]}, []),
    ]:
        check(offers, op, inputs, attrs, isa=isa, threads=3, constants=constants, rtol=2e-5, atol=2e-5)
        node = make_node(op, inputs, attrs, constants)
        node.output.type = of_array(inputs[0][:, :, :1, :1] if op == "ReduceMean" else inputs[0])
        if op == "ReduceMax":
            node.output.type = of_array(inputs[0][..., :1])
        made = offers(node, target_for(isa))
        assert not isinstance(made, Refusal)
        assert [o.outputs[0].layout.block for o in made] == [0, block], op


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_blocked_operand_and_plain_totals(keepdims, isa):
    block = {"avx512": 16, "avx2": 8, "neon": 4}[isa]
    x = array(2, 48, 7, 7)
    inputs, attrs = [x, np.array([2, 3])], {"keepdims": keepdims}
    check(offers, "ReduceMean", inputs, attrs, isa=isa, threads=2, constants=[1], rtol=1e-6, atol=1e-6)
    node = make_node("ReduceMean", inputs, attrs, [1])
    node.output.type = of_array(np.mean(x, (2, 3), keepdims=bool(keepdims)))
    made = offers(node, target_for(isa))
    assert not isinstance(made, Refusal)
    layouts = [(o.inputs[0].layout.block, o.outputs[0].layout.block) for o in made]
    assert layouts == ([(0, 0), (block, block), (block, 0)] if keepdims else [(0, 0), (block, 0)])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [2, 3])
def test_totals_of_one_axis_are_no_whole_blocks(axis, keepdims, isa):
    """A plain result that still has pixels has its channels apart."""
    x = array(2, 16, 3, 4)
    inputs, attrs = [x, np.array([axis])], {"keepdims": keepdims}
    check(offers, "ReduceMax", inputs, attrs, isa=isa, constants=[1])
    node = make_node("ReduceMax", inputs, attrs, [1])
    node.output.type = of_array(np.max(x, axis, keepdims=bool(keepdims)))
    assert all(o.inputs[0].layout == o.outputs[0].layout for o in offers(node, target_for(isa)))


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("axes", [[1], [0], [-1, 0]], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_fused_reduction(axes, keepdims, isa):
    """Arithmetic before and behind; operands of either shape, broadcast."""
    x, y = array(6, 90), array(90)
    reduced = np.sum(x, tuple(axes), keepdims=bool(keepdims))
    factor = array(*reduced.shape)

    def build(b, x, y, factor):
        z = b("Mul", b("Add", x, y), x)
        m = b("ReduceMean", z, np.array(axes), keepdims=keepdims)
        return b("Mul", b("Sqrt", b("Abs", m)), factor)

    arrays = [x, y, factor]
    check_node(offers, fused("reduction", build, arrays), arrays, isa=isa, threads=2, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_fused_softmax(isa):
    scores, mask = array(2, 3, 5, 40), np.where(rng.random((2, 1, 5, 40)) < 0.3, -1e9, 0).astype(np.float32)
    factor = array(40)

    def masked(b, s, m):
        return b("Softmax", b("Add", b("Mul", s, 0.125), m), axis=-1)

    def scaled(b, s, m, k):
        return b("Mul", masked(b, s, m), k)

    check_node(offers, fused("softmax", masked, [scores, mask]), [scores, mask], isa=isa, rtol=4e-6, atol=1e-6)
    arrays = [scores, mask, factor]
    check_node(offers, fused("softmax", scaled, arrays), arrays, isa=isa, threads=2, rtol=4e-6, atol=1e-6)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_fused_norm(op, isa):
    """The residual sum is a result of its own; an activation follows; the sum is read behind the norm as well."""
    for shape in [(5, 77), (2, 4, 48)]:
        x, r, scale, bias = array(*shape), array(*shape), array(shape[-1]), array(shape[-1])

        def build(b, x, r, scale, bias):
            s = b("Add", x, r)
            parameters = [scale, bias] if op == "LayerNormalization" else [scale]
            y = b(op, s, *parameters, axis=-1)
            return [b("Add", b("Gelu", y), s), s]

        arrays = [x, r, scale, bias]
        for constants in ([], [2, 3]):
            node = fused("layer_norm", build, arrays, constants)
            check_node(offers, node, arrays, isa=isa, threads=2, rtol=2e-5, atol=2e-5)


def test_in_place():
    target = target_for(RUNNABLE[0])
    x, m = array(4, 40), array(4, 40)
    made = offers(fused("softmax", lambda b, x, m: b("Softmax", b("Add", x, m)), [x, m]), target)
    assert not isinstance(made, Refusal)
    assert made[0].inplace == ((0, 0), (0, 1))
    # The factor is read behind the Softmax, when exponentials are already in the result.
    made = offers(fused("softmax", lambda b, x, m: b("Mul", b("Softmax", x), m), [x, m]), target)
    assert not isinstance(made, Refusal)
    assert made[0].inplace == ((0, 0),)
    node = fused(
        "layer_norm", lambda b, x, m, s: (lambda t: [b("RMSNormalization", t, s), t])(b("Add", x, m)), [x, m, m[0]]
    )
    made = offers(node, target)
    assert not isinstance(made, Refusal)
    assert made[0].inplace == ()


@pytest.mark.parametrize("isa", RUNNABLE)
def test_results_do_not_depend_on_threads(isa):
    from plugins.kernels.cpu.tests.kernel_harness import run_offer

    x = array(37, 333)
    for op, attrs in [("Softmax", {}), ("ReduceSum", {"keepdims": 0}), ("LogSoftmax", {"axis": 0})]:
        inputs = [x, np.array([1])] if op == "ReduceSum" else [x]
        node = make_node(op, inputs, attrs, [1] if op == "ReduceSum" else [])
        node.output.type = of_array(x[:, 0] if op == "ReduceSum" else x)
        found = []
        for threads in (1, 2, 3, 4):
            target = target_for(isa, threads)
            made = offers(node, target)
            assert not isinstance(made, Refusal)
            found.append(run_offer(node, made[0], inputs, target)[0])
        for other in found[1:]:
            assert (other == found[0]).all()


def test_refusals():
    target = target_for(RUNNABLE[0])
    x = array(3, 4)
    for kind, build, word in [
        ("reduction", lambda b, x: b("ReduceSum", x, np.array([1]), keepdims=1), None),
        ("softmax", lambda b, x: b("ReduceSum", x, np.array([1])), "expected one LogSoftmax or Softmax"),
        ("reduction", lambda b, x: b("Add", b("ReduceSum", x, np.array([0]), keepdims=0), x), "[3, 4]"),
        ("layer_norm", lambda b, x: b("Transpose", x, perm=[1, 0]), "found 0"),
    ]:
        made = offers(fused(kind, build, [x]), target)
        assert isinstance(made, Refusal) == (word is not None)
        if isinstance(made, Refusal):
            assert word in made.reason


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(("shape", "axes"), [((6, 5, 40), [-1]), ((2, 33, 7, 9), [1]), ((2, 33, 7), [0, 2])], ids=str)
def test_reduced_values_go_back_to_the_elements(shape, axes, isa):
    x, z = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape).astype(np.float32)
    kept = [1 if i in [a % len(shape) for a in axes] else d for i, d in enumerate(shape)]
    r = rng.standard_normal(kept).astype(np.float32)

    def by_norm(b, x, z, r):
        length = b("Max", b("ReduceL2", x, np.array(axes), keepdims=1), b.constant(1e-3))
        return b("Mul", b("Div", x, length), z)

    def without_maximum(b, x, z, r):
        e = b("Exp", b("Add", x, z))
        return b("Div", e, b("Add", b("ReduceSum", e, np.array(axes), keepdims=1), b("Abs", r)))

    def both_results(b, x, z, r):
        mean = b("ReduceMean", x, np.array(axes), keepdims=1)
        return [b("Mul", mean, r), b("Mul", b("Sub", x, b("Mul", mean, r)), r)]

    for build in (by_norm, without_maximum, both_results):
        node = fused("reduction", build, [x, z, r])
        check_node(offers, node, [x, z, r], isa=isa, threads=2, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("channels", [5, 32])
def test_global_pools_with_what_is_around_them(op, channels, isa):
    x = rng.standard_normal((2, channels, 7, 9)).astype(np.float32)

    def gate(b, x):
        return b("Mul", x, b("Sigmoid", b(op, x)))

    def row(b, x):
        return b("Sigmoid", b(op, b("Neg", x)))

    for build in (gate, row):
        check_node(offers, fused("reduction", build, [x]), [x], isa=isa, threads=2, rtol=2e-5, atol=1e-5)
