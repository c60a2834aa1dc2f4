"""From wheels into fresh environments with plain pip: packs of third parties installed, pinned, and upgraded apart.

Everything is built once, then installed with `pip --no-index`: what an environment without a registry sees.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from autofusion.tools.scaffold import scaffold
from tests.support.commands import done, uv
from tests.support.projects import ROOT

pytestmark = pytest.mark.slow

OURS = ("core", "plugins/frontends/onnx", "plugins/kernels/reference")


def _edited(folder: Path, *changes: tuple[str, str]) -> None:
    """Change a pack's source and say that it is the next version."""
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace('version = "0.1.0"', 'version = "0.2.0"'))
    (source,) = folder.glob("src/*/pack.py")
    text = source.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    source.write_text(text)


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of core, of what a small deployment needs, and of two third-party packs in two versions each."""
    folder, wheels = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheelhouse")
    kernels = scaffold("kernels", "acme", folder / "kernels-1")
    (source,) = kernels.glob("src/*/pack.py")
    source.write_text(
        source.read_text().replace(
            '    "Add": np.add,\n', '    "Add": np.add,\n    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),\n'
        )
    )
    shutil.copytree(kernels, folder / "kernels-2")
    _edited(folder / "kernels-2", ('kernel="acme.pointwise"', 'kernel="acme.pointwise_faster"'))
    scaffold("rules", "acme", folder / "rules-1")
    shutil.copytree(folder / "rules-1", folder / "rules-2")
    gate = 'if user.op == "Mul" and x in user.inputs'
    _edited(folder / "rules-2", (gate, f"{gate} and x is not None and len(x.shape or ()) == 2"))
    for source in (*(ROOT / name for name in OURS), *sorted(folder.iterdir())):
        done([*uv(), "build", "--wheel", "--quiet", "--out-dir", str(wheels), str(source)])
    # What they depend on comes from the registry, once, and from then on from the folder.
    builder = tmp_path_factory.mktemp("builder") / "venv"
    done([sys.executable, "-m", "venv", str(builder)])
    named = [str(p) for p in sorted(wheels.glob("*.whl")) if "0.2.0" not in p.name]
    pip = [str(builder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    done([*pip, "download", "--quiet", "--dest", str(wheels), "--find-links", str(wheels), *named])
    return wheels


@dataclass(frozen=True)
class Environment:
    """A fresh environment that knows the wheelhouse only, and a folder to work in."""

    python: Path
    wheelhouse: Path
    folder: Path

    def install(self, *requirements: str) -> None:
        source = ["--no-index", "--find-links", str(self.wheelhouse)]
        done(
            [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *source, *requirements]
        )

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AUTOFUSION_", "PYTHON"))}
        return subprocess.run(
            [str(self.python), *command],
            env=inherited | environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def autofusion(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "autofusion", *command, **environ)


MODEL = """
from pathlib import Path
import numpy as np
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.plugins.registry import default_registry

graph = Graph("net")
for name, shape in (("flat", (64, 256)), ("deep", (4, 64, 64))):
    x = graph.add_input(name, TensorType(np.dtype(np.float32), shape))
    gate = graph.node("Sigmoid", [x], name=f"{name}_gate", origin=[f"{name}_gate"])
    out = graph.node("Mul", [x, gate.output], name=f"{name}_mul", origin=[f"{name}_mul"])
    graph.add_output(out.output, f"{name}_out")
infer_graph(graph)
default_registry().frontend("onnx").export(graph, Path("net.onnx"), inline=True)
"""


@pytest.fixture
def environment(wheelhouse: Path, tmp_path: Path) -> Environment:
    """With version 0.1.0 of both packs, a model, its baseline, and a lock."""
    done([sys.executable, "-m", "venv", str(tmp_path / "venv")])
    work = tmp_path / "work"
    work.mkdir()
    made = Environment(tmp_path / "venv" / "bin" / "python", wheelhouse, work)
    ours = ("autofusion-frontend-onnx", "autofusion-kernels-reference")
    made.install(*ours, "autofusion-rules-acme==0.1.0", "autofusion-kernels-acme==0.1.0")
    assert made.run("-c", MODEL).returncode == 0
    recorded = made.autofusion("record", "net.onnx", "-o", "baseline.json", "--seconds", "0")
    assert recorded.returncode == 0, recorded.stderr
    assert "net.onnx: 2 sites" in recorded.stdout
    locked = made.autofusion("lock")
    assert "autofusion-rules-acme 0.1.0" in locked.stdout, locked.stderr
    return made


def _sites(environment: Environment, which: str) -> list[dict[str, object]]:
    done = environment.autofusion("check", "baseline.json", "--seconds", "0", "--json")
    (model,) = json.loads(done.stdout)["models"]
    found: list[dict[str, object]] = model["ledger"][which]
    return found


def test_plugins_and_models_work_from_wheels(environment: Environment) -> None:
    listed = environment.autofusion("plugins")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "autofusion-rules-acme==0.1.0" in listed.stdout
    done = environment.autofusion("--locked", "run", "net.onnx")
    assert "flat_out: f32[64, 256]" in done.stdout, done.stderr
    explained = environment.autofusion("explain", "net.onnx", "deep_mul")
    assert "acme:acme.pointwise (pack 0.1.0)" in explained.stdout


def test_a_rule_pack_upgraded_alone(environment: Environment) -> None:
    environment.install("autofusion-rules-acme==0.2.0")
    checked = environment.autofusion("check", "baseline.json", "--seconds", "0")
    assert checked.returncode == 1, "a lost site is a regression"
    assert "upgraded: autofusion-rules-acme 0.1.0 -> 0.2.0" in checked.stdout
    assert "REGRESSION 1 sites lost: 'deep_gate' [acme.gate@0.1.0]" in checked.stdout
    assert [c["site"] for c in _sites(environment, "lost")] == ["deep_gate"]
    (left,) = _sites(environment, "changed")
    assert left["site"] == "flat_gate"
    assert left["fields"] == {"rule": ["acme.gate@0.1.0", "acme.gate@0.2.0"]}, "and no kernel"
    assert environment.autofusion("check", "baseline.json", "--seconds", "0", "--lost", "1").returncode == 0


def test_the_lock_keeps_the_deployment_where_it_was(environment: Environment) -> None:
    environment.install("autofusion-rules-acme==0.2.0")
    refused = environment.autofusion("--locked", "run", "net.onnx")
    assert refused.returncode == 2
    assert "autofusion-rules-acme is 0.2.0, the lock says 0.1.0" in refused.stderr
    assert "pip install 'autofusion-rules-acme==0.1.0'" in refused.stderr
    assert environment.autofusion("run", "net.onnx").returncode == 0, "without the lock it runs"
    environment.install("autofusion-rules-acme==0.1.0")
    assert environment.autofusion("--locked", "run", "net.onnx").returncode == 0, "the very same content again"


def test_the_lock_is_upgraded_one_pack_at_a_time(environment: Environment) -> None:
    environment.install("autofusion-rules-acme==0.2.0", "autofusion-kernels-acme==0.2.0")
    upgraded = environment.autofusion("lock", "--upgrade", "autofusion-rules-acme")
    assert "autofusion-rules-acme 0.1.0 -> 0.2.0" in upgraded.stdout
    refused = environment.autofusion("--locked", "plugins")
    assert "autofusion-kernels-acme is 0.2.0, the lock says 0.1.0" in refused.stderr
    assert "autofusion-rules-acme is" not in refused.stderr
    environment.install("autofusion-kernels-acme==0.1.0")
    assert environment.autofusion("--locked", "plugins").returncode == 0


def test_a_kernel_pack_upgraded_alone(environment: Environment) -> None:
    environment.install("autofusion-kernels-acme==0.2.0")
    checked = environment.autofusion("check", "baseline.json", "--seconds", "0")
    assert checked.returncode == 0, checked.stdout
    assert "upgraded: autofusion-kernels-acme 0.1.0 -> 0.2.0" in checked.stdout
    assert "other kernel: acme:acme.pointwise@0.1.0 -> acme:acme.pointwise_faster@0.2.0" in checked.stdout
    changed = _sites(environment, "changed")
    assert {str(c["site"]) for c in changed} == {"flat_gate", "deep_gate"}
    for change in changed:
        assert change["fields"] == {"kernel": ["acme.pointwise@0.1.0", "acme.pointwise_faster@0.2.0"]}, "and no rule"
    assert _sites(environment, "lost") == _sites(environment, "gained") == []


def test_two_deployments_keep_two_locks(environment: Environment) -> None:
    environment.autofusion("lock", "-o", "edge.lock", "--disable", "acme.gate")
    edge = environment.autofusion("explain", "net.onnx", "flat_mul", AUTOFUSION_LOCK="edge.lock")
    assert "disabled" in edge.stdout, edge.stderr
    server = environment.autofusion("--locked", "explain", "net.onnx", "flat_mul")
    assert "fused by" in server.stdout, server.stderr


def test_a_new_pack_installs(environment: Environment) -> None:
    """The templates are part of the installed wheel, and what `autofusion new` writes can be built and installed."""
    written = environment.autofusion("new", "rules", "mine")
    assert written.returncode == 0, written.stderr
    folder = environment.folder / "autofusion-rules-mine"
    done([*uv(), "build", "--wheel", "--quiet", "--out-dir", str(environment.folder / "own"), str(folder)])
    (wheel,) = (environment.folder / "own").glob("*.whl")
    environment.install(str(wheel))
    assert "autofusion-rules-mine==0.1.0" in environment.autofusion("plugins").stdout
