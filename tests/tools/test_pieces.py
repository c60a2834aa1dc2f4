"""The parts that verification and bisection stand on: double precision, cases as files, places, the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import autofusion as af
from autofusion.ir.dtypes import dtype_from_name
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import from_text, to_text
from autofusion.tools.cases import read_case, write_case
from autofusion.tools.verify.exact import double_graph, exact_session, exact_values

CASTS = """
graph @casts(%x: f32[3], %n: i64[3]) -> (y: f32[3], z: f32[3]) {
  %c = constant dense<[0.1, 0.2, 0.3]> : f32[3]
  %a = Add(%x, %c)
  %i = Cast(%n) {to = f32}
  %y = Mul(%a, %i)
  %k = ConstantOfShape(%s) {value = dense<[0.1]> : f32[1]}
  %z = Sub(%y, %k)
  return %y, %z
}
""".replace("  %a =", "  %s = constant dense<[3]> : i64[1]\n  %a =")


def graph(text: str) -> Graph:
    made = from_text(text)
    infer_graph(made)
    return made


def test_double_precision_reaches_every_type() -> None:
    source = graph(CASTS)
    double = double_graph(source)
    infer_graph(double)
    kinds = {v.name: str(v.type) for v in double.values()}
    assert kinds["x"] == "f64[3]" and kinds["n"] == "i64[3]" and kinds["y"] == "f64[3]" and kinds["k"] == "f64[3]"
    x, n = np.float32([1, 2, 3]), np.array([1, 2, 3])
    values = exact_session(source).run({"x": x.astype(np.float64), "n": n})
    c = np.float32([0.1, 0.2, 0.3]).astype(np.float64)
    np.testing.assert_array_equal(values["y"], (x + c) * n)
    np.testing.assert_array_equal(exact_values(source, {"x": x, "n": n}, ["a"])["a"], x + c)
    assert str(source.inputs[0].type) == "f32[3]", "the source is as it was"


def test_cases_come_back_bit_for_bit(tmp_path: Path) -> None:
    bf16 = dtype_from_name("bf16")
    made = Graph("case")
    random = np.random.default_rng(0)
    x = made.add_input("a/x:0", None)
    large = made.constant(random.standard_normal((5, 7)).astype(np.float32), "large")
    y = made.node("Add", [x, large], name="n", origin=("n",)).output
    made.add_output(made.node("Cast", [y], {"to": bf16}, name="c", origin=("c",)).output, "out")
    inputs = {
        "a/x:0": random.standard_normal((5, 7)).astype(np.float32),
        "b": np.zeros((2, 0), bf16),
        "s": np.float32(3),
    }
    write_case(tmp_path / "case", made, inputs)
    graph_again, inputs_again = read_case(tmp_path / "case")
    assert to_text(graph_again, with_names=True) == to_text(made, with_names=True)
    np.testing.assert_array_equal(graph_again.constants()[0].const, large.const)
    for name, array in inputs.items():
        assert (inputs_again[name].dtype, inputs_again[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(inputs_again[name], array)


def test_only_some_places(blocks_model: Path) -> None:
    shapes = {"x": (1, 24, 20, 20)}

    def applied(*only: str) -> set[tuple[str, str]]:
        session = af.compile(blocks_model, shapes=shapes, threads=1, only_sites=only)
        records = [r for r in session.ledger.records if r.verdict.value == "fused"]
        return {(r.rule.partition("@")[0], r.site) for r in records}

    assert applied() == set()
    assert applied("conv.fold_batch_norm:block1.bn") == {("conv.fold_batch_norm", "block1.bn")}
    assert {site for _, site in applied("block1.conv2")} == {"block1.conv2"}
    with pytest.raises(af.AutofusionError, match=r"'block9.bn' is not the name of a node"):
        applied("conv.fold_batch_norm:block9.bn")


@pytest.mark.slow
def test_the_bisect_command(blocks_model: Path, faults: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    arguments = [
        sys.executable, "-m", "autofusion", "bisect", str(blocks_model), "--shape", "x:1,24,20,20", "--threads", "2",
        "--only-site", "block1.conv1", "--only-site", "block1.bn", "-o", str(tmp_path / "out"),
    ]  # fmt: skip

    def run(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, env={**os.environ, **environ}, capture_output=True, text=True, timeout=300, check=False
        )

    done = run(faults(one_channel="block1.conv1"))
    assert done.returncode == 0, done.stderr
    assert "kernel faulty:conv.one_channel (version 3.1) at 'block1.conv1', fused by conv.activation@" in done.stdout
    data = json.loads((tmp_path / "out" / "report.json").read_text())
    (culprit,) = data["culprits"]
    assert culprit["blame"] == "kernel" and culprit["reproducer"]["size"] == "node"
    assert (Path(culprit["reproducer"]["folder"]) / "reproduce.py").exists()
    arguments += ["--tolerance", "f32:1e-3"]
    done = run(faults(one_channel="block1.conv1"))
    assert done.returncode == 4 and "nothing fails with everything on" in done.stdout, "it is within that"
    done = run(faults())
    assert done.returncode == 4 and "nothing fails with everything on" in done.stdout
