"""What a graph is made of: inputs and defaults, constants, names, types, order, cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autofusion.errors import ModelError, OptionError, UnsupportedOperatorError
from autofusion.frontends import LoadOptions
from autofusion_frontend_onnx.frontend import OnnxFrontend
from plugins.frontends.onnx.tests.onnx_models import load, model, run

X = {"x": np.ones((2, 3), np.float32)}


def node(op: str, inputs: list[str], outputs: list[str], name: str = "", **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name, **attrs)


def test_initialiser_that_is_an_input_is_a_default() -> None:
    inputs = X | {"w": np.full((3,), 2, np.float32)}
    source = model([node("Add", ["x", "w"], ["y"])], inputs, ["y"], constants={"w": np.full((3,), 5, np.float32)})
    graph = load(source)
    assert [(v.name, v.default is None) for v in graph.inputs] == [("x", True), ("w", False)]
    assert run(graph, X)[0][0, 0] == 6 and run(graph, inputs)[0][0, 0] == 3


def test_file_of_ir_version_3_has_no_defaults() -> None:
    inputs = X | {"w": np.full((3,), 2, np.float32)}
    constants = {"w": np.full((3,), 5, np.float32)}
    graph = load(model([node("Add", ["x", "w"], ["y"])], inputs, ["y"], constants=constants, opset=8, ir_version=3))
    assert [v.name for v in graph.inputs] == ["x"] and graph.nodes[0].inputs[1].is_constant


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"value_float": 1.5}, np.float32(1.5)),
        ({"value_floats": [1.0, 2.0]}, np.float32([1, 2])),
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": [1, 2]}, np.int64([1, 2])),
        ({"value_string": "a"}, np.array("a", object)),
        ({"value_strings": ["a", "b"]}, np.array(["a", "b"], object)),
        ({"value": numpy_helper.from_array(np.zeros((0, 2), np.int8))}, np.zeros((0, 2), np.int8)),
    ],
)
def test_constant_nodes(attrs: dict[str, Any], expected: np.ndarray) -> None:
    graph = load(model([node("Constant", [], ["y"], **attrs)], {}, ["y"]))
    value = graph.outputs[0]
    assert not graph.nodes and value.name == "y" and value.const is not None
    assert value.const.dtype == np.asarray(expected).dtype and np.array_equal(value.const, expected)


@pytest.mark.parametrize("linear", [False, True])
def test_sparse_tensors(linear: bool) -> None:
    values = numpy_helper.from_array(np.float32([5, 7]), "w")
    indices = np.int64([1, 5]) if linear else np.int64([[0, 1], [1, 2]])
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices), [2, 3])
    source = model([node("Add", ["x", "w"], ["y"]), node("Constant", [], ["z"], sparse_value=sparse)], X, ["y", "z"])
    source.graph.sparse_initializer.append(sparse)
    dense = np.float32([[0, 5, 0], [0, 0, 7]])
    got = run(load(source), X)
    assert np.array_equal(got[0], dense + 1) and np.array_equal(got[1], dense)


DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["bool", "complex64", "complex128"]
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4"]
SMALL += ["float4_e2m1fn", "int2", "uint2", "float8_e8m0fnu"]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", DTYPES + SMALL)
def test_element_types(name: str, raw: bool) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name)) if name in SMALL else np.dtype(name)
    low = 0 if name.startswith(("u", "float8_e8")) else -1
    data = np.array([[0, 1, 0], [1, low, 1], [1, 1, low]], np.float32).astype(dtype)[:, : 3 if raw else 2]
    number = helper.np_dtype_to_tensor_dtype(dtype)
    if raw:
        tensor = numpy_helper.from_array(data, "w")
        assert tensor.HasField("raw_data")
    else:
        values = data.reshape(-1)
        flat = values.tolist() if name not in SMALL else values.astype(np.float32).tolist()
        tensor = helper.make_tensor("w", number, data.shape, flat)
    source = model([node("Identity", ["w"], ["y"])], {}, ["y"], opset=23)
    source.graph.initializer.append(tensor)
    constant = load(source).nodes[0].inputs[0].const
    assert constant.dtype == dtype and constant.shape == data.shape
    assert constant.tobytes() == data.tobytes()


def test_strings() -> None:
    source = model([node("Identity", ["w"], ["y"])], {}, ["y"])
    source.graph.initializer.append(helper.make_tensor("w", TensorProto.STRING, [2], ["ä".encode(), b"\xff"]))
    constant = load(source).nodes[0].inputs[0].const
    assert constant[0] == "ä" and constant[1].encode("utf-8", "surrogateescape") == b"\xff"


@pytest.mark.parametrize("value", [np.float32(3), np.zeros((0, 3), np.float32)])
def test_scalars_and_empty_tensors(value: np.ndarray) -> None:
    graph = load(model([node("Mul", ["x", "w"], ["y"])], {"x": value}, ["y"], constants={"w": np.float32(2)}))
    got = run(graph, {"x": value})[0]
    assert got.shape == value.shape and np.array_equal(got, value * 2)


def test_names_and_origins() -> None:
    nodes = [
        node("Relu", ["x"], ["a"], "same"),
        node("Relu", ["a"], ["b"], "same"),
        node("Relu", ["b"], ["c"]),
        node("ReduceMean", ["c"], ["d"], "mean", axes=[0]),
        node("Softmax", ["d"], ["e"], "soft"),
    ]
    graph = load(model(nodes, X, ["e"], opset=11))
    assert [n.origin for n in graph.nodes][:4] == [("same",), ("same#2",), ("c",), ("mean",)]
    assert {n.origin for n in graph.nodes[4:]} == {("soft",)}
    assert [v.name for v in graph.values()] == ["x", "a", "b", "c", "d", "e"]
    assert graph.output_names == ["e"]


def test_intermediate_names_never_take_a_name_of_the_source() -> None:
    nodes = [
        node("Softmax", ["x"], ["soft"], "soft", axis=0),
        node("Relu", ["soft"], ["soft/Flatten"], "r"),
        node("Relu", ["soft/Flatten"], ["soft/Softmax"], "s"),
    ]
    graph = load(model(nodes, X, ["soft/Softmax"], opset=11))
    assert graph.outputs[0].name == "soft/Softmax" and graph.nodes[-1].inputs[0].name == "soft/Flatten"


def test_symbols_and_unknown_dims() -> None:
    source = model([node("Relu", ["x"], ["y"])], X, ["y"])
    shape = source.graph.input[0].type.tensor_type.shape
    for dim, said in zip(shape.dim, ("batch", "?"), strict=True):
        dim.dim_param = said
    shape.dim.add()
    shape.dim.add().dim_value = -1
    graph = load(source)
    assert graph.inputs[0].shape == ("batch", None, None, None) == graph.outputs[0].shape


def test_stated_types_count_where_nothing_is_inferred() -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Relu", ["x"], ["y"])]
    source = model(nodes, X, ["i", "y"])
    source.graph.output[0].CopyFrom(helper.make_tensor_value_info("i", TensorProto.INT64, [2, "count"]))
    source.graph.output[1].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [7, 3]))
    graph = load(source)
    assert graph.outputs[0].shape == (2, None) and graph.outputs[1].shape == (2, 3)
    odd = [node("Odd", ["x"], ["y"], domain="my.ops")]
    source = model(odd, X, ["y"], domains={"my.ops": 1})
    source.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.INT8, [7, "n"]))
    assert str(load(source).outputs[0].type) == "i8[7, n]"


def test_nodes_out_of_order_are_sorted_and_cycles_refused() -> None:
    nodes = [node("Relu", ["b"], ["c"], "last"), node("Relu", ["a"], ["b"], "mid"), node("Relu", ["x"], ["a"], "first")]
    assert [n.name for n in load(model(nodes, X, ["c"])).nodes] == ["first", "mid", "last"]
    cycle = [node("Add", ["x", "b"], ["a"], "n"), node("Relu", ["a"], ["b"], "m")]
    with pytest.raises(ModelError, match=r"cycle: node '[nm]'"):
        load(model(cycle, X, ["b"]))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("Relu", ["x"], ["a"], "p"), node("Relu", ["x"], ["a"], "q")],
            r"defines 'a' twice: by node 'p'.*node 'q'",
        ),
        ([node("Relu", ["x"], ["x"], "p")], "defines 'x' twice: by an input"),
        ([node("Relu", ["xx"], ["a"], "p")], "node 'p'.*reads 'xx'.*did you mean 'x'"),
        ([node("Relu", ["x"], ["b"], "p")], "no value 'a' to be an output"),
        ([node("Relu", [""], ["a"], "p")], "operand 0 .*absent"),
        ([node("MatMul", ["x", "x"], ["a"], "p")], "node 'p' .*MatMul"),
        ([node("Squeeze", ["x"], ["a"], "p", axes=[0], extra=1)], "unknown attribute 'extra'"),
    ],
)
def test_graphs_that_break_the_rules(nodes: list[onnx.NodeProto], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(model(nodes, X, ["a"], opset=11))


def test_unused_results_at_the_end_are_not_made() -> None:
    source = model([node("MaxPool", ["x"], ["y", ""], kernel_shape=[2])], {"x": np.ones((1, 1, 4), np.float32)}, ["y"])
    assert len(load(source).nodes[0].outputs) == 1


def test_operator_set_that_the_installed_onnx_does_not_know() -> None:
    with pytest.raises(ModelError, match=r"needs operator set 999.*install a newer onnx"):
        load(model([node("Relu", ["x"], ["y"])], X, ["y"], opset=999))


def test_custom_operators_stay_opaque() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Odd", ["a"], ["b"], "odd", domain="my.ops", k=3),
        node("Relu", ["b"], ["y"]),
    ]
    graph = load(model(nodes, X, ["y"], domains={"my.ops": 4}))
    odd = graph.nodes[1]
    assert odd.op == "my.ops::Odd" and odd.attrs == {"k": 3, "domain_version": 4} and odd.output.type is None


def test_registered_converter_of_another_domain() -> None:
    from autofusion_frontend_onnx.call import Call
    from autofusion_frontend_onnx.registry import TABLE, converter

    def double(call: Call) -> Any:
        return call.result("Mul", [call.operand(0), call.like(2.0, call.operand(0))], {})

    converter("Double", domain="test.double", since=2, before=5)(double)
    assert [TABLE.find("test.double::Double", v) for v in (1, 2, 4, 5)] == [None, double, double, None]
    source = model([node("Double", ["x"], ["y"], domain="test.double")], X, ["y"], domains={"test.double": 3})
    assert run(load(source), X)[0][0, 0] == 2


def test_converter_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autofusion.plugins.converters import InstalledConverters

    (tmp_path / "odd_ops.py").write_text(
        "def negated(call):\n    return call.result('Neg', [call.operand(0)], {})\n"
        "def broken(call):\n    return call.attrs['nothing']\n"
    )
    info = tmp_path / "odd_ops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-ops\nVersion: 1.0\nRequires-Dist: autofusion<99\n")
    points = "[autofusion.converters.onnx]\nodd.ops::Negated = odd_ops:negated\nodd.ops::Broken = odd_ops:broken\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    converters = InstalledConverters("onnx", {})
    source = model([node("Negated", ["x"], ["y"], "n", domain="odd.ops")], X, ["y"], domains={"odd.ops": 1})
    assert np.array_equal(run(load(source, converters=converters), X)[0], -X["x"])
    assert load(source).nodes[0].op == "odd.ops::Negated", "it stays opaque where nothing is added"
    source = model([node("Broken", ["x"], ["y"], "n", domain="odd.ops")], X, ["y"], domains={"odd.ops": 1})
    with pytest.raises(ModelError, match=r"node 'n' .*Broken.*nothing"):
        load(source, converters=converters)


def test_cut_at_chosen_inputs_and_outputs() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Add", ["a", "z"], ["b"]), node("Relu", ["b"], ["y"])]
    inputs = X | {"z": np.full((3,), -9, np.float32)}
    source = model(nodes, inputs, ["y"])
    graph = load(source, outputs=("a", "b"))
    assert graph.output_names == ["a", "b"] and len(graph) == 2
    graph = load(source, inputs=("z", "a"))
    assert [v.name for v in graph.inputs] == ["z", "a"]
    fed = {"z": np.float32([1, 2, 3]), "a": np.zeros((2, 3), np.float32)}
    assert np.array_equal(run(graph, fed)[0], [[1, 2, 3]] * 2)
    with pytest.raises(OptionError, match="'w'"):
        load(source, outputs=("w",))
    with pytest.raises(OptionError, match="also need z"):
        load(source, inputs=("a",))
    with pytest.raises(OptionError, match="key"):
        load(source, key=b"k")


def test_reference_runs_the_model_itself(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["a"], "r"), node("Neg", ["a"], ["y"], "n")]
    path = tmp_path / "m.onnx"
    onnx.save(model(nodes, X, ["y"]), path)
    frontend = OnnxFrontend()
    assert np.array_equal(frontend.reference(path, LoadOptions())(X)["y"], -X["x"])
    both = frontend.reference(path, LoadOptions(outputs=("a", "y")))(X)
    assert np.array_equal(both["a"], X["x"]) and list(both) == ["a", "y"]
    cut = frontend.reference(path, LoadOptions(inputs=("a",)))
    assert np.array_equal(cut({"a": X["x"]})["y"], -X["x"])
    with pytest.raises(ModelError, match="cannot be run"):
        frontend.reference(path, LoadOptions())({"x": np.ones(3, np.int8)})


def test_all_unknown_operators_are_named_at_once() -> None:
    then = helper.make_graph([helper.make_node("Inner", [], ["t"])], "then", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([helper.make_node("Frob", [], ["e"])], "else", [], [onnx.ValueInfoProto(name="e")])
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Frob", ["a"], ["b"]),
        helper.make_node("Widget", ["b"], ["c"]),
        helper.make_node("If", ["x"], ["d"], then_branch=then, else_branch=other),
        helper.make_node("Custom", ["d"], ["y"], domain="my.ops"),
    ]
    with pytest.raises(UnsupportedOperatorError, match=r"operators of the model are unknown: Frob .*Inner .*Widget"):
        load(model(nodes, {"x": np.zeros(2, np.float32)}, ["y"], domains={"my.ops": 1}))
