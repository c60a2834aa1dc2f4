"""A frozen graph loads and runs where TensorFlow cannot be imported; what does need TensorFlow says so."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pytest

CASES = Path(__file__).parents[4] / "tests" / "cases"
CASE = CASES / "117_dilated_conv_as_space_to_batch"
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras", "tf_keras"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np
import autofusion as af
"""


def run(code: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_frozen_graph(tmp_path: Path) -> None:
    code = """
model, inputs, results = sys.argv[1:]
with np.load(inputs) as stored:
    outputs = af.compile(model, threads=1).run(dict(stored))
np.savez(results, *outputs.values())
assert "tensorflow" not in sys.modules
"""
    done = run(code, CASE / "model.pb", CASE / "inputs.npz", tmp_path / "results.npz")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "results.npz") as got, np.load(CASE / "expected.npz") as want:
        for a, b in zip(got.values(), want.values(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("what", ["load", "reference"])
def test_what_needs_tensorflow_says_so(what: str, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"\x08\x01\x12\x02\x0a\x00")
    code = """
from pathlib import Path
from autofusion.errors import PluginError
from autofusion.frontends.contract import LoadOptions
from autofusion_frontend_tensorflow.frontend import TensorflowFrontend
try:
    getattr(TensorflowFrontend(), sys.argv[1])(Path(sys.argv[2]), LoadOptions())
except PluginError as error:
    print(error)
"""
    path = tmp_path / "saved" if what == "load" else CASE / "model.pb"
    done = run(code, Path(what), path)
    assert "autofusion-frontend-tensorflow[tensorflow]" in done.stdout, done.stderr


def test_the_distribution_does_not_require_it() -> None:
    stated = requires("autofusion-frontend-tensorflow") or []
    assert [r for r in stated if r.startswith("tensorflow")] == [r for r in stated if "extra" in r] != []
