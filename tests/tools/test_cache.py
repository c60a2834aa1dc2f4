"""``autofusion cache``: kernels compiled ahead of time are found by the next process, also where it only reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An If of two branches with kernels of their own; made-up conditions only take the one of them."""
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    bodies = {
        name: helper.make_graph(
            [helper.make_node(op, ["x"], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)]
        )
        for name, op in (("then", "Sigmoid"), ("other", "Tanh"))
    }
    node = helper.make_node("If", ["flag"], ["y"], then_branch=bodies["then"], else_branch=bodies["other"])
    graph = helper.make_graph([node], "g", [flag, x], [y])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run(folders: list[Path], *arguments: object) -> Any:
    environ = {**os.environ, "AUTOFUSION_CACHE": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-m", "autofusion", "cache", *map(str, arguments)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def test_a_warmed_cache_is_found_and_emptied(model: Path, tmp_path: Path) -> None:
    image, own = tmp_path / "image", tmp_path / "own"
    (first,) = run([image], "warm", f"{model}@x:2,5", "--threads", "1", "--shared", "--json")
    assert first["compiled"] >= 2 and first["found"] == 0
    for path in (image / "kernels").iterdir():
        assert path.stat().st_mode & 0o044 == 0o044
    (again,) = run([own, image], "warm", model, "--shape", "x:2,5", "--threads", "1", "--json")
    assert again["compiled"] == 0 and again["found"] == first["compiled"]
    written, read = run([own, image], "info", "--json")
    assert (written["kernels"], written["is_first"]) == (0, True)
    assert (read["kernels"], read["problem"]) == (first["compiled"], "")
    assert f"removed {first['compiled']} kernels" in run([image], "clean")
    assert "0 kernels, 0.0 MiB  (written to)" in run([image], "info")


def test_kernels_that_cannot_be_kept_are_an_error(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environ = {**os.environ, "AUTOFUSION_CACHE": str(tmp_path / "file")}
    command = [sys.executable, "-m", "autofusion", "cache", "warm", str(model), "--shape", "x:1,5"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "compiled kernels are not kept in" in done.stderr
