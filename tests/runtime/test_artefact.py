"""Compiled models in one file: what is saved runs the same, and a file that is not what was written is refused."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import autofusion as af
from autofusion.cli import cli
from autofusion.errors import InputError, ModelError
from autofusion.ir.text import SeededConstants, from_text
from autofusion.runtime.session import Session

CONV = """
graph @net(%x: f32[N, 3, 12, 12]) -> (y: f32[N, 5]) {
  %w = constant dense<sha256:0a1b2c3d> : f32[16, 3, 3, 3]
  %b = constant dense<sha256:1a1b2c3d> : f32[16]
  %v = constant dense<sha256:2a1b2c3d> : f32[1600, 5]
  %0 = Conv(%x, %w, %b)
  %1 = Relu(%0)
  %2 = Flatten(%1)
  %y = MatMul(%2, %v)
  return %y
}
"""
GATHER = """
graph @lookup(%table: f32[9, 40], %i: i64[4]) -> (y: f32[4, 40]) {
  %y = Gather(%table, %i)
  return %y
}
"""


def compiled(text: str, **shapes: tuple[int, ...]) -> Session:
    return af.compile(from_text(text, SeededConstants()), shapes=shapes or None, threads=2)


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 3, 12, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Session]:
    session = compiled(CONV, x=(1, 3, 12, 12))
    session.prepare({"x": (4, 3, 12, 12)})
    path = tmp_path_factory.mktemp("artefact") / "net.af"
    return path, session.save(path), session


def agrees(saved_session: af.Session, session: Session, *counts: int) -> bool:
    return all(
        saved_session.run({"x": images(n)})["y"].tobytes() == session.run({"x": images(n)})["y"].tobytes()
        for n in counts
    )


def test_plans_run_from_the_files_code(saved: tuple[Path, str, Session]) -> None:
    path, _, session = saved
    with af.load_artefact(path) as loaded:
        assert loaded.restored, loaded.reason
        assert agrees(loaded, session, 1, 4)
        assert len(loaded.shapes) == 2
        assert loaded.ledger.records == session.ledger.records
    with pytest.raises(InputError, match="closed"):
        loaded.run({"x": images(1)})


def test_other_shapes_are_planned_from_the_graph_inside(saved: tuple[Path, str, Session]) -> None:
    path, _, session = saved
    assert agrees(af.load_artefact(path), session, 7)


def test_other_shapes_are_refused_if_the_file_says_so(tmp_path: Path) -> None:
    session = compiled(CONV, x=(1, 3, 12, 12))
    session.save(tmp_path / "a.af", other_shapes="error")
    with pytest.raises(InputError, match=r"no plan for inputs f32\[2, 3, 12, 12\].*plans for f32\[1, 3, 12, 12\]"):
        af.load_artefact(tmp_path / "a.af").run({"x": images(2)})


def test_code_of_others_is_generated_again(
    saved: tuple[Path, str, Session], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, digest, session = saved
    stranger = af.load_artefact(path, trust="00")
    assert not stranger.restored and "not trusted" in stranger.reason
    assert agrees(stranger, session, 1, 4)
    monkeypatch.setenv("AUTOFUSION_CACHE", str(tmp_path))
    assert not af.load_artefact(path).restored
    assert af.load_artefact(path, trust=digest).restored


def test_loading_imports_no_compiler_and_no_rules(saved: tuple[Path, str, Session]) -> None:
    path, digest, session = saved
    code = (
        "import sys, numpy, autofusion\n"
        f"loaded = autofusion.load_artefact({str(path)!r}, trust={digest!r})\n"
        "x = numpy.random.default_rng(4).standard_normal((4, 3, 12, 12)).astype('float32')\n"
        "print(loaded.run({'x': x})['y'].tobytes().hex())\n"
        "print([m for m in sys.modules if m.startswith(('llvmlite', 'autofusion_rules', 'autofusion_frontend',"
        " 'autofusion.rules', 'autofusion.fusion', 'packaging', 'autofusion_kernels_cpu.codegen'))])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert out[0] == session.run({"x": images(4)})["y"].tobytes().hex()
    assert out[1] == "[]"


def test_what_kernels_take_note_of_is_told(tmp_path: Path) -> None:
    session = compiled(GATHER)
    session.save(tmp_path / "a.af")
    loaded = af.load_artefact(tmp_path / "a.af")
    assert loaded.restored
    table = np.arange(360, dtype=np.float32).reshape(9, 40)
    for _ in range(2):
        with pytest.raises(InputError, match="index 9 is out of range for axis 0, expected -9 to 8"):
            loaded.run({"table": table, "i": np.array([0, 9, 1, 2])})
        np.testing.assert_array_equal(
            loaded.run({"table": table, "i": np.array([0, 8, 1, -9])})["y"], table[[0, 8, 1, 0]]
        )


def test_inputs_are_checked_and_sessions_pickle(saved: tuple[Path, str, Session]) -> None:
    path, _, session = saved
    loaded = af.load_artefact(path)
    with pytest.raises(InputError, match="wrong dtype"):
        loaded.run({"x": images(1).astype(np.float64)})
    with pytest.raises(InputError, match="no input 'z'"):
        loaded.run({"z": images(1)})
    assert agrees(pickle.loads(pickle.dumps(loaded)), session, 4)


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"\x08\x07", os.urandom(4096)):
        (tmp_path / "a.af").write_bytes(content)
        with pytest.raises(ModelError, match="is not an artefact"):
            af.load_artefact(tmp_path / "a.af")
    with pytest.raises(ModelError, match="cannot be read"):
        af.load_artefact(tmp_path / "missing.af")


def test_damage_is_told_with_the_section(saved: tuple[Path, str, Session], tmp_path: Path) -> None:
    path, digest, _ = saved
    container = af.load_artefact(path).container
    for name, section in container._sections.items():
        data = bytearray(path.read_bytes())
        data[section.offset + section.length // 2] ^= 1
        (tmp_path / "a.af").write_bytes(data)
        with pytest.raises(ModelError, match=f"section '{name}'"):
            af.load_artefact(tmp_path / "a.af", trust=digest).container.check(name)


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_changed_files_are_refused_or_right(saved: tuple[Path, str, Session], tmp_path: Path, count: int) -> None:
    path, digest, session = saved
    original, generator = path.read_bytes(), random.Random(7)
    expected = session.run({"x": images(1)})["y"].tobytes()
    refused = 0
    for number in range(count):
        data = bytearray(original)
        if number % 5 == 0:
            data = data[: generator.randrange(len(data))]
        else:
            # Half of the places are in the manifest and what describes the sections.
            limit = len(data) if number % 2 else 8192
            data[generator.randrange(limit)] ^= 1 << generator.randrange(8)
        part = tmp_path / f"{number}.af"
        part.write_bytes(data)
        try:
            result = af.load_artefact(part, trust=digest).run({"x": images(1)})["y"].tobytes()
        except ModelError:
            refused += 1
        else:
            assert result == expected
        part.unlink()
    assert refused > count // 2


def test_the_command_writes_a_plan_for_each_set_of_shapes(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    onnx = pytest.importorskip("onnx")
    weights = onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="c")],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, ["n", 3, 8, 8])],
        [onnx.helper.make_tensor_value_info("y", 1, ["n", 4, 6, 6])],
        [weights],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), model)
    arguments = ["compile", str(model), "--shape", "x:1,3,8,8", "--shape", "x:2,3,8,8", "--threads", "1"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert "2 plan(s)" in result.output and (tmp_path / "net.af").exists()
    assert af.load_artefact(tmp_path / "net.af").shapes == [["f32[1, 3, 8, 8]"], ["f32[2, 3, 8, 8]"]]
