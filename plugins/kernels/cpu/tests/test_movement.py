"""Movement operators against the reference kernels: layouts, odd sizes, element sizes, threads, empty tensors."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.errors import InputError
from autofusion.ir.types import TensorType
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.movement.offers import offers
from autofusion_kernels_cpu.native.jit import jit
from plugins.kernels.cpu.tests.kernel_harness import check, check_node, make_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE, isa_named

DTYPES = ["uint8", "float16", "float32", "int32", "int64", "float64", "bool"]


def numbers(*shape, dtype="float32"):
    count = int(np.prod(shape))
    if dtype == "bool":
        return (np.arange(count) % 3 == 0).reshape(shape)
    return (np.arange(count) % 251 + 1).astype(dtype).reshape(shape)


def ints(*values):
    return np.array(values, np.int64)


def layouts(names):
    return {name.rsplit(".", 1)[1] for name in names}


# ---- Transpose ---------------------------------------------------------------------------------------------

TRANSPOSES = [
    ((5, 7), (1, 0)),
    ((64, 64), (1, 0)),
    ((33, 130), (1, 0)),
    ((2, 3, 4, 5), (0, 2, 3, 1)),
    ((2, 20, 6, 7), (0, 2, 3, 1)),
    ((1, 9, 17, 40), (0, 3, 1, 2)),
    ((1, 17, 5, 33), (0, 1, 3, 2)),
    ((2, 12, 8, 64), (0, 2, 1, 3)),
    ((3, 4, 5, 6, 2), (4, 2, 0, 1, 3)),
    ((2, 16, 9), (0, 2, 1)),
    ((7,), (0,)),
    ((1, 1, 1, 1), (3, 2, 1, 0)),
    ((2, 0, 3), (2, 1, 0)),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(("shape", "perm"), TRANSPOSES)
def test_transpose(isa, shape, perm):
    check(offers, "Transpose", [numbers(*shape)], {"perm": list(perm)}, isa=isa)


@pytest.mark.parametrize("dtype", DTYPES)
def test_transpose_element_sizes(dtype):
    for shape in ((37, 21), (3, 50, 2)):
        check(offers, "Transpose", [numbers(*shape, dtype=dtype)], isa=RUNNABLE[0])


def test_transpose_reads_and_writes_blocks():
    names = check(offers, "Transpose", [numbers(1, 40, 5, 6)], {"perm": [0, 2, 3, 1]}, isa=RUNNABLE[0])
    assert layouts(names) == {"plain", "reorder"} and len(names) == 3
    names = check(offers, "Transpose", [numbers(1, 40, 5, 6)], {"perm": [0, 1, 3, 2]}, isa=RUNNABLE[0])
    assert layouts(names) == {"plain", "reorder", "blocked"}


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_transpose_threads(threads):
    check(offers, "Transpose", [numbers(4, 70, 130)], {"perm": [0, 2, 1]}, isa=RUNNABLE[0], threads=threads)


# ---- Concat, Split, Slice ----------------------------------------------------------------------------------


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("channels", [(16, 16), (24, 40), (3, 5, 7), (1, 30, 2, 17), (64,), (5, 0, 4)])
def test_concat_channels(isa, channels):
    pieces = [numbers(2, c, 3, 5) * (i + 1) for i, c in enumerate(channels)]
    names = check(offers, "Concat", pieces, {"axis": 1}, isa=isa)
    assert names == ["concat.plain", "concat.blocked"]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("axis", [0, 2, 3, -1])
def test_concat_other_axes(isa, axis):
    shapes = [[2, 19, 3, 4], [2, 19, 3, 4], [2, 19, 3, 4]]
    for i, shape in enumerate(shapes):
        shape[axis] = 1 + 2 * i
    check(offers, "Concat", [numbers(*s) for s in shapes], {"axis": axis}, isa=isa)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_concat_of_constants(isa):
    # Constants come plain, whatever the layout of the others.
    pieces = [numbers(1, 20, 3, 4), numbers(1, 7, 3, 4) * 2, numbers(1, 16, 3, 4) * 3]
    names = check(offers, "Concat", pieces, {"axis": 1}, isa=isa, constants=(1,))
    assert len(names) == 2


@pytest.mark.parametrize("isa", RUNNABLE)
def test_concat_of_one_operand_twice(isa):
    x = numbers(1, 20, 3, 4)
    graph_node = make_node("Concat", [x, x], {"axis": 1})
    graph_node.set_input(1, graph_node.inputs[0])
    check_node(offers, graph_node, [x, x], isa=isa)


@pytest.mark.parametrize("dtype", DTYPES)
def test_concat_element_sizes(dtype):
    check(offers, "Concat", [numbers(3, n, dtype=dtype) for n in (1, 6, 13)], {"axis": 1}, isa=RUNNABLE[0])
    check(offers, "Concat", [numbers(n, dtype=dtype) for n in (1, 2, 0)], {"axis": 0}, isa=RUNNABLE[0])


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_concat_threads(threads):
    pieces = [numbers(1, c, 9, 11) for c in (24, 24, 8)]
    check(offers, "Concat", pieces, {"axis": 1}, isa=RUNNABLE[0], threads=threads)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("sizes", [(16, 16), (10, 22), (1, 31), (7, 9, 16), (32, 0)])
def test_split_channels(isa, sizes):
    x = numbers(2, sum(sizes), 3, 5)
    names = check(offers, "Split", [x, ints(*sizes)], {"axis": 1}, isa=isa, constants=(1,), outputs=len(sizes))
    assert names == ["split.plain", "split.blocked"]


@pytest.mark.parametrize("axis", [0, 2, 3])
def test_split_other_axes(axis):
    check(offers, "Split", [numbers(4, 20, 6, 8), None], {"axis": axis, "num_outputs": 2}, isa=RUNNABLE[0], outputs=2)


SLICES = [
    ((1, 3, 8, 10), [0, 0], [8, 10], [2, 3], [2, 2]),
    ((1, 3, 8, 10), [1, 1], [99, 99], [2, 3], [2, 2]),
    ((2, 40, 5, 6), [3], [30], [1], [1]),
    ((2, 40, 5, 6), [16], [40], [1], [1]),
    ((2, 40, 5, 6), [-1], [-100], [1], [-3]),
    ((2, 20, 9, 7), [-1, 5], [-100, 1], [2, 3], [-1, -2]),
    ((50,), [45], [3], [0], [-7]),
    ((6, 7), [2], [2], [0], [1]),
    ((6, 7), [10], [20], [1], [1]),
    ((4, 5, 6), [-3, -2], [-1, 100], [0, 2], [1, 1]),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(("shape", "starts", "ends", "axes", "steps"), SLICES)
def test_slice(isa, shape, starts, ends, axes, steps):
    inputs = [numbers(*shape), ints(*starts), ints(*ends), ints(*axes), ints(*steps)]
    check(offers, "Slice", inputs, isa=isa, constants=(1, 2, 3, 4))


def test_slice_defaults():
    check(offers, "Slice", [numbers(5, 6), ints(1, 2), ints(4, 5)], isa=RUNNABLE[0], constants=(1, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_slice_element_sizes(dtype):
    inputs = [numbers(9, 31, dtype=dtype), ints(1), ints(30), ints(1), ints(3)]
    check(offers, "Slice", inputs, isa=RUNNABLE[0], constants=(1, 2, 3, 4))


# ---- Pad ---------------------------------------------------------------------------------------------------

PADS = [
    ((1, 3, 5, 6), [0, 0, 1, 2, 0, 0, 3, 1]),
    ((2, 20, 4, 5), [0, 0, 2, 0, 0, 0, 0, 3]),
    ((1, 20, 4, 5), [0, 3, 0, 0, 0, 5, 1, 0]),
    ((4, 5), [1, 2, 2, 1]),
    ((4, 6), [-1, 2, 2, -3]),
    ((9,), [4, 8]),
    ((2, 3, 4), [0, 0, 0, 0, 0, 0]),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(("shape", "pads"), PADS)
def test_pad(isa, mode, shape, pads):
    if mode == "reflect" and shape[1:2] == (3,) and pads[1]:
        pytest.skip("reaches further than there is")
    if mode in ("reflect", "wrap") and any(p < 0 for p in pads):
        pads = [max(p, 0) for p in pads]
    inputs = [numbers(*shape), ints(*pads), np.array(-2.5, np.float32)]
    check(offers, "Pad", inputs, {"mode": mode}, isa=isa, constants=(1, 2))


def test_pad_value_at_run_time_and_axes():
    inputs = [numbers(2, 17, 3, 4), ints(1, 2), np.array([7], np.float32), ints(-2)]
    check(offers, "Pad", inputs, isa=RUNNABLE[0], constants=(1, 3))
    check(offers, "Pad", [numbers(3, 4, dtype="uint8"), ints(1, 0, 0, 2)], isa=RUNNABLE[0], constants=(1,))


@pytest.mark.parametrize("threads", [1, 3])
def test_pad_threads(threads):
    inputs = [numbers(2, 20, 30, 9), ints(0, 0, 2, 3, 0, 0, 1, 4)]
    check(offers, "Pad", inputs, {"mode": "reflect"}, isa=RUNNABLE[0], constants=(1,), threads=threads)


def test_pad_refuses_to_reflect_more_than_there_is():
    node = make_node("Pad", [numbers(3), ints(3, 0)], {"mode": "reflect"}, (1,))
    node.output.type = TensorType(np.dtype(np.float32), (6,))
    answer = offers(node, target_for(RUNNABLE[0]))
    assert isinstance(answer, Refusal) and "reflect" in answer.reason


# ---- Expand, Tile, rearrangements, copies ------------------------------------------------------------------


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((3, 1), (3, 40)),
        ((1,), (2, 3)),
        ((4, 1, 5), (2, 1, 6, 1)),
        ((1, 20, 1, 1), (1, 20, 6, 5)),
        ((1, 20, 1, 5), (3, 20, 6, 1)),
        ((2, 1, 3, 4), (2, 18, 3, 4)),
        ((), (4, 4)),
    ],
)
def test_expand(isa, shape, wanted):
    check(offers, "Expand", [numbers(*shape), ints(*wanted)], isa=isa, constants=(1,))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_tile(dtype):
    check(offers, "Tile", [numbers(2, 5, dtype=dtype), ints(3, 2)], isa=RUNNABLE[0], constants=(1,))
    check(offers, "Tile", [numbers(2, 1, 3, dtype=dtype), ints(1, 4, 2)], isa=RUNNABLE[0], constants=(1,))
    check(offers, "Tile", [numbers(2, 3, dtype=dtype), ints(0, 2)], isa=RUNNABLE[0], constants=(1,))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode):
    check(offers, "DepthToSpace", [numbers(2, 36, 5, 9)], {"blocksize": 3, "mode": mode}, isa=RUNNABLE[0])
    check(offers, "SpaceToDepth", [numbers(1, 3, 8, 12)], {"blocksize": 4}, isa=RUNNABLE[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_reshape_copies(dtype):
    check(offers, "Reshape", [numbers(3, 50, 7, dtype=dtype), ints(-1, 10)], isa=RUNNABLE[0], constants=(1,))


def test_a_long_run_is_shared():
    for count in (1, 3, (1 << 14) // 4, 100_003):
        check(offers, "Flatten", [numbers(1, count)], isa=RUNNABLE[0], threads=3)


# ---- Gather ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize("indices", [[0, 2, 4], [[1, -1], [3, 0]], 2, [4, 3, 2, 2, 2], []])
def test_gather(isa, axis, constants, indices):
    x = numbers(5, 6, 7)
    check(offers, "Gather", [x, np.array(indices, np.int64)], {"axis": axis}, isa=isa, constants=constants)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_element_sizes(dtype):
    indices = np.array([3, 0, -1], np.int32)
    for axis in (0, 1):
        check(offers, "Gather", [numbers(4, 5, dtype=dtype), indices], {"axis": axis}, isa=RUNNABLE[0], threads=2)


def test_gather_says_what_is_out_of_range():
    x, good, bad = numbers(5, 3), np.array([1, 2], np.int64), np.array([1, 5], np.int64)
    check(offers, "Gather", [x, good], isa=RUNNABLE[0])
    expected = [np.zeros((2, 3), np.float32)]
    with pytest.raises(InputError, match=r"index 5 is out of range for axis 0, expected -5 to 4"):
        check(offers, "Gather", [x, bad], isa=RUNNABLE[0], expected=expected)
    with pytest.raises(InputError, match=r"index -9"):
        check(offers, "Gather", [x, np.array([-9, 1], np.int64)], isa=RUNNABLE[0], expected=expected)


# ---- properties --------------------------------------------------------------------------------------------


def test_a_new_shape_compiles_nothing():
    attrs = {"perm": [0, 2, 1]}
    check(offers, "Transpose", [numbers(2, 40, 50)], attrs, isa=RUNNABLE[0])
    before = jit().counters.snapshot()
    check(offers, "Transpose", [numbers(3, 33, 65)], attrs, isa=RUNNABLE[0])
    after = jit().counters.snapshot()
    assert (after.compiled, after.cached) == (before.compiled, before.cached)


def test_equal_pieces_are_one_step():
    # 24 channels straddle blocks: runs of half a block alternate, but they are two steps at most.
    lanes = isa_named(RUNNABLE[0]).lanes
    node = make_node("Concat", [numbers(1, 24, 4, 4), numbers(1, 24, 4, 4)], {"axis": 1})
    node.output.type = TensorType(np.dtype(np.float32), (1, 48, 4, 4))
    from autofusion.kernels import BindContext
    from plugins.kernels.cpu.tests.kernel_harness import Placed

    target = target_for(RUNNABLE[0])
    (offer,) = [o for o in offers(node, target) if o.kernel == "concat.blocked"]
    views = [
        Placed(v.tensor, o, constant=False, hostile=False, writer=False).view
        for v, o in zip(node.inputs, offer.inputs, strict=True)
    ]
    out = Placed(node.output.tensor, offer.outputs[0], constant=False, hostile=False, writer=True).view
    assert len(offer.bind(BindContext(target, {}), views, [out]).steps) <= (4 if lanes > 4 else 2)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "shape", "word"),
    [
        ("Slice", [numbers(4), ints(0), ints(2)], {}, (2,), "starts"),
        ("Concat", [np.array(["a"], object), np.array(["b"], object)], {"axis": 0}, (2,), "object"),
        ("Transpose", [np.zeros((2, 3), np.complex128)], {}, (3, 2), "complex128"),
    ],
)
def test_refusals(op, inputs, attrs, shape, word):
    node = make_node(op, inputs, attrs)
    node.output.type = TensorType(inputs[0].dtype, shape)
    answer = offers(node, target_for(RUNNABLE[0]))
    assert isinstance(answer, Refusal) and word in answer.reason


@pytest.mark.parametrize("k", [0, 2, -3, 40, -40])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_eye_like(k, dtype):
    attrs = {"k": k, "dtype": np.dtype(dtype)}
    assert check(offers, "EyeLike", [np.zeros((5, 7), np.float32)], attrs, isa=RUNNABLE[0]) == ["eye_like.plain"]


def test_bit_cast():
    x = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    check(offers, "BitCast", [x], {"to": np.dtype(np.int32)}, isa=RUNNABLE[0])
