"""Control flow, files and forms of models: fresh variations of the traps of ``tests/cases``.

Bodies see values of the graph around them, weights lie in other files, nodes are functions of the model itself. The
numbers are those of the cases.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import autofusion as af
from autofusion.errors import AutofusionError, KernelError, ModelError
from tests.fuzz.trap_models import (
    F32,
    LEVELS,
    Trap,
    Traps,
    agree,
    bn,
    bn_consts,
    by_onnxruntime,
    f32,
    i64,
    node,
    subgraph,
    typed,
)

TRAPS = Traps()
traps = TRAPS.register
TRUE = np.array(True)


def _loop(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    **consts: np.ndarray,
) -> onnx.GraphProto:
    return helper.make_graph(
        nodes,
        "body",
        [typed("i", np.int64), typed("go", np.bool_), *inputs],
        [typed("go2", np.bool_), *outputs],
        [numpy_helper.from_array(d, n) for n, d in consts.items()],
    )


# ---- 057, 058: Loop ----------------------------------------------------------------------------------------------


@traps(
    "scan_of_capture",
    "carried",
    "no_trip_count",
    "zero_trips",
    "condition",
    "nested",
    "captured_weights",
    "shadowing",
    "iteration",
    "trips_fed",
    "state_is_capture",
)
def loop(kind: str) -> Trap:
    feeds = {"x": f32(2, 3)}
    consts: dict[str, np.ndarray] = {"n": np.array(3, np.int64), "t": TRUE, "w": f32(3, 3), "k": np.array(4, np.int64)}
    go = node("Identity", "go", "go2")
    before = [node("Relu", "x", "h")]
    state, result = typed("s", F32, 2, 3), typed("s2", F32, 2, 3)
    if kind == "scan_of_capture":
        body = _loop([go, node("Cast", "i", "f", to=1), node("Mul", "h f", "o")], [], [typed("o", F32, 2, 3)])
        return Trap([*before, node("Loop", "n t", "y", body=body), node("Relu", "y", "z")], feeds, consts, "y z")
    if kind == "carried":
        body = _loop(
            [
                go,
                node("MatMul", "s w", "m"),
                node("Add", "m h", "a"),
                node("Tanh", "a", "s2"),
                node("Sigmoid", "s2", "o"),
            ],
            [state],
            [result, typed("o", F32, 2, 3)],
        )
        return Trap([*before, node("Loop", "n t x", "y z", body=body)], feeds, consts, "y z")
    if kind == "no_trip_count":
        body = _loop([node("Less", "i k", "go2"), node("Add", "s h", "s2")], [state], [result])
        return Trap([*before, node("Loop", "_ t x", "y", body=body)], feeds, consts)
    if kind == "zero_trips":
        body = _loop([go, node("Add", "s h", "s2"), node("Neg", "s2", "o")], [state], [result, typed("o", F32, 2, 3)])
        return Trap(
            [*before, node("Loop", "zero t x", "y z", body=body)],
            feeds,
            {**consts, "zero": np.array(0, np.int64)},
            "y z",
        )
    if kind == "condition":
        body = _loop(
            [node("ReduceSum", "s2", "r", keepdims=0), node("Less", "r lim", "go2"), node("Add", "s h", "s2")],
            [state],
            [result],
        )
        body.node.insert(0, body.node.pop(2))
        return Trap(
            [*before, node("Loop", "n t x", "y", body=body)],
            feeds,
            {**consts, "lim": np.array(5.0, F32), "n": np.array(50, np.int64)},
        )
    if kind == "nested":
        inner = _loop(
            [node("Identity", "go", "go2"), node("Add", "s s0", "m"), node("Mul", "m h", "s2")], [state], [result]
        )
        outer = helper.make_graph(
            [node("Identity", "go0", "go1"), node("Loop", "two t s0", "s1", body=inner)],
            "outer",
            [typed("i0", np.int64), typed("go0", np.bool_), typed("s0", F32, 2, 3)],
            [typed("go1", np.bool_), typed("s1", F32, 2, 3)],
        )
        return Trap([*before, node("Loop", "n t x", "y", body=outer)], feeds, {**consts, "two": np.array(2, np.int64)})
    if kind == "captured_weights":
        body = _loop(
            [
                go,
                node("Conv", "s c", "a", pads=[1, 1, 1, 1]),
                bn("a", "b"),
                node("Relu", "b", "d"),
                node("Add", "d s", "s2"),
            ],
            [typed("s", F32, 1, 2, 4, 4)],
            [typed("s2", F32, 1, 2, 4, 4)],
        )
        image = {"x": f32(1, 2, 4, 4)}
        return Trap([node("Loop", "n t x", "y", body=body)], image, {**consts, "c": f32(2, 2, 3, 3), **bn_consts(2)})
    if kind == "shadowing":
        # The body has a node called as one outside, and a constant of its own.
        body = _loop(
            [go, node("Mul", "s own", "inner"), node("Relu", "inner", "s2")], [state], [result], own=np.array(0.5, F32)
        )
        return Trap([node("Relu", "x", "h", name="same"), node("Loop", "n t h", "y", body=body)], feeds, consts)
    if kind == "iteration":
        body = _loop(
            [go, node("Gather", "table i", "row"), node("Add", "s row", "s2"), node("Identity", "row", "o")],
            [state],
            [result, typed("o", F32, 3)],
        )
        return Trap([node("Loop", "n t x", "y z", body=body)], feeds, {**consts, "table": f32(5, 3)}, "y z")
    if kind == "trips_fed":
        body = _loop([go, node("Add", "s h", "s2"), node("Exp", "s", "o")], [state], [result, typed("o", F32, 2, 3)])
        del consts["n"]
        return Trap(
            [*before, node("Loop", "n t x", "y z", body=body)], {**feeds, "n": np.array(2, np.int64)}, consts, "y z"
        )
    body = _loop([go, node("Add", "s x", "s2")], [state], [result])
    return Trap([node("Loop", "n t x", "y", body=body), node("Sub", "y x", "z")], feeds, consts, "y z")


# ---- 058: If -----------------------------------------------------------------------------------------------------


@traps(
    "captures",
    "constant_condition",
    "other_shapes",
    "nested",
    "fused_inside",
    "unused_capture",
    "in_loop",
    "passes_through",
)
def branch(kind: str) -> Trap:
    feeds, consts = (
        {"x": f32(2, 3), "c": np.array(False)},
        {"w": f32(3, 3), "b": f32(3), "t": TRUE, "n": np.array(3, np.int64)},
    )
    relu = node("Relu", "x", "h")
    then = subgraph([node("Add", "h h", "p")], "", "p")
    other = subgraph([node("Mul", "h x", "q")], "", "q")
    if kind == "constant_condition":
        return Trap([relu, node("If", "t", "y", then_branch=then, else_branch=other)], {"x": feeds["x"]}, consts)
    if kind == "other_shapes":
        then = subgraph([node("Concat", "h h", "p", axis=0)], "", "p")
        return Trap([relu, node("If", "c", "a", then_branch=then, else_branch=other), node("Exp", "a")], feeds, consts)
    if kind == "nested":
        deep = subgraph([node("If", "t", "r", then_branch=other, else_branch=then)], "", "r")
        return Trap(
            [relu, node("If", "c", "y", then_branch=then, else_branch=deep), node("Neg", "y", "z")],
            feeds,
            consts,
            "y z",
        )
    if kind == "fused_inside":
        other = subgraph(
            [
                node("MatMul", "h w", "m"),
                node("Add", "m b", "s"),
                node("Relu", "s", "u"),
                node("Sigmoid", "u", "v"),
                node("Mul", "u v", "q"),
            ],
            "",
            "q",
        )
        return Trap([relu, node("If", "c", "y", then_branch=then, else_branch=other)], feeds, consts)
    if kind == "unused_capture":
        then = subgraph([node("Identity", "b0", "p")], "", "p", b0=f32(2, 3))
        return Trap([relu, node("If", "c", "y", then_branch=then, else_branch=other)], {**feeds, "c": TRUE}, consts)
    if kind == "in_loop":
        body = _loop(
            [
                node("Identity", "go", "go2"),
                node("Greater", "i one", "g"),
                node(
                    "If",
                    "g",
                    "s2",
                    then_branch=subgraph([node("Mul", "s h", "p")], "", "p"),
                    else_branch=subgraph([node("Add", "s h", "q")], "", "q"),
                ),
            ],
            [typed("s", F32, 2, 3)],
            [typed("s2", F32, 2, 3)],
            one=np.array(0, np.int64),
        )
        return Trap([relu, node("Loop", "n t x", "y", body=body)], {"x": feeds["x"]}, consts)
    if kind == "passes_through":
        then = subgraph([node("Identity", "h", "p")], "", "p")
        return Trap(
            [relu, node("If", "c", "y", then_branch=then, else_branch=other), node("Add", "y h", "z")],
            {**feeds, "c": TRUE},
            consts,
            "y z h",
        )
    return Trap([relu, node("If", "c", "y", then_branch=then, else_branch=other)], feeds, consts)


@traps("forward", "backward", "axis", "two_states", "captures", "old")
def scan(kind: str) -> Trap:
    x, consts = f32(4, 2, 3), {"w": f32(3, 3), "s0": np.zeros((2, 3), F32)}
    nodes = [node("Add", "s r", "a"), node("Tanh", "a", "s2"), node("Mul", "s2 r", "o")]
    if kind == "captures":
        nodes = [node("MatMul", "r w", "m"), node("Add", "s m", "a"), node("Tanh", "a", "s2"), node("Relu", "a", "o")]
    body = helper.make_graph(
        nodes, "b", [typed("s", F32, 2, 3), typed("r", F32, 2, 3)], [typed("s2", F32, 2, 3), typed("o", F32, 2, 3)]
    )
    attrs: dict[str, object] = {"body": body, "num_scan_inputs": 1}
    if kind == "backward":
        attrs |= {"scan_input_directions": [1], "scan_output_directions": [1]}
    if kind == "axis":
        x = f32(2, 4, 3)
        attrs |= {"scan_input_axes": [1], "scan_output_axes": [-1]}
    if kind == "two_states":
        body = helper.make_graph(
            [node("Add", "s r", "s2"), node("Sub", "q r", "q2"), node("Mul", "s2 q2", "o")],
            "b",
            [typed("s", F32, 2, 3), typed("q", F32, 2, 3), typed("r", F32, 2, 3)],
            [typed("s2", F32, 2, 3), typed("q2", F32, 2, 3), typed("o", F32, 2, 3)],
        )
        return Trap([node("Scan", "s0 s0 x", "y q z", body=body, num_scan_inputs=1)], {"x": x}, consts, "y q z")
    if kind == "old":
        return Trap([node("Scan", "s0 x", "y z", **attrs)], {"x": x}, consts, "y z", opset=9)
    return Trap([node("Scan", "s0 x", "y z", **attrs)], {"x": x}, consts, "y z")


# ---- constants in every form -------------------------------------------------------------------------------------


@traps(
    "constant_node",
    "value_float",
    "value_ints",
    "constant_of_shape",
    "sparse",
    "raw_f16",
    "int32_data",
    "bias_as_constant_node",
    "range",
)
def constants(kind: str) -> Trap:
    x, w = f32(1, 3, 4, 4), f32(4, 3, 1, 1)
    conv = node("Conv", "x w", "c")
    if kind in ("constant_node", "bias_as_constant_node"):
        shift = f32(4, 1, 1) if kind == "constant_node" else f32(4)
        nodes = [
            node("Constant", "", "w", value=numpy_helper.from_array(w)),
            node("Constant", "", "t", value=numpy_helper.from_array(shift)),
            conv,
            node("Add", "c t", "y"),
        ]
        if kind == "bias_as_constant_node":
            nodes = [*nodes[:2], node("Conv", "x w t", "c"), node("Relu", "c")]
        return Trap(nodes, {"x": x})
    if kind == "value_float":
        return Trap([node("Constant", "", "t", value_float=0.5), conv, node("Mul", "c t")], {"x": x}, {"w": w})
    if kind == "value_ints":
        return Trap([node("Constant", "", "s", value_ints=[2, -1]), conv, node("Reshape", "c s")], {"x": x}, {"w": w})
    if kind == "constant_of_shape":
        nodes = [
            node("ConstantOfShape", "s", "t", value=numpy_helper.from_array(np.array([2.0], F32))),
            conv,
            node("Mul", "c t"),
        ]
        return Trap(nodes, {"x": x}, {"w": w, "s": i64(4, 1, 1)})
    if kind == "sparse":
        values = numpy_helper.from_array(np.array([1.0, -2.0], F32), "v")
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1, 7], np.int64)), [3, 4])
        nodes = [node("Constant", "", "m", sparse_value=sparse), node("MatMul", "x m", "a"), node("Relu", "a")]
        dense = np.zeros(12, F32)
        dense[[1, 7]] = [1.0, -2.0]
        x2 = f32(2, 3)
        return Trap(nodes, {"x": x2}, expected={"y": np.maximum(x2 @ dense.reshape(3, 4), 0)})
    if kind == "raw_f16":
        half = w.astype(np.float16)
        return Trap([node("Cast", "h", "w", to=1), conv, node("Relu", "c")], {"x": x}, {"h": half})
    if kind == "int32_data":
        tensor = helper.make_tensor("s", TensorProto.INT64, [2], [4, -1])
        trap = Trap([conv, node("Reshape", "c s")], {"x": x}, {"w": w, "s": i64(4, -1)})
        assert numpy_helper.to_array(tensor).tolist() == [4, -1]
        return trap
    nodes = [node("Range", "a b d", "r"), node("Cast", "r", "f", to=1), node("Mul", "x f")]
    return Trap(nodes, {"x": x}, {"a": np.array(0, np.int64), "b": np.array(8, np.int64), "d": np.array(2, np.int64)})


# ---- functions and names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["activation", "attribute", "calls_another", "unused_result"])
def test_functions_of_the_model(kind: str, level: str, tmp_path: Path) -> None:
    x, w = f32(1, 3, 4, 4), f32(4, 3, 3, 3)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    act = [node("Sigmoid", "a", "s"), node("Mul", "a s", "b")]
    functions = [helper.make_function("own", "Act", ["a"], ["b"], act, sets[:1])]
    call = node("Act", "c", "y", domain="own")
    if kind == "attribute":
        leaky = node("LeakyRelu", "a", "b")
        leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
        functions = [helper.make_function("own", "Act", ["a"], ["b"], [leaky], sets[:1], ["slope"])]
        call = node("Act", "c", "y", domain="own", slope=0.3)
    if kind == "calls_another":
        block = [node("Act", "a", "t", domain="own"), node("Add", "t a", "b")]
        functions.append(helper.make_function("own", "Block", ["a"], ["b"], block, sets))
        call = node("Block", "c", "y", domain="own")
    if kind == "unused_result":
        functions = [helper.make_function("own", "Act", ["a"], ["b", "s"], act, sets[:1])]
        call = node("Act", "c", "y unused", domain="own")
    graph = helper.make_graph(
        [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), call],
        "g",
        [typed("x", F32, 1, 3, 4, 4)],
        [typed("y", F32, 1, 4, 4, 4)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=sets, functions=functions, ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    outputs = af.compile(tmp_path / "m.onnx", level=level, threads=1).run({"x": x})
    agree(outputs, by_onnxruntime(model, {"x": x}), 1e-4, 1e-5)


def test_values_named_as_nothing_else_is(tmp_path: Path) -> None:
    """Names with spaces, slashes, colons and dots, and a node called like a value."""
    x = f32(2, 4)
    nodes = [
        helper.make_node("Relu", ["in put:0"], ["a/b.c:1"], name="in put:0"),
        helper.make_node("Mul", ["a/b.c:1", "a/b.c:1"], ["é\u4e2d"], name=""),
        helper.make_node("Neg", ["é\u4e2d"], ["1"], name="Relu_1"),
    ]
    graph = helper.make_graph(
        nodes, "g", [typed("in put:0", F32, 2, 4)], [typed("1", F32, 2, 4), typed("a/b.c:1", F32, 2, 4)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    for level in LEVELS:
        outputs = af.compile(tmp_path / "m.onnx", level=level).run({"in put:0": x})
        agree(outputs, by_onnxruntime(model, {"in put:0": x}), 1e-5, 1e-6)


# ---- 067: weights in other files ---------------------------------------------------------------------------------


def _external(
    folder: Path, location: str, offset: int, shared: bool = False
) -> tuple[Path, dict[str, np.ndarray], onnx.ModelProto]:
    trap = Trap(
        [node("Conv", "x w b", "c"), bn("c", "d"), node("Relu", "d")],
        {"x": f32(1, 3, 4, 4)},
        {"w": f32(4, 3, 1, 1), "b": f32(4), **bn_consts(4)},
    )
    model = trap.model()
    complete = onnx.ModelProto.FromString(model.SerializeToString())
    data = bytearray(b"\xff" * offset)
    for tensor in model.graph.initializer:
        raw = numpy_helper.to_array(tensor).tobytes()
        entries = {"location": location, "offset": str(len(data)), "length": str(len(raw))}
        data += raw + b"\xee" * 3
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
    target = folder / location
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(bytes(data))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path, dict(trap.feeds), complete


@pytest.mark.parametrize("location", ["weights.bin", "deep/er/w", "model.onnx.data"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_weights_in_another_file(
    location: str, elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, feeds, complete = _external(tmp_path, location, 13)
    wanted = by_onnxruntime(complete, feeds)
    if elsewhere:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
    else:
        monkeypatch.chdir(tmp_path)
        path = Path("model.onnx")
    for level in LEVELS:
        agree(af.compile(path, level=level).run(feeds), wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("harm", ["missing", "short", "outside", "absolute", "not_a_number"])
def test_weights_that_cannot_be_read(harm: str, tmp_path: Path) -> None:
    path, _, _ = _external(tmp_path, "weights.bin", 0)
    model = onnx.load(path, load_external_data=False)
    entry = {e.key: e for e in model.graph.initializer[0].external_data}
    if harm == "missing":
        (tmp_path / "weights.bin").unlink()
    elif harm == "short":
        (tmp_path / "weights.bin").write_bytes(b"12")
    elif harm == "outside":
        (tmp_path / "inner").mkdir()
        entry["location"].value = "../weights.bin"
        path = tmp_path / "inner" / "model.onnx"
    elif harm == "absolute":
        entry["location"].value = str(tmp_path / "weights.bin")
    else:
        entry["offset"].value = "much"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError) as caught:
        af.compile(path)
    assert "'w'" in str(caught.value) or "weights.bin" in str(caught.value), str(caught.value)


# ---- what no model may say ---------------------------------------------------------------------------------------

_WRONG: dict[str, Callable[[], onnx.ModelProto]] = {
    "undefined value": lambda: Trap([node("Add", "x nothing")], {"x": f32(2)}).model(),
    "two writers": lambda: Trap([node("Relu", "x"), node("Neg", "x")], {"x": f32(2)}).model(),
    "a circle": lambda: Trap(
        [node("Add", "x b", "a"), node("Neg", "a", "b"), node("Relu", "b")], {"x": f32(2)}
    ).model(),
    "an output that nobody makes": lambda: Trap([node("Relu", "x", "a")], {"x": f32(2)}).model(),
    "shapes that do not fit": lambda: Trap([node("Add", "x c")], {"x": f32(2, 3)}, {"c": f32(4)}).model(),
    "channels that do not fit": lambda: Trap(
        [node("Conv", "x w")], {"x": f32(1, 3, 4, 4)}, {"w": f32(4, 2, 1, 1)}
    ).model(),
    "an unknown operator": lambda: Trap([node("Convolve", "x")], {"x": f32(2)}).model(),
    "an unknown domain": lambda: Trap(
        [node("Relu", "x", "y", domain="com.acme")], {"x": f32(2)}, domains={"com.acme": 1}
    ).model(),
    "a set that is not there": lambda: Trap([node("Relu", "x")], {"x": f32(2)}, opset=99).model(),
    "an attribute of another type": lambda: Trap([node("Softmax", "x", "y", axis=1.5)], {"x": f32(2, 2)}).model(),
    "an axis that is not there": lambda: Trap([node("Softmax", "x", "y", axis=7)], {"x": f32(2, 2)}).model(),
    "too few operands": lambda: Trap([node("Conv", "x")], {"x": f32(1, 1, 2, 2)}).model(),
    "mixed types": lambda: Trap([node("Add", "x c")], {"x": f32(2)}, {"c": np.array([1.0, 2.0])}).model(),
    "pads of the wrong number": lambda: Trap(
        [node("Conv", "x w", "y", pads=[1, 1])], {"x": f32(1, 1, 3, 3)}, {"w": f32(1, 1, 3, 3)}
    ).model(),
    "a mode that is none": lambda: Trap(
        [node("Pad", "x p", "y", mode="NOTSET")], {"x": f32(2)}, {"p": i64(0, 1)}
    ).model(),
    "a fill of another type": lambda: Trap(
        [node("Pad", "x p v")], {"x": f32(2)}, {"p": i64(0, 1), "v": np.float16([0])}
    ).model(),
    "starts that are a matrix": lambda: Trap(
        [node("Slice", "x a b")], {"x": f32(2)}, {"a": i64(0), "b": np.array([[1]])}
    ).model(),
    "trips that are a vector": lambda: Trap(
        [
            node(
                "Loop",
                "n t x",
                body=_loop(
                    [node("Identity", "go", "go2"), node("Neg", "s", "s2")], [typed("s", F32, 2)], [typed("s2", F32, 2)]
                ),
            )
        ],
        {"x": f32(2)},
        {"n": i64(1, 2), "t": TRUE},
    ).model(),
    "a target of fractions": lambda: Trap([node("Reshape", "x s")], {"x": f32(2, 3), "s": f32(2)}).model(),
    "a reshape to another size": lambda: Trap([node("Reshape", "x s")], {"x": f32(2, 3)}, {"s": i64(4, 2)}).model(),
}


@pytest.mark.parametrize("what", _WRONG)
def test_a_model_that_is_wrong_is_refused_with_a_name(what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_WRONG[what]().SerializeToString())
    with pytest.raises(AutofusionError) as caught:
        session = af.compile(path)
        session.run({v.name: np.ones(v.tensor.static_shape, F32) for v in session.graph.inputs})
    assert len(str(caught.value)) > 25 and "'" in str(caught.value), str(caught.value)


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str, tmp_path: Path) -> None:
    TRAPS[name]().check(tmp_path)


@pytest.mark.parametrize("level", ["off", "full"])
def test_parts_of_different_shapes_are_not_stacked(level: str, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 22]> agraph (int64 n, bool on) => (int64[A,B] y) {
        y = Loop (n, on) <body = g (int64 i, bool c) => (bool d, int64[K] part)
            { d = Identity(c) one = Constant<value_int = 1>() zero = Sub(one, one) part = Range(zero, i, one) }>
    }"""
    path = tmp_path / "loop.onnx"
    onnx.save(parser.parse_model(text), path)
    session = af.compile(path, level=level)
    with pytest.raises(KernelError, match=r"Loop.*\[0\] in iteration 0 and \[1\] in iteration 1"):
        session.run({"n": np.array(3), "on": TRUE})
