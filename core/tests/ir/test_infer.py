"""Symbols, merging, control flow and messages of type inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autofusion.errors import ShapeError
from autofusion.ir import Graph, OptionalType, SequenceType, Shape, TensorType, Value
from autofusion.ir.infer import infer_graph, infer_node, merge_types
from autofusion.ir.operators import work

F32, I64, BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(bool)


def f32(*dims: int | str | None) -> TensorType:
    return TensorType(F32, dims)


def shape_of(op: str, *operands: Any, outputs: int = 1, **attrs: Any) -> Any:
    """Shape of the result (a list for several); operands are shapes, arrays (constants) or None (absent)."""
    graph = Graph()
    values: list[Value | None] = []
    for operand in operands:
        if operand is None:
            values.append(None)
        elif isinstance(operand, np.ndarray):
            values.append(graph.constant(operand))
        else:
            values.append(graph.add_input("x", operand if isinstance(operand, TensorType) else f32(*operand)))
    node = graph.node(op, values, attrs, outputs=outputs)
    infer_node(node)
    return [v.shape for v in node.outputs] if outputs > 1 else node.output.shape


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# ---- symbols -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (("N", 3), ("N", 3), ("N", 3)),
        (("N", 3), (1, 3), ("N", 3)),
        (("N", 3), (3,), ("N", 3)),
        (("N",), (5,), (5,)),  # N is 1 or 5: the result has 5 either way
        (("N",), ("M",), (None,)),
        (("N",), (None,), (None,)),
        ((None,), (5,), (5,)),
        ((None,), (1,), (None,)),
        ((0,), (1,), (0,)),
    ],
)
def test_broadcast(a: Shape, b: Shape, expected: Shape) -> None:
    assert shape_of("Add", a, b) == expected
    assert shape_of("Add", b, a) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (ints(0, -1), ("N", 48)),
        (ints(-1, 48), ("N", 48)),
        (ints(0, 4, 12), ("N", 4, 12)),
        (ints(-1), (None,)),
        (ints(-1, 24), (None, 24)),
        (ints(2, -1), (2, None)),
    ],
)
def test_reshape_keeps_symbols(target: np.ndarray, expected: Shape) -> None:
    assert shape_of("Reshape", ("N", 3, 16), target) == expected


def test_reshape_with_an_unknown_target_knows_the_rank() -> None:
    assert shape_of("Reshape", ("N", 3), TensorType(I64, (3,))) == (None, None, None)
    assert shape_of("Reshape", ("N", 3), TensorType(I64, ("K",))) is None


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "expected"),
    [
        ("Conv", [("N", 3, "H", "W"), (8, 3, 3, 3)], {"pads": [1, 1, 1, 1]}, ("N", 8, "H", "W")),
        ("Conv", [("N", 3, "H", 32), (8, 3, 3, 3)], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, ("N", 8, None, 16)),
        ("Conv", [("N", 3, "H", "W"), (8, 3, 1, 1)], {}, ("N", 8, "H", "W")),
        ("Conv", [("N", 3, "H", "W"), (8, 3, 3, 3)], {}, ("N", 8, None, None)),
        ("MaxPool", [("N", "C", "H", 9)], {"kernel_shape": [3, 3], "strides": [2, 2]}, ("N", "C", None, 4)),
        ("GlobalAveragePool", [("N", "C", "H", "W")], {}, ("N", "C", 1, 1)),
        ("ConvTranspose", [("N", 8, "H", 4), (8, 2, 2, 2)], {"strides": [2, 2]}, ("N", 2, None, 8)),
        ("MatMul", [("N", "S", 8), (8, 4)], {}, ("N", "S", 4)),
        ("MatMul", [("N", "S", "K"), ("N", "K", "T")], {}, ("N", "S", "T")),
        ("MatMul", [("K",), ("K",)], {}, ()),
        ("Gemm", [("N", 8), (4, 8), (4,)], {"transB": 1}, ("N", 4)),
        ("Flatten", [("N", 2, 3, 4)], {}, ("N", 24)),
        ("Flatten", [("N", "C", 1, 1)], {}, ("N", "C")),
        ("Flatten", [("N", "C", 3)], {}, ("N", None)),
        ("Transpose", [("N", 2, "S")], {"perm": [2, 0, 1]}, ("S", "N", 2)),
        ("Concat", [("N", 2), ("N", 3)], {"axis": 1}, ("N", 5)),
        ("Concat", [("N", 2), ("M", 2)], {"axis": 0}, (None, 2)),
        ("Concat", [("N", None), ("N", 3)], {"axis": 0}, (None, 3)),
        ("Slice", [("N", "S"), ints(0), ints(2**63 - 1), ints(1)], {}, ("N", "S")),
        ("Slice", [("N", "S"), ints(1), ints(2**63 - 1), ints(1)], {}, ("N", None)),
        ("Slice", [("N", 9), ints(-1), ints(-(2**63)), ints(1), ints(-1)], {}, ("N", 9)),
        ("Slice", [("N", 9), TensorType(I64, (1,)), TensorType(I64, (1,)), ints(1)], {}, ("N", None)),
        ("Gather", [("V", 8), TensorType(I64, ("N", "S"))], {}, ("N", "S", 8)),
        ("Expand", [("N", 1), ints(1, 7)], {}, ("N", 7)),
        ("Tile", [("N", 3), ints(1, 2)], {}, ("N", 6)),
        ("Pad", [("N", 3), ints(0, 1, 0, 1)], {}, ("N", 5)),
        ("Resize", [("N", 3, "H", 8), None, np.array([1, 1, 1, 2], np.float32)], {}, ("N", 3, "H", 16)),
        ("ReduceMean", [("N", "C", "H"), ints(-1)], {"keepdims": 0}, ("N", "C")),
        ("ReduceSum", [("N", "C"), TensorType(I64, (1,))], {"keepdims": 0}, (None,)),
        ("Squeeze", [("N", 1, "S"), ints(1)], {}, ("N", "S")),
        ("Squeeze", [("N", 1)], {}, None),
        ("Unsqueeze", [("N", "S"), ints(0, -1)], {}, (1, "N", "S", 1)),
        ("Einsum", [("B", "Q", 8), ("B", "K", 8)], {"equation": "bqd,bkd->bqk"}, ("B", "Q", "K")),
        ("Softmax", [("N", "S")], {}, ("N", "S")),
        ("LayerNormalization", [("N", "S", 8), (8,)], {}, ("N", "S", 8)),
        ("DepthToSpace", [("N", 8, "H", 3)], {"blocksize": 2}, ("N", 2, None, 6)),
        ("ScatterND", [("N", 4), TensorType(I64, (None, 1)), (None, 4)], {}, ("N", 4)),
        ("NonZero", [("N", 4)], {}, (2, None)),
        ("OneHot", [("N",), ints(10), np.array([0, 1], np.float32)], {}, ("N", 10)),
        ("Range", [np.array(2.0), np.array(9.0), np.array(3.0)], {}, (3,)),
        ("Range", [TensorType(I64, ()), TensorType(I64, ()), TensorType(I64, ())], {}, (None,)),
        ("GlobalLpPool", [("N", 3, 5, 5)], {}, ("N", 3, 1, 1)),
        ("MaxRoiPool", [(1, 3, 9, 9), ("R", 5)], {"pooled_shape": [2, 2]}, ("R", 3, 2, 2)),
        ("Multinomial", [("N", 9)], {"sample_size": 4}, ("N", 4)),
        ("RandomNormal", [], {"shape": [2, 3]}, (2, 3)),
        ("RandomUniform", [], {"shape": [2]}, (2,)),
        ("RandomNormalLike", [("N", 2)], {}, ("N", 2)),
        ("RandomUniformLike", [("N", 2)], {}, ("N", 2)),
    ],
)
def test_symbols_pass_through(op: str, operands: list[Any], attrs: dict[str, Any], expected: Shape | None) -> None:
    assert shape_of(op, *operands, **attrs) == expected


def test_top_k() -> None:
    assert shape_of("TopK", ("N", 100), ints(5), outputs=2) == [("N", 5), ("N", 5)]
    with pytest.raises(ShapeError, match="k must be 0 to 3, the size of axis 0"):
        shape_of("TopK", (3,), ints(5), outputs=2, axis=0)


def test_attention_of_packed_heads() -> None:
    q, kv, past = ("B", "Q", 32), ("B", "K", 16), ("B", 2, "P", 8)
    attrs = {"q_num_heads": 4, "kv_num_heads": 2}
    assert shape_of("Attention", q, kv, kv, **attrs) == ("B", "Q", 32)
    shapes = shape_of("Attention", q, kv, kv, None, past, past, outputs=4, **attrs)
    assert shapes == [("B", "Q", 32), ("B", 2, None, 8), ("B", 2, None, 8), ("B", 4, "Q", None)]
    with pytest.raises(ShapeError, match="'q_num_heads' and 'kv_num_heads' must be stated"):
        shape_of("Attention", q, kv, kv)


def test_recurrent_layers() -> None:
    x, w, r = ("S", "N", 5), (2, 28, 5), (2, 28, 7)
    shapes = shape_of("LSTM", x, w, r, outputs=3, hidden_size=7, direction="bidirectional")
    assert shapes == [("S", 2, "N", 7), (2, "N", 7), (2, "N", 7)]
    with pytest.raises(ShapeError, match="rows of the weights must be equal, found 21 and 28"):
        shape_of("GRU", x, w, r, hidden_size=7, direction="bidirectional")


# ---- sequences and optionals -------------------------------------------------------------------------------


def test_sequences() -> None:
    graph = Graph()
    a, b = graph.add_input("a", f32("N", 2)), graph.add_input("b", f32(3, 2))
    position = graph.constant(np.array(0))
    made = graph.node("SequenceConstruct", [a, b]).output
    nodes = {
        "at": graph.node("SequenceAt", [made, position]),
        "erased": graph.node("SequenceErase", [made]),
        "inserted": graph.node("SequenceInsert", [made, a]),
        "length": graph.node("SequenceLength", [made]),
        "joined": graph.node("ConcatFromSequence", [made], {"axis": 0}),
        "stacked": graph.node("ConcatFromSequence", [made], {"axis": 0, "new_axis": 1}),
        "empty": graph.node("SequenceEmpty", []),
        "optional": graph.node("Optional", [a]),
        "nothing": graph.node("Optional", [], {"type": f32(2)}),
    }
    got = graph.node("OptionalGetElement", [nodes["optional"].output])
    infer_graph(graph)
    assert made.type == SequenceType(f32(None, 2))
    assert {name: node.output.type for name, node in nodes.items()} == {
        "at": f32(None, 2),
        "erased": SequenceType(f32(None, 2)),
        "inserted": SequenceType(f32(None, 2)),
        "length": TensorType(I64, ()),
        "joined": f32(None, 2),
        "stacked": f32(None, None, 2),
        "empty": SequenceType(TensorType(F32, None)),
        "optional": OptionalType(f32("N", 2)),
        "nothing": OptionalType(f32(2)),
    }
    assert got.output.type == f32("N", 2)


# ---- control flow and fused bodies -------------------------------------------------------------------------


def relu_body(declared: TensorType | None = None) -> Graph:
    body = Graph("body")
    body.add_output(body.node("Relu", [body.add_input("x", declared)]).output)
    return body


def test_fused_nodes_have_the_types_of_their_body() -> None:
    graph = Graph()
    x = graph.add_input("x", f32(2, 3))
    body = relu_body(f32("N", 3))
    infer_graph(body)
    node = graph.node("Fused", [x], {"kind": "pointwise", "rule": "r@1", "body": body})
    infer_node(node)
    assert node.output.type == f32("N", 3)
    for keep in (True, False):
        node.output.type = None
        infer_node(node, bodies=True, keep_bodies=keep)
        assert node.output.type == f32(2, 3)
        assert (node.body is body) == keep
    assert body.outputs[0].type == f32("N", 3), "the body is shared between copies of a graph and must stay as it was"


def test_if_gives_what_both_branches_agree_on() -> None:
    graph = Graph()
    condition, x = graph.add_input("c", TensorType(BOOL, ())), graph.add_input("x", f32("N", 4))
    other = Graph("else")
    y = other.add_input("x", None)
    other.add_output(other.node("Concat", [y, y], {"axis": 0}).output)
    node = graph.node("If", [condition, x], {"then_branch": relu_body(), "else_branch": other, "captures": 1})
    infer_node(node, bodies=True)
    assert node.output.type == f32(None, 4)


def test_a_branch_for_other_sizes_does_not_matter() -> None:
    graph = Graph()
    condition, x = graph.add_input("c", TensorType(BOOL, ())), graph.add_input("x", f32(2, 4))
    other = Graph("else")
    y = other.add_input("x", None)
    added = other.node("Add", [y, other.constant(np.zeros(9, np.float32))], outputs=[f32(2, 9)])
    other.add_output(added.output)
    node = graph.node("If", [condition, x], {"then_branch": relu_body(), "else_branch": other, "captures": 1})
    infer_node(node, bodies=True)
    assert node.output.type == f32(2, None)
    assert node.attrs["else_branch"] is other


def test_loop_generalises_what_grows() -> None:
    graph = Graph()
    x = graph.add_input("x", f32(1, 4))
    body = Graph("body")
    body.add_input("i", None)
    condition, carried, captured = (body.add_input(n, None) for n in ("c", "v", "k"))
    grown = body.node("Concat", [carried, captured], {"axis": 0}).output
    for value in (condition, grown, captured):
        body.add_output(value)
    trips = graph.constant(np.array(3))
    node = graph.node("Loop", [trips, None, x, x], {"body": body, "captures": 1}, outputs=2)
    infer_node(node, bodies=True)
    assert [v.type for v in node.outputs] == [f32(None, 4), f32(None, 1, 4)]


def test_scan_slices_and_stacks() -> None:
    graph = Graph()
    state, sequence = graph.add_input("s", f32("N", 4)), graph.add_input("x", f32("N", "T", 4))
    body = Graph("body")
    s, x = body.add_input("s", None), body.add_input("x", None)
    total = body.node("Add", [s, x]).output
    body.add_output(total)
    body.add_output(total)
    attrs = {"body": body, "num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [1]}
    node = graph.node("Scan", [state, sequence], attrs, outputs=2)
    infer_node(node, bodies=True)
    assert [v.type for v in node.outputs] == [f32("N", 4), f32("N", "T", 4)]


def test_symbols_of_a_body_stay_inside() -> None:
    graph = Graph()
    condition = graph.add_input("c", TensorType(BOOL, ()))
    x = graph.add_input("x", f32(None, 4))
    branches = {name: relu_body(f32("N", 4)) for name in ("then_branch", "else_branch")}
    for body in branches.values():
        infer_graph(body)
    node = graph.node("If", [condition, x], {**branches, "captures": 1})
    infer_node(node)
    assert node.output.type == f32(None, 4)


# ---- merging -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (None, f32(1), f32(1)),
        (f32("N", None), f32(None, 3), f32("N", 3)),
        (f32("N"), f32(4), f32(4)),
        (f32("N"), f32("M"), f32("N")),
        (TensorType(F32, None), f32(1), f32(1)),
        (SequenceType(f32(None)), SequenceType(f32(2)), SequenceType(f32(2))),
        (OptionalType(f32(None)), OptionalType(f32(2)), OptionalType(f32(2))),
    ],
)
def test_merge(a: Any, b: Any, expected: Any) -> None:
    assert merge_types(a, b) == expected


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (f32(2), f32(3), r"f32\[2\] and f32\[3\] contradict on axis 0"),
        (f32(2), f32(2, 2), "ranks differ"),
        (f32(2), TensorType(I64, (2,)), r"f32\[2\] and i64\[2\] contradict"),
        (f32(2), SequenceType(f32(2)), r"f32\[2\] and seq\(f32\[2\]\) contradict"),
    ],
)
def test_merge_names_both(a: Any, b: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        merge_types(a, b)


def test_more_precise_given_types_are_kept_and_contradictions_told() -> None:
    graph = Graph()
    x = graph.add_input("x", f32("N", 4))
    node = graph.node("NonZero", [x], outputs=[TensorType(I64, (None, 7))], name="n")
    infer_node(node)
    assert node.output.type == TensorType(I64, (2, 7))
    wrong = graph.node("Relu", [x], outputs=[f32(1, 5)], name="r")
    with pytest.raises(ShapeError, match=r"Relu 'r': result 'r' was given as f32\[1, 5\] and inferred as f32\[N, 4\]"):
        infer_node(wrong)


def test_unknown_operators_leave_types_alone() -> None:
    graph = Graph()
    x = graph.add_input("x", f32(2))
    node = graph.node("my::Thing", [x], outputs=[f32(9), None])
    infer_node(node)
    assert [v.type for v in node.outputs] == [f32(9), None]
    after = graph.node("Add", [node.outputs[1], x])
    infer_node(after)
    assert after.output.type == TensorType(F32, None)


# ---- messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "message"),
    [
        ("Add", [(2, 3), (2, 4)], {}, r"Add 'Add': shapes \[2, 3\] and \[2, 4\] do not broadcast on axis -1"),
        ("Add", [(2,), TensorType(I64, (2,))], {}, "must have one element type, found f32 and i64"),
        ("MatMul", [(2, 3), (4, 5)], {}, r"inner dims of \[2, 3\] and \[4, 5\] must be equal"),
        ("Gemm", [(2, 3), (4, 5)], {}, "inner dims must be equal, found 3 and 4"),
        ("Gemm", [(2, 3), (3, 5), (4, 5)], {}, r"do not broadcast|operand C"),
        ("Conv", [(1, 3, 8, 8), (8, 4, 3, 3)], {}, "input channels and weight channels times group 1 must be equal"),
        ("Conv", [(1, 4, 8, 8), (9, 2, 3, 3)], {"group": 2}, "output channels must be a multiple of 2, found 9"),
        ("Conv", [(1, 3, 2, 2), (8, 3, 5, 5)], {}, "a window of 5 does not fit an axis of 2"),
        ("ConvTranspose", [(1, 3, 2), (3, 8, 2)], {"pads": [2, 2]}, "pads take 4 from an axis of 3"),
        ("Conv", [(1, 3, 8, 8), (8, 3, 3, 3)], {"pads": [1, 1]}, r"'pads' must have 4 entries, found \[1, 1\]"),
        ("Conv", [(1, 3, 8, 8), (8, 3, 3, 3)], {"auto_pad": "SAME"}, "'auto_pad' must be NOTSET"),
        ("Concat", [(2, 3), (2, 3)], {"axis": 2}, "axis 2 is out of range, expected -2 to 1 for 2 axes"),
        ("Concat", [(2, 3), (3, 3)], {"axis": 1}, "dims of operands beside axis 1 must be equal, found 2 and 3"),
        ("Reshape", [(2, 3), ints(4, -1)], {}, r"\[2, 3\] cannot be reshaped to \[4, -1\]"),
        ("Reshape", [(2, 3), ints(7)], {}, r"\(6 elements\) cannot be reshaped to \[7\] \(7 elements\)"),
        ("Reshape", [(2, 3), ints(-1, -1)], {}, "may hold one -1"),
        ("Transpose", [(2, 3)], {"perm": [0, 0]}, r"'perm' \[0, 0\] is not a permutation"),
        ("Squeeze", [(2, 3), ints(0)], {}, "has 2 elements, expected 1"),
        ("Expand", [(2, 3), ints(2, 4)], {}, "do not broadcast"),
        ("Split", [(5,), ints(2, 2)], {}, "there are 2 split sizes for 1 outputs"),
        ("Einsum", [(2, 3)], {"equation": "ijk->i"}, r"term 'ijk' does not fit operand 0 \[2, 3\]"),
        ("Resize", [(1, 1, 2, 2)], {}, "exactly one of scales and sizes must be given, found neither"),
        ("Where", [(2,), (2,), (2,)], {}, "the condition must be bool, found f32"),
        ("Cast", [(2,)], {"to": 1}, "'to' must be an element type, found 1"),
        ("BatchNormalization", [(1, 3, 2, 2), (4,), (4,), (4,), (4,)], {}, "must be equal, found 3 and 4"),
    ],
)
def test_messages(op: str, operands: list[Any], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        shape_of(op, *operands, **attrs)


# ---- work --------------------------------------------------------------------------------------------------


def node_of(op: str, *shapes: tuple[int, ...] | np.ndarray, **attrs: Any) -> Any:
    graph = Graph()
    values = [graph.constant(s) if isinstance(s, np.ndarray) else graph.add_input("x", f32(*s)) for s in shapes]
    node = graph.node(op, values, attrs)
    infer_node(node)
    return node


def test_work_counts_a_multiply_add_as_two() -> None:
    conv = node_of("Conv", (1, 64, 56, 56), (128, 32, 3, 3), group=2, pads=[1, 1, 1, 1])
    assert work(conv).flops == 2 * 128 * 56 * 56 * 32 * 9
    assert work(conv).bytes_read == 4 * (64 * 56 * 56 + 128 * 32 * 9)
    assert work(conv).bytes_written == 4 * 128 * 56 * 56
    assert work(node_of("MatMul", (5, 2, 3), (3, 7))).flops == 2 * 5 * 2 * 3 * 7
    assert work(node_of("Gemm", (2, 3), (7, 3), transB=1)).flops == 2 * 2 * 3 * 7
    assert work(node_of("Einsum", (2, 3), (3, 4), equation="ij,jk->ik")).flops == 2 * 2 * 3 * 4
    transposed = node_of("ConvTranspose", (1, 8, 4, 4), (8, 2, 3, 3), strides=[2, 2])
    assert work(transposed).flops == 2 * 8 * 16 * 2 * 9
    lstm = node_of("LSTM", (10, 2, 5), (1, 28, 5), (1, 28, 7), hidden_size=7)
    assert work(lstm).flops == 10 * 2 * 28 * (2 * (5 + 7) + 4)
    attention = node_of("Attention", (1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 4))
    assert work(attention).flops == 2 * 3 * 5 * (2 * (8 + 4) + 5)


def test_work_of_pointwise_and_movement() -> None:
    add = work(node_of("Add", (4, 8), (8,)))
    assert (add.flops, add.bytes_read, add.bytes_written) == (32, 4 * 40, 4 * 32)
    assert work(node_of("Sum", (8,), (8,), (8,))).flops == 16
    assert work(node_of("Erf", (8,))).transcendentals == 8
    gathered = work(node_of("Gather", (1000, 8), np.zeros(2, np.int64)))
    assert gathered.bytes_read == 2 * 8 * 4 + 2 * 8  # two rows of the table, and the indices
    assert gathered.bytes_written == 2 * 8 * 4
    assert work(node_of("Reshape", (4, 8), ints(32))).bytes_read == 0


def test_work_of_a_fused_node_has_the_arithmetic_of_the_body_and_its_own_traffic() -> None:
    graph = Graph()
    x = graph.add_input("x", f32(4, 8))
    body = Graph("body")
    inner = body.add_input("x", f32(4, 8))
    first = body.node("Exp", [inner]).output
    body.add_output(body.node("Mul", [first, inner]).output)
    infer_graph(body)
    node = graph.node("Fused", [x], {"kind": "pointwise", "rule": "r@1", "body": body})
    infer_node(node)
    found = work(node)
    assert (found.flops, found.transcendentals) == (32, 32)
    assert (found.bytes_read, found.bytes_written) == (128, 128)
