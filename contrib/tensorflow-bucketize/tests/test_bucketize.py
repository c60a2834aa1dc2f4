"""The package, installed as its pyproject.toml says, lets a model with its operator load, and run as in TensorFlow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")

HERE = Path(__file__).parents[1]

SCRIPT = """
import sys
import numpy as np
import autofusion as af

x = np.float32([[-3, 0, 0.5], [1, 99.5, 100]])
try:
    print(af.compile(sys.argv[1]).run({"x": x})["out"].tolist())
except af.errors.AutofusionError as error:
    print(type(error).__name__, error)
print([name for name in sys.modules if "contrib" in name])
"""


def install(folder: Path, text: str) -> None:
    """What an installer does: the package and its metadata, in ``folder``."""
    project = tomllib.loads(text)["project"]
    shutil.copytree(HERE / "src", folder, dirs_exist_ok=True)
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    requires = "".join(f"Requires-Dist: {r}\n" for r in project["dependencies"])
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n{requires}"
    (info / "METADATA").write_text(metadata)
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2, 3], "x")
        tf.raw_ops.Bucketize(input=x, boundaries=[0.0, 1.0, 100.0], name="out")
    path = tmp_path / "model.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def run(model: Path, folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    environment.pop("AUTOFUSION_PLUGINS", None)
    command = [sys.executable, "-c", SCRIPT, str(model)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_operator_is_added(model: Path, tmp_path: Path) -> None:
    install(tmp_path / "site", (HERE / "pyproject.toml").read_text())
    printed = run(model, tmp_path / "site").splitlines()
    wanted = tf.raw_ops.Bucketize(input=[[-3, 0, 0.5], [1, 99.5, 100]], boundaries=[0.0, 1.0, 100.0])
    assert printed[0] == str(wanted.numpy().tolist())
    assert printed[1] == "['autofusion_contrib_bucketize']"


def test_without_it_the_message_says_how(model: Path, tmp_path: Path) -> None:
    printed = run(model, tmp_path)
    assert printed.startswith("UnsupportedOperatorError")
    assert "'Bucketize'" in printed and "'out'" in printed and "autofusion.converters.tensorflow" in printed


def test_broken_package_is_named(model: Path, tmp_path: Path) -> None:
    install(tmp_path / "site", (HERE / "pyproject.toml").read_text())
    module = tmp_path / "site" / "autofusion_contrib_bucketize" / "__init__.py"
    module.write_text("raise RuntimeError('boom')")
    printed = run(model, tmp_path / "site")
    assert "boom" in printed and "autofusion-contrib-tensorflow-bucketize" in printed


def test_package_for_another_core_is_not_imported(model: Path, tmp_path: Path) -> None:
    text = (HERE / "pyproject.toml").read_text().replace("autofusion>=0.1,<1", "autofusion>=7")
    install(tmp_path / "site", text)
    printed = run(model, tmp_path / "site")
    assert "needs autofusion>=7" in printed and printed.splitlines()[-1] == "[]"


def test_locks_hold_it(model: Path, tmp_path: Path) -> None:
    install(tmp_path / "site", (HERE / "pyproject.toml").read_text())
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    lock = tmp_path / "autofusion.lock"
    command = [sys.executable, "-c", "from autofusion.cli import main; main()", "lock", "-o", str(lock)]
    subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "converters.tensorflow:Bucketize" in lock.read_text()
    environment["AUTOFUSION_LOCK"] = str(lock)
    command = [sys.executable, "-c", SCRIPT, str(model)]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.startswith("[[")
    # What the lock does not name is not used.
    entries = lock.read_text().split("[[pack]]")
    kept = [entry for entry in entries if "bucketize" not in entry]
    assert len(kept) == len(entries) - 1
    lock.write_text("[[pack]]".join(kept))
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "the lock does not name it" in printed
