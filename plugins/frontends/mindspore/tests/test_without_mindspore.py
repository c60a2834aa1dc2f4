"""A MindIR is read and run where MindSpore is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.mindspore

ROOT = Path(__file__).parents[4]
CASES = ROOT / "tests" / "cases"
BLOCKED = "import sys\nsys.modules['mindspore'] = None  # importing it fails as if it were not installed\n"
RUN = """
import json, sys
from pathlib import Path
import numpy as np
import autofusion as af
from autofusion.errors import PluginError
from autofusion.frontends import LoadOptions
from autofusion_frontend_mindspore.frontend import MindsporeFrontend

for case in map(Path, sys.argv[1:]):
    model = case / json.loads((case / "case.json").read_text())["model_file"]
    with np.load(case / "inputs.npz") as inputs, np.load(case / "expected.npz") as expected:
        results = af.compile(model).run(dict(inputs))
        assert all(np.allclose(results[name], expected[name], atol=1e-4) for name in expected), case
    try:
        MindsporeFrontend().reference(model, LoadOptions())
    except PluginError as error:
        assert "autofusion-frontend-mindspore[mindspore]" in str(error)
    else:
        raise AssertionError("MindSpore was there")
assert sys.modules.get("mindspore") is None
print("ran", len(sys.argv) - 1)
"""
MODELS = [
    str(CASES / name)
    for name in (
        "202_same_and_valid_pad_bn_eval",
        "204_parameter_read_before_and_after_assign",
        "205_tensor_if_switch_partial",
        "209_parameters_in_separate_files",
    )
]


def test_models_run_where_mindspore_cannot_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED + RUN, *MODELS], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.split() == ["ran", "4"], done.stderr


@pytest.mark.slow
def test_models_run_in_an_environment_without_mindspore(tmp_path: Path) -> None:
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed (pip install uv)")
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv")], check=True)
    packages = [str(ROOT / p) for p in ("core", "plugins/frontends/mindspore", "plugins/kernels/reference")]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *packages], check=True)
    done = subprocess.run([str(python), "-c", RUN, *MODELS], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.split() == ["ran", "4"], done.stderr
