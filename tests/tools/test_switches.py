"""Switches end to end: in Python, on the command line and in files, down to single kernels at single nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import autofusion as af
from autofusion.cli import cli
from autofusion.errors import OptionError
from autofusion.ir.graph import Graph
from autofusion.ir.text import from_text

BLOCKS = """
graph @blocks(%x: f32[1, 16, 12, 12]) -> (f32[1, 16, 12, 12]) {
  %w = constant dense<sha256:0a0a0a01> : f32[16, 16, 3, 3]
  %a = Conv(%x, %w) {dilations = [1, 1], group = 1, kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]} @ "a"
  %b = Relu(%a) @ "b"
  %c = Conv(%b, %w) {dilations = [1, 1], group = 1, kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]} @ "c"
  %d = Relu(%c) @ "d"
  return %d
}
"""


def blocks() -> Graph:
    from autofusion.ir.infer import infer_graph
    from autofusion.ir.text import SeededConstants

    graph = from_text(BLOCKS, SeededConstants())
    infer_graph(graph)
    return graph


def kernels(session: af.Session) -> dict[str, str]:
    return {"+".join(s.node.origin or (s.node.name,)): s.kernel for s in session.plan.steps if not s.is_reorder}


@pytest.fixture(scope="module")
def full() -> dict[str, str]:
    return kernels(af.compile(blocks(), threads=1))


def test_a_kernel_at_one_node(full: dict[str, str]) -> None:
    site = next(name for name in full if "c" in name.split("+"))
    session = af.compile(blocks(), threads=1, disable_kernels=[f"{full[site]}@c"])
    changed = kernels(session)
    assert changed[site] != full[site] if site in changed else len(changed) > len(full)
    assert {k: v for k, v in changed.items() if "a" in k} == {k: v for k, v in full.items() if "a" in k}


def test_a_whole_pack_at_one_node_leaves_the_reference_kernels() -> None:
    session = af.compile(blocks(), threads=1, disable_kernels=["cpu@c"])
    (kernel,) = (v for k, v in kernels(session).items() if "c" in k.split("+"))
    assert kernel.startswith("reference:")
    x = {"x": np.random.default_rng(0).standard_normal((1, 16, 12, 12)).astype(np.float32)}
    (got,), (want,) = session.run(x).values(), af.compile(blocks(), level="off", threads=1).run(x).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    told = [
        r for r in session.ledger.records if r.verdict.value == "no-kernel" and "switched off by 'cpu@c'" in r.reason
    ]
    assert told, "the ledger says why the site is not fused"


def test_numerics_leave_out_kernels_that_are_less_exact() -> None:
    x = {"x": np.random.default_rng(0).standard_normal((1, 16, 12, 12)).astype(np.float32)}
    approximate = af.compile(blocks(), threads=1)
    assert any("winograd" in kernel for kernel in kernels(approximate).values())
    session = af.compile(blocks(), threads=1, numerics="reassociated")
    assert all("winograd" not in kernel for kernel in kernels(session).values())
    refused = [r.refusal.reason for step in session.plan.steps for r in step.refusals]
    assert any("'conv.winograd4' is approximate, and option 'numerics' only allows" in reason for reason in refused)
    exact = af.compile(blocks(), threads=1, numerics="exact")
    by_the_book = af.compile(blocks(), level="off", threads=1, disable_kernels=["cpu"])
    (want,) = by_the_book.run(x).values()
    np.testing.assert_array_equal(*exact.run(x).values(), want)
    for other in (approximate, session):
        np.testing.assert_allclose(*other.run(x).values(), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(OptionError, match="option 'numerics' is 'fast'"):
        af.compile(blocks(), numerics="fast")


def test_unknown_kernels_are_named() -> None:
    with pytest.raises(OptionError, match=r"offers no kernel 'conv.direkt'.*did you mean"):
        af.compile(blocks(), threads=1, disable_kernels=["cpu:conv.direkt"])
    with pytest.raises(OptionError, match="'cc' is not the name of a node"):
        af.compile(blocks(), threads=1, disable_kernels=["cpu@cc"])


def test_a_settings_file_is_read_in_python(tmp_path: Path) -> None:
    file = tmp_path / "fusion_switch.cfg"
    file.write_text("TbeCommonRules0FusionPass:off\n")
    session = af.compile(blocks(), threads=1, config=file)
    assert not [r for r in session.ledger.records if r.verdict.value == "fused" and r.rule.startswith("conv.")]


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("autofusion.toml").write_text('[fusion]\ndisable = ["conv.activation"]\n')
    done = CliRunner().invoke(cli, ["switches", "--disable", "pointwise", "--json"], catch_exceptions=False)
    state = json.loads(done.output)
    assert state["conv.activation"].startswith("option 'disable'") and state["pointwise.region"] != "on"
    assert state["conv.epilogue"] == "on"
    CliRunner().invoke(cli, ["switches", "-o", "fusion_switch.cfg"], catch_exceptions=False)
    assert Path("fusion_switch.cfg").read_text() == "conv.activation:off\n"
    CliRunner().invoke(cli, ["switches", "--config", "fusion_switch.cfg", "-o", "back.toml"], catch_exceptions=False)
    assert '"conv.activation"' in Path("back.toml").read_text()
