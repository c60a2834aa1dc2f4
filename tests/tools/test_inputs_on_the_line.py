"""Inputs stated on the command line: values, ranges, scripts, and what is said of those that are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from autofusion.cli import cli
from autofusion.errors import AutofusionError, InputError, OptionError
from autofusion.frontends.contract import LoadOptions
from autofusion.tools.inputs import Wanted, model_and_shapes, parse_wanted, random_inputs
from autofusion.tools.samples import made_up
from autofusion_frontend_onnx.frontend import OnnxFrontend


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A table looked up by ids [batch, words], scaled by x [batch, 4, h, w]'s mean, and a scalar rate."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["g"], name="look"),
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0, 1, 2, 3], keepdims=0),
        helper.make_node("Cast", ["sr"], ["r"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["g", "m"], ["gm"]),
        helper.make_node("Mul", ["gm", "r"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "words"]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, "h", "w"]),
        helper.make_tensor_value_info("sr", TensorProto.INT64, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "words", 3])]
    table = numpy_helper.from_array(np.arange(30, dtype=np.float32).reshape(10, 3), "table")
    graph = helper.make_graph(nodes, "g", inputs, outputs, [table])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tests")
    onnx.save(made, str(tmp_path / "m@x.onnx"))
    return tmp_path / "m@x.onnx"


SHAPES = ["--shape", "ids:1,2", "--shape", "x:1,4,2,2"]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=True)


def result(*arguments: object) -> Any:
    found = call(*arguments, "--json")
    assert found.exit_code == 0, (found.output, found.exception)
    return json.loads(found.stdout)


def test_values_and_ranges_are_what_the_model_is_run_on(model: Path) -> None:
    given = [*SHAPES, "--value", "ids=3,3", "--value", "sr=2", "--range", "x:5,5"]
    out = result("run", model, *given)["outputs"]["y"]
    assert (out["min"], out["max"]) == (9 * 2 * 5, 11 * 2 * 5)


def test_values_are_kept_in_everything_that_verify_tries(model: Path) -> None:
    graph = OnnxFrontend().load(model, LoadOptions())
    wanted = parse_wanted(["sr=16000"], ["ids:4,6"])
    samples = made_up(graph, {"ids": (1, 50), "x": (1, 4, 2, 2)}, 0, wanted)
    assert len(samples) > 4
    for sample in samples:
        assert sample.inputs["sr"] == 16000 and {4, 5, 6} >= set(np.unique(sample.inputs["ids"]))
    assert {int(i) for s in samples for i in s.inputs["ids"].flat} == {4, 5, 6}


@pytest.mark.parametrize(
    ("values", "ranges", "error", "message"),
    [
        (["sr"], [], OptionError, "value 'sr' is not of the form NAME=NUMBER"),
        (["sr=fast"], [], OptionError, "not of the form"),
        ([], ["ids:1"], OptionError, "range 'ids:1' is not of the form NAME:LOW,HIGH"),
        ([], ["ids:5,1"], OptionError, "not of the form"),
        (["rate=1"], [], InputError, "no input 'rate'"),
        (["ids=1,2,3"], [], InputError, "input 'ids' has 2 elements, and --value states 3"),
        (["sr=1.5"], [], InputError, "input 'sr' is of int64, which cannot hold the value"),
        ([], ["ids:0,1.5"], InputError, "input 'ids' is of int64: expected a range of such integers"),
    ],
)
def test_wrong_values_and_ranges(
    model: Path, values: list[str], ranges: list[str], error: type[AutofusionError], message: str
) -> None:
    graph = OnnxFrontend().load(model, LoadOptions())
    with pytest.raises(error, match=message):
        random_inputs(graph, {"ids": (1, 2), "x": (1, 4, 2, 2)}, 0, parse_wanted(values, ranges))


def test_all_missing_shapes_are_told_at_once_with_their_rank(model: Path) -> None:
    found = call("run", model)
    assert isinstance(found.exception, InputError)
    text = str(found.exception)
    assert "'ids' i64[batch, words], 'x' f32[batch, 4, h, w] have open dims" in text
    assert "--shape ids:1,128 --shape x:1,4,224,224" in text and "'sr'" not in text
    found = call("run", model, "--shape", "sr:")
    assert "shapes={'ids': (1, 128), 'x': (1, 4, 224, 224)}" in str(found.exception)


def test_a_script_gives_the_data(model: Path, tmp_path: Path) -> None:
    script = tmp_path / "data.py"
    script.write_text(
        "import numpy as np\n"
        "def load_data():\n"
        "    for i in (1, 2):\n"
        "        x = np.ones((1, 4, 2, 2), np.float32)\n"
        "        yield {'ids': np.array([[i]]), 'x': x, 'sr': np.array(10)}\n",
        "utf-8",
    )
    assert result("run", model, "--data", script)["outputs"]["y"]["max"] == 50
    verified = result("verify", model, "--data", script, "--no-speed", "--no-exact", "--repeats", "1")
    assert [case["case"] for case in verified["cases"]] == ["data-0", "data-1"]
    script.write_text("x = 1", "utf-8")
    assert "has no function 'load_data'" in str(call("run", model, "--data", script).exception)


def test_what_was_made_up_is_told_when_a_model_does_not_take_it(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "to"], ["y"])]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
        helper.make_tensor_value_info("to", TensorProto.INT64, [2]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    path = tmp_path / "r.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    message = str(call("run", path).exception)
    assert "inputs were made up (to=" in message and "--value" in message
    assert result("run", path, "--value", "to=2,3")["outputs"]["y"]["type"] == "f32[2, 3]"


def test_a_model_whose_name_has_an_at(model: Path, tmp_path: Path) -> None:
    assert model_and_shapes(f"{model}@ids:1,2@x:3") == (model, {"ids": (1, 2), "x": (3,)})
    assert model_and_shapes(str(model)) == (model, {})
    assert model_and_shapes("no.onnx@x:1") == (Path("no.onnx"), {"x": (1,)})
    told = result("bench", f"{model}@ids:1,2@x:1,4,2,2", "--seconds", "0.2", "--value", "sr=3", "--streams", "2")
    (row,) = told["models"]
    for contender in row["contenders"].values():
        assert list(contender["percentiles"]) == ["p50", "p90", "p95", "p99"]
        assert contender["minimum"] <= contender["percentiles"]["p90"] <= contender["percentiles"]["p99"]
        assert contender["runs_per_second"] > 0
    assert row["model"] == "m@x.onnx" and row["streams"] == 2


def test_inspect_tells_what_a_file_holds(model: Path) -> None:
    found = result("inspect", model)
    assert found["operators"] == {"Mul": 2, "Gather": 1, "ReduceMean": 1, "Cast": 1}
    assert [(v["name"], v["shape"]) for v in found["inputs"]][:1] == [("ids", ["batch", "words"])]
    assert (found["opsets"], found["producer"], found["parameters"], found["weight_bytes"]) == (
        {"": 17},
        "tests",
        30,
        152,
    )
    assert found["file_bytes"] == model.stat().st_size and found["nodes"] == 5
    text = call("inspect", model).stdout
    assert "x  f32[batch, 4, h, w]" in text and "operator sets ai.onnx 17" in text and "Gather      1" in text


def test_wanted_survives_as_plain_data() -> None:
    wanted = parse_wanted(["a=1,true", "b=2.5"], ["c:0,3"])
    assert Wanted.of(json.loads(json.dumps({"values": wanted.values, "ranges": wanted.ranges}))) == wanted
    assert wanted.names == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["insp"], ["inspect"]),
        (["run", "MODEL", "--shape", ""], ["ids:", "sr:", "x:"]),
        (["bench", "MODEL", "--value", "s"], ["sr="]),
        (["run", "none.onnx", "--range", ""], []),
        (["run", "--level", ""], ["basic", "full", "off"]),
        (["explain", "--disable", "conv.fold_pad_"], ["conv.fold_pad_pool"]),
    ],
)
def test_the_shell_completes_commands_levels_rules_and_inputs(
    model: Path, words: list[str], expected: list[str]
) -> None:
    from click.shell_completion import ShellComplete

    *before, last = [str(model) if word == "MODEL" else word for word in words]
    found = ShellComplete(cli, {}, "autofusion", "_AUTOFUSION_COMPLETE").get_completions(before, last)
    assert [item.value for item in found] == expected
