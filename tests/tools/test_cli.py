"""The command line as a user meets it: wrong input ends with one clear line and exit code 2, and JSON is JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autofusion.cli import COMMANDS, main


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ended]:
    """Runs a command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["autofusion", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return run


def save(path: Path, nodes: list[onnx.NodeProto], **initializers: np.ndarray) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", None])],
        [numpy_helper.from_array(data, name) for name, data in initializers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("other", 1)])
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Add", ["h", "b"], ["s"], name="bias"),
        helper.make_node("Relu", ["s"], ["y"], name="relu"),
    ]
    return save(tmp_path / "net.onnx", nodes, w=np.ones((4, 3), np.float32), b=np.ones(3, np.float32))


SHAPE = ("--shape", "x:2,4", "--threads", "1")


def refused(ended: Ended, *words: str) -> None:
    """Exit code 2, one sentence with these words, and no traceback."""
    assert ended.code == 2, ended
    assert "Traceback" not in ended.out + ended.err
    for word in words:
        assert word in ended.err, (word, ended.err)


# ---- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "explain", "profile", "view", "bench"])
def test_a_truncated_file(cli: Callable[..., Ended], model: Path, command: str) -> None:
    broken = model.with_name("broken.onnx")
    broken.write_bytes(model.read_bytes()[:-40])
    refused(cli(command, broken, *SHAPE), "error: ", "broken.onnx")


@pytest.mark.parametrize("command", ["run", "explain", "profile", "view", "bench"])
def test_a_file_of_another_kind(cli: Callable[..., Ended], tmp_path: Path, command: str) -> None:
    other = tmp_path / "picture.png"
    other.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    refused(cli(command, other), "error: ", "picture.png")


@pytest.mark.parametrize("command", ["run", "explain", "view"])
def test_another_kind_behind_the_right_name(cli: Callable[..., Ended], tmp_path: Path, command: str) -> None:
    other = tmp_path / "text.onnx"
    other.write_text("this is no model at all\n" * 20)
    refused(cli(command, other), "error: ", "text.onnx")


@pytest.mark.parametrize("command", ["run", "explain", "view"])
def test_a_file_that_is_not_there(cli: Callable[..., Ended], command: str) -> None:
    refused(cli(command, "absent.onnx"), "error: ", "absent.onnx")


@pytest.mark.parametrize("command", ["run", "explain", "profile", "view"])
def test_an_unknown_operator(cli: Callable[..., Ended], tmp_path: Path, command: str) -> None:
    path = save(tmp_path / "odd.onnx", [helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain="other")])
    refused(cli(command, path, *SHAPE), "error: ", "Frobnicate", "odd")


def test_a_missing_input(cli: Callable[..., Ended], model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "empty.npz", other=np.zeros(3))
    refused(cli("run", model, "--data", "empty.npz", *SHAPE), "error: ", "'other'", "'x'")
    np.savez(tmp_path / "none.npz")
    refused(cli("run", model, "--data", "none.npz", *SHAPE), "error: ", "input 'x' is missing")


def test_an_input_of_the_wrong_shape(cli: Callable[..., Ended], model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "wide.npz", x=np.zeros((2, 5), np.float32))
    refused(cli("run", model, "--data", "wide.npz"), "error: ", "input 'x'", "[2, 5]")
    refused(cli("run", model, "--shape", "x:2,5"), "error: ", "input 'x'", "[2, 5]")
    refused(cli("run", model, "--shape", "z:2,4"), "error: ", "no input 'z'")
    refused(cli("run", model, "--shape", "x=2,4"), "error: ", "x=2,4")


def test_an_input_of_the_wrong_dtype(cli: Callable[..., Ended], model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "ints.npz", x=np.zeros((2, 4), np.int64))
    refused(cli("run", model, "--data", "ints.npz"), "error: ", "input 'x'", "int64")


def test_data_that_is_no_archive(cli: Callable[..., Ended], model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_text("no archive")
    refused(cli("run", model, "--data", "x.npz", *SHAPE), "error: ", "x.npz")


def test_open_dims_without_shapes(cli: Callable[..., Ended], model: Path) -> None:
    refused(cli("explain", model), "error: ", "'x'", "--shape x:")


@pytest.mark.parametrize("option", ["--disable", "--only"])
def test_a_misspelt_rule(cli: Callable[..., Ended], model: Path, option: str) -> None:
    refused(cli("run", model, *SHAPE, option, "conv.epilog"), "error: ", "'conv.epilog'", "'conv.epilogue'")


def test_a_misspelt_site_level_and_kernel(cli: Callable[..., Ended], model: Path) -> None:
    refused(cli("run", model, *SHAPE, "--disable-site", "produkt"), "error: ", "'produkt'", "'product'")
    refused(cli("run", model, *SHAPE, "--level", "ful"), "error: ", "'ful'", "full")
    refused(cli("explain", model, "produkt", *SHAPE), "error: ", "'produkt'", "'product'")
    refused(cli("rules", "conv.epilog"), "error: ", "'conv.epilogue'")


def test_an_unknown_command(cli: Callable[..., Ended]) -> None:
    refused(cli("explian"), "there is no command 'explian'", "'explain'")


@pytest.mark.parametrize(("command", "suffix"), [("run", "npz"), ("export", "onnx"), ("view", "html")])
def test_a_place_that_cannot_be_written(cli: Callable[..., Ended], model: Path, command: str, suffix: str) -> None:
    ended = cli(command, model, *SHAPE, "-o", f"/nowhere/at.{suffix}")
    refused(ended, "error: ", f"'/nowhere/at.{suffix}'", "No such file")


def test_an_unknown_option(cli: Callable[..., Ended], model: Path) -> None:
    refused(cli("explain", model, "--grpah"), "--grpah")


def test_a_comparison_with_one_side(cli: Callable[..., Ended], model: Path) -> None:
    refused(cli("explain", "--diff", model, *SHAPE), "error: ", "--diff")
    (model.parent / "other.json").write_text("{}")
    refused(cli("explain", "--diff", model, "other.json", *SHAPE), "error: ", "other.json", "not a ledger")


def test_the_debug_switch_shows_the_traceback(model: Path) -> None:
    command = [sys.executable, "-m", "autofusion", "explain", "absent.onnx"]
    plain = subprocess.run(command, capture_output=True, text=True, check=False, cwd=model.parent)
    assert plain.returncode == 2 and "Traceback" not in plain.stderr
    debugged = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False, cwd=model.parent)
    assert debugged.returncode != 0 and "Traceback" in debugged.stderr


# ---- what goes right ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Callable[..., Ended], command: str, recwarn: pytest.WarningsRecorder) -> None:
    ended = cli(command, "--help")
    assert [str(w.message) for w in recwarn if "parameter" in str(w.message).lower()] == []
    assert ended.code == 0 and ended.out.startswith("Usage: ") and len(ended.out.splitlines()) > 4


def test_explain_as_json(cli: Callable[..., Ended], model: Path) -> None:
    data = cli("explain", model, *SHAPE, "--json").data
    (fused,) = [r for r in data["records"] if r["verdict"] == "fused" and r.get("kind") == "matmul"]
    assert set(fused["nodes"]) == {"product", "bias", "relu"}
    assert data["before"]["steps"] == 3 and len(data["steps"]) == 1
    one = cli("explain", model, "bias", *SHAPE, "--json").data
    assert one["records"] and all("bias" in r["nodes"] for r in one["records"])
    assert len(one["steps"]) == 1


def test_explain_takes_shapes_from_data(cli: Callable[..., Ended], model: Path) -> None:
    np.savez(model.parent / "in.npz", x=np.zeros((2, 4), np.float32))
    assert "steps: 3 at level off -> 1" in cli("explain", model, "--data", "in.npz", "--threads", "1").out


def test_explain_as_text(cli: Callable[..., Ended], model: Path) -> None:
    assert "steps: 3 at level off -> 1" in cli("explain", model, *SHAPE).out
    assert "fused by:" in cli("explain", model, "bias", *SHAPE).out
    assert "Fused(" in cli("explain", model, *SHAPE, "--graph").out


def test_the_difference_of_two_levels_and_of_two_files(cli: Callable[..., Ended], model: Path) -> None:
    found = cli("explain", "--diff", f"{model}@off", f"{model}@full", *SHAPE, "--json").data
    assert [c["site"] for c in found["gained"]] == ["product"] and found["lost"] == []
    for name, level in (("a.json", "full"), ("b.json", "off")):
        (model.parent / name).write_text(cli("explain", model, *SHAPE, "--level", level, "--json").out)
    text = cli("explain", "--diff", "a.json", "b.json").out
    assert "from a.json to b.json" in text and "lost (1):" in text and "'product'" in text
    assert "nothing differs" in cli("explain", "--diff", "a.json", f"{model}@full", *SHAPE).out


def test_profile(cli: Callable[..., Ended], model: Path) -> None:
    data = cli("profile", model, *SHAPE, "--runs", "2", "--before", "--json", "--trace", "t.json").data
    assert data["seconds"] > 0 and data["steps"][0]["kernel"].startswith("cpu:")
    assert len(data["before"]["steps"]) == 3
    assert json.loads((model.parent / "t.json").read_text())["traceEvents"]
    assert "next hot spots" in cli("profile", model, *SHAPE, "--runs", "1").out


def test_bench(cli: Callable[..., Ended], model: Path) -> None:
    data = cli("bench", model, *SHAPE, "--seconds", "0.1", "--json").data
    (row,) = data["models"]
    assert set(row["contenders"]) == {"off", "full"} and row["max_abs"] < 1e-5
    assert row["contenders"]["off"]["ratio_median"] == pytest.approx(data["geometric_mean"]["off"])


def test_run(cli: Callable[..., Ended], model: Path) -> None:
    data = cli("run", model, *SHAPE, "--watch", "bias", "--save", "y.npz", "--json").data
    assert data["outputs"]["y"]["type"] == "f32[2, 3]" and data["watched"]["s"]["type"] == "f32[2, 3]"
    with np.load(model.parent / "y.npz") as saved:
        assert set(saved.files) == {"y", "s"} and np.array_equal(np.maximum(saved["s"], 0), saved["y"])


def test_lists_as_json(cli: Callable[..., Ended]) -> None:
    rules = {row["rule"] for row in cli("rules", "--json").data["rules"]}
    assert {"conv.epilogue", "conv.fold_batch_norm"} <= rules
    assert set(cli("switches", "--json").data) == rules
    assert "autofusion-kernels-cpu" in json.dumps(cli("plugins", "--json").data)


# --- demo -------------------------------------------------------------------------------------------------------------
def test_demo(cli: Callable[..., Ended], tmp_path: Path) -> None:
    ended = cli("demo", "--seconds", "0.1", "--output", "made")
    assert ended.code == 0
    for name, title in (("mobilenet_v3_small", "MobileNetV3-Small"), ("resnet18", "ResNet-18")):
        assert title in ended.out
        onnx.checker.check_model(onnx.load(tmp_path / "made" / f"{name}.onnx"))
        data = json.loads((tmp_path / "made" / f"{name}.report.json").read_text())
        assert data["bench"]["mean_relative"] < 1e-5
        assert "fused" in (tmp_path / "made" / f"{name}.report.txt").read_text()
    assert ended.out.count("mean-relative") == ended.out.count("report:") == 2


# --- export -----------------------------------------------------------------------------------------------------------
def test_export_keeps_what_only_suits_our_kernels(cli: Callable[..., Ended], tmp_path: Path) -> None:
    """A mean over space stays a reduction in the file, which runs as a pooling here."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 8, 6, 6]), ("y", [1, 8])))
    node = helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)
    graph = helper.make_graph([node], "mean", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "m.onnx")
    assert "GlobalAveragePool" in cli("explain", "m.onnx").out
    assert cli("export", "m.onnx", "-o", "out.onnx").code == 0
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["ReduceMean"]
