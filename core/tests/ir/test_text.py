"""The text form: what it looks like, that it round-trips, and what its errors say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from autofusion.errors import GraphError
from autofusion.ir import Graph, OptionalType, SequenceType, TensorType, Type, Value
from autofusion.ir.dtypes import dtype_from_name, dtype_name
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, digest, from_text, to_text

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)


def sample() -> Graph:
    """A graph with about everything that the form can say."""
    graph = Graph("net")
    x = graph.add_input("x", TensorType(F32, ("N", 3, 8, None)))
    scale = graph.add_input(
        "in/scale:0", TensorType(F32, (3, 1, 1)), np.array([1, 2, 0.1], np.float32).reshape(3, 1, 1)
    )
    weights = graph.constant(np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3, 1, 1), "w")
    low = graph.constant(np.array(0, np.float32), "low")
    scaled = graph.node("Mul", [x, scale], name="mul", origin=["model/mul"])
    conv = graph.node("Conv", [scaled.output, weights], {"strides": [1, 1], "auto_pad": "SAME_UPPER"}, name="conv")
    body = Graph("body")
    inner = body.add_input("v", None)
    clipped = body.node("Clip", [inner, None, body.constant(np.array(6, np.float32))])
    body.add_output(clipped.output)
    fused = graph.node("Fused", [conv.output], {"kind": "pointwise", "rule": "pointwise.chain@1", "body": body})
    cast = graph.node("Cast", [fused.output], {"to": np.dtype(np.float16)})
    graph.node("my.domain::Thing", [cast.output, low], {"alpha": 0.1, "a list": [1.5, 2.5]}, outputs=2)
    graph.add_output(cast.output, "y")
    graph.add_output(low, "low bound")
    infer_graph(graph, bodies=True)
    return graph


CANONICAL = """\
graph @net(%x: f32[N, 3, 8, ?], %"in/scale:0": f32[3, 1, 1] = dense<[[[1.0]], [[2.0]], [[0.1]]]> : f32[3, 1, 1]) -> \
(y: f16[N, 8, 8, ?], "low bound": f32[]) {
  %c0 = constant dense<sha256:2df8e7e7> : f32[8, 3, 1, 1]
  %c1 = constant dense<0.0> : f32[]
  %0 = Mul(%x, %"in/scale:0") : f32[N, 3, 8, ?]
  %1 = Conv(%0, %c0) {auto_pad = "SAME_UPPER", strides = [1, 1]} : f32[N, 8, 8, ?]
  %2 = Fused(%1) {kind = "pointwise", rule = "pointwise.chain@1"} : f32[N, 8, 8, ?] {
    body = graph(%i0: f32[N, 8, 8, ?]) -> (f32[N, 8, 8, ?]) {
      %c0 = constant dense<6.0> : f32[]
      %0 = Clip(%i0, _, %c0) : f32[N, 8, 8, ?]
      return %0
    }
  }
  %3 = Cast(%2) {to = f16} : f16[N, 8, 8, ?]
  %4, %5 = my.domain::Thing(%3, %c1) {"a list" = [1.5, 2.5], alpha = 0.1} : ?, ?
  return %3, %c1
}
"""


def test_canonical_form() -> None:
    assert to_text(sample()) == CANONICAL.replace("2df8e7e7", digest(sample().constants()[0].const))  # type: ignore[arg-type]


def test_names_and_origins_on_request() -> None:
    lines = to_text(sample(), with_names=True).splitlines()
    assert lines[1].startswith("  %w = constant ")
    assert lines[3] == '  %mul = Mul(%x, %"in/scale:0") : f32[N, 3, 8, ?] @ "mul" from ["model/mul"]'
    assert any(line.startswith("    body = graph @body(%v: f32[N, 8, 8, ?]) -> (Clip: ") for line in lines)


@pytest.mark.parametrize("with_names", [False, True])
def test_round_trip_of_the_sample(with_names: bool) -> None:
    text = to_text(sample(), with_names=with_names)
    constants = SeededConstants()
    back = from_text(text, constants)
    assert to_text(back, with_names=with_names, aliases=constants.aliases) == text
    assert [v.name for v in back.inputs] == ["x", "in/scale:0"]
    assert back.output_names == ["y", "low bound"]


def test_equal_graphs_have_equal_text_whatever_their_names() -> None:
    def build(prefix: str) -> Graph:
        graph = Graph("g")
        x = graph.add_input("x", TensorType(F32, (2,)))
        y = graph.node("Relu", [x], name=f"{prefix}_relu", origin=[prefix])
        graph.add_output(graph.node("Exp", [y.output], name=f"{prefix}_exp").output, "y")
        return graph

    assert to_text(build("a")) == to_text(build("b"))


def test_results_do_not_take_the_names_of_inputs() -> None:
    graph = Graph("g")
    first, second = graph.add_input("0", TensorType(F32, (2,))), graph.add_input("c0", TensorType(F32, (2,)))
    added = graph.node("Add", [first, second])
    graph.add_output(graph.node("Mul", [added.output, graph.constant(np.float32([1, 2]))]).output, "y")
    text = to_text(graph)
    assert "%1 = Add(%0, %c0)" in text and "%2 = Mul(%1, %c1)" in text
    assert to_text(from_text(text)) == text


# ---- digests -----------------------------------------------------------------------------------------------

WITH_DIGEST = """
// a comment
graph @g(%x: f32[1, 32]) -> (y: f32[1, 4]) {
  %w = constant dense<sha256:00000001> : f32[32, 4]  // another
  %m = MatMul(%x, %w)
  return %m
}
"""


def test_seeded_constants_are_reproducible_and_keep_their_digest() -> None:
    first, second = SeededConstants(), SeededConstants()
    a, b = from_text(WITH_DIGEST, first), from_text(WITH_DIGEST, second)
    (data,), (again,) = ([v.const for v in g.constants()] for g in (a, b))
    assert data is not None and again is not None
    assert np.array_equal(data, again) and 0.01 < np.abs(data).mean() < 1
    infer_graph(a)
    assert "%c0 = constant dense<sha256:00000001> : f32[32, 4]" in to_text(a, aliases=first.aliases)
    assert "sha256:00000001" not in to_text(a)


def test_digests_are_looked_up_in_given_constants() -> None:
    data = np.arange(128, dtype=np.float32).reshape(32, 4)
    graph = from_text(WITH_DIGEST, {"00000001": data})
    assert np.array_equal(graph.constants()[0].const, data)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"line 4: .*no data was given for digest 00000001"):
        from_text(WITH_DIGEST)
    with pytest.raises(GraphError, match=r"the data given for digest 00000001 is float32\[4, 32\]"):
        from_text(WITH_DIGEST, {"00000001": data.T})


# ---- round trips of anything -------------------------------------------------------------------------------

ELEMENT_TYPES = (
    "f16 f32 f64 bf16 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 "
    "i8 i16 i32 i64 u8 u16 u32 u64 i4 u4 i2 u2 f4e2m1 bool c64 c128 str"
).split()
names = st.text(min_size=1, max_size=6) | st.sampled_from(["x", "y.1", "a/b:0", "0", "c0", "N", "_"])
dims = st.integers(0, 99) | st.sampled_from(["N", "batch size", "2*N", "?"]) | st.none()


@st.composite
def tensors(draw: st.DrawFn) -> np.ndarray:
    dtype = dtype_from_name(draw(st.sampled_from(ELEMENT_TYPES)))
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    count = int(np.prod(shape))
    if dtype.kind == "O":
        return np.array(draw(st.lists(st.text(max_size=4), min_size=count, max_size=count)), object).reshape(shape)
    short = dtype_name(dtype)
    if dtype.kind in "fc" or short.startswith(("f8", "bf")):  # any bits at all, signalling NaNs among them
        size = count * dtype.itemsize
        return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)
    low, high = {"i4": (-8, 7), "u4": (0, 15), "i2": (-2, 1), "u2": (0, 3), "bool": (0, 1), "f4e2m1": (0, 1)}.get(
        short, (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (0, 1)
    )
    values = draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    return np.array([np.array(v).astype(dtype) for v in values], dtype).reshape(shape)


types = st.recursive(
    st.builds(
        TensorType,
        st.sampled_from(ELEMENT_TYPES).map(dtype_from_name),
        st.none() | st.lists(dims, max_size=3).map(tuple),
    ),
    lambda inner: st.builds(SequenceType, inner) | st.builds(OptionalType, inner),
    max_leaves=2,
)
numbers = st.floats(allow_nan=False) | st.integers(-(2**63), 2**63 - 1) | st.booleans()
attributes = (
    numbers
    | st.text(max_size=8)
    | st.none()
    | st.lists(numbers | st.text(max_size=4), max_size=4)
    | st.sampled_from(ELEMENT_TYPES).map(dtype_from_name)
    | types
    | tensors()
)


@st.composite
def graphs(draw: st.DrawFn, depth: int = 1) -> Graph:
    graph = Graph(draw(names))
    pool: list[Value | None] = [None]
    for name in draw(st.lists(names, max_size=3, unique=True)):
        default = draw(st.none() | tensors())
        pool.append(graph.add_input(name, draw(st.none() | types), default))
    pool += [graph.constant(draw(tensors()), draw(names)) for _ in range(draw(st.integers(0, 2)))]
    for _ in range(draw(st.integers(0, 4))):
        attrs: dict[str, Any] = draw(st.dictionaries(names, attributes, max_size=3))
        if depth and draw(st.booleans()):
            attrs[draw(names)] = draw(graphs(depth=depth - 1))
        node = graph.node(
            draw(st.sampled_from(["Relu", "Add", "com.x::Op", "odd name"])),
            draw(st.lists(st.sampled_from(pool), max_size=3)),
            attrs,
            outputs=draw(st.lists(st.none() | types, max_size=2)),
            name=draw(names),
            origin=draw(st.lists(names, max_size=2)),
        )
        pool += node.outputs
    for value in pool[1:]:
        if value is not None and draw(st.booleans()):
            graph.add_output(value, draw(names))
    return graph


def assert_same(a: Graph, b: Graph, path: str = "") -> None:
    """Equal structure, types, attributes and bits; names only where callers see them."""
    values: dict[Value | None, Value | None] = {None: None}

    def pair(x: Value | None, y: Value | None) -> None:
        if x in values:
            assert values[x] is y
            return
        assert x is not None and y is not None and x.type == y.type
        values[x] = y
        assert (x.const is None) == (y.const is None)
        if x.const is not None and y.const is not None:
            assert_equal(x.const, y.const)

    assert len(a.inputs) == len(b.inputs) and len(a) == len(b)
    for x, y in zip(a.inputs, b.inputs, strict=True):
        pair(x, y)
        if not path:
            assert x.name == y.name
        assert_equal(x.default, y.default)
    for m, n in zip(a.nodes, b.nodes, strict=True):
        assert m.op == n.op
        assert set(m.attrs) == set(n.attrs)
        for key in m.attrs:
            assert_equal(m.attrs[key], n.attrs[key])
        for x, y in zip(m.inputs, n.inputs, strict=True):
            pair(x, y)
        for x, y in zip(m.outputs, n.outputs, strict=True):
            pair(x, y)
    for x, y in zip(a.outputs, b.outputs, strict=True):
        pair(x, y)
    if not path:
        assert a.output_names == b.output_names


def assert_equal(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, Graph):
        assert_same(a, b, "inner")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tolist() == b.tolist() if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    elif isinstance(a, list):
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    else:
        assert a == b


def constants_of(graph: Graph) -> dict[str, np.ndarray]:
    """Everything that may be printed as a digest, by digest."""
    found = [v.const for v in graph.constants()] + [v.default for v in graph.inputs]
    for node in graph.nodes:
        found += [a for a in node.attrs.values() if isinstance(a, np.ndarray)]
    result = {digest(a): a for a in found if a is not None}
    for node in graph.nodes:
        for attr in node.attrs.values():
            if isinstance(attr, Graph):
                result |= constants_of(attr)
    return result


def has_clash(graph: Graph) -> bool:
    """True if two large tensors of different types have the same bytes, which no digest can tell apart."""
    seen: dict[str, tuple[Any, ...]] = {}
    stack = [graph]
    while stack:
        current = stack.pop()
        found = [v.const for v in current.constants()] + [v.default for v in current.inputs]
        for node in current.nodes:
            found += [a for a in node.attrs.values() if isinstance(a, np.ndarray)]
            stack += [a for a in node.attrs.values() if isinstance(a, Graph)]
        for array in found:
            if array is not None and seen.setdefault(digest(array), (array.dtype, array.shape)) != (
                array.dtype,
                array.shape,
            ):
                return True
    return False


@given(graphs())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_graph_round_trips(graph: Graph) -> None:
    if has_clash(graph):
        return
    constants = constants_of(graph)
    for with_names in (False, True):
        text = to_text(graph, with_names=with_names)
        back = from_text(text, constants)
        assert to_text(back, with_names=with_names) == text
        assert_same(graph, back)
        if with_names:
            assert [(n.name, n.origin) for n in graph.nodes] == [(n.name, n.origin) for n in back.nodes]


@settings(deadline=None)
@given(st.floats(allow_nan=False), st.floats(allow_nan=False, width=32), st.floats(allow_nan=False, width=16))
def test_floats_keep_every_bit(double: float, single: float, half: float) -> None:
    graph = Graph("g")
    data = [np.array([double]), np.array([single], np.float32), np.array([half], np.float16)]
    graph.node("Op", [graph.constant(d) for d in data], {"alpha": double})
    (node,) = from_text(to_text(graph)).nodes
    assert np.float64(node.attrs["alpha"]).tobytes() == np.float64(double).tobytes()
    assert [v.const.tobytes() for v in node.inputs] == [d.tobytes() for d in data]  # type: ignore[union-attr]


def test_tuples_and_numpy_scalars_read_back_as_lists_and_numbers() -> None:
    graph = Graph("g")
    graph.node("Op", [], {"pads": (1, np.int64(2)), "alpha": np.float32(0.5), "on": np.bool_(True)})
    (node,) = from_text(to_text(graph)).nodes
    assert node.attrs == {"pads": [1, 2], "alpha": 0.5, "on": True}


def test_special_floats() -> None:
    graph = Graph("g")
    data = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    graph.node("Op", [graph.constant(data)], {"low": -np.inf, "high": np.inf, "none": np.nan})
    text = to_text(graph)
    assert "dense<[nan, inf, -inf, -0.0]> : f32[4]" in text
    assert "{high = inf, low = -inf, none = nan}" in text
    (node,) = from_text(text).nodes
    assert node.attrs["low"] == -np.inf and node.attrs["none"] != node.attrs["none"]
    assert node.inputs[0] is not None and node.inputs[0].const is not None
    assert node.inputs[0].const.tobytes() == data.tobytes()


def test_an_attribute_without_text_form_is_named() -> None:
    graph = Graph("g")
    graph.node("Op", [], {"thing": object()}, name="n")
    with pytest.raises(GraphError, match="Op 'n': attribute 'thing' of type object has no text form"):
        to_text(graph)


# ---- errors ------------------------------------------------------------------------------------------------


def body(*lines: str) -> str:
    return "graph @g(%x: f32[2]) -> (y: f32[2]) {\n" + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'graph', found the end of the text"),
        ("graph g() -> () { return }", r"line 1: expected '\(', found 'g'"),
        (body("%0 = Relu(%x : f32[2]", "return %0"), "line 2: expected ',', found ':'"),
        (body("%0 = Relu(%z) : f32[2]", "return %0"), "line 2: %z is used before it is defined"),
        (body("%0 = Relu(%x) : f32[2]", "%0 = Relu(%x) : f32[2]", "return %0"), "line 3: %0 is already defined"),
        (body("%0 = Relu(%x) : f33[2]", "return %0"), "line 2: unknown element type 'f33'; did you mean"),
        (body("%0 = Relu(%x) : f32[2], f32[2]", "return %0"), "line 2: expected 1 types, one for each result, found 2"),
        (body("%0 = Relu(%x) : f32[-1]", "return %0"), "line 2: expected a dim, found '-1'"),
        (body("%0 = Relu(%x) {alpha = } : f32[2]", "return %0"), "line 2: expected an attribute value, found '}'"),
        (body("%0 = Relu(%x) {alpha 1} : f32[2]", "return %0"), "line 2: expected '=', found '1'"),
        (body("%c = constant dense<[1.0]> : f32[2]", "return %x"), "line 2: .* expected 2 elements .*, found 1"),
        (body("%c = constant dense<[1.5, 2]> : i8[2]", "return %x"), "line 2: not a tensor of type i8"),
        (body("%c = constant dense<[300, 2]> : i8[2]", "return %x"), "line 2: not a tensor of type i8"),
        (body("%c = constant dense<[1, 2]> : i8[N]", "return %x"), "line 2: a tensor must have a static type"),
        (body("%0 = Relu(%x) : f32[3]", "return %0"), r"line 4: output 0 was declared f32\[2\], but %0 is f32\[3\]"),
        (body("%0 = Relu(%x) : f32[2]", "%1"), "line 4: expected '=', found '}'"),
        (body("return %x, %x"), "line 2: expected '}', found ','"),
        (body("%0 = Relu(%x) : f32[2] # note", "return %0"), "line 2: unexpected character '#'"),
        (body("return %x") + "graph", "line 4: expected the end of the text, found 'graph'"),
    ],
)
def test_errors_name_the_line_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        from_text(text)


def test_types_may_be_left_out_and_inferred() -> None:
    graph = from_text(body("%r = Relu(%x)", "%e = Exp(%r)", "return %e"))
    infer_graph(graph)
    expected: Type = TensorType(F32, (2,))
    assert graph.outputs[0].type == expected
    assert to_text(graph) == body("  %0 = Relu(%x) : f32[2]", "  %1 = Exp(%0) : f32[2]", "  return %1")
