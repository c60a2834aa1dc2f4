"""The worked packs in contrib, each installed and tried with its own tests, and the frontend on a real model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.projects import CONTRIB, install, run, run_tests
from tests.zoo import zoo

PACKS = sorted(p.parents[1].name for p in CONTRIB.glob("*/tests/test_conformance.py") if "template" not in str(p))
NEEDS = {"onnxruntime-kernels": "onnxruntime", "frontend-tflite": "tflite"}


def test_there_are_three() -> None:
    assert {"byte-tables", "onnxruntime-kernels", "frontend-tflite"} <= set(PACKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKS)
def test_its_own_tests_pass(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    install(tmp_path / "installed", CONTRIB / name)
    done = run_tests(tmp_path / "installed", CONTRIB / name)
    assert done.returncode == 0, done.stdout + done.stderr


PITCH = zoo.ZooModel(
    "basic_pitch_tflite",
    "3db297d54af8e01c6e5618245c956b1d71b6a2b978cb2dedb527173186552676",
    ({"input_2": zoo.Input((1, 43844, 1), "normal", scale=0.1)},),
    wheel="basic-pitch",
    version="0.4.0",
    member="basic_pitch/saved_models/icassp_2022/nmp.tflite",
)
SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
import autofusion
from autofusion.frontends.contract import LoadOptions
from autofusion.plugins.registry import default_registry
path, x = Path(sys.argv[1]), np.load(sys.argv[2])
frontend = default_registry().frontend_for(path)
expected = frontend.reference(path, LoadOptions())({"input_2": x})
session = autofusion.compile(path, shapes={"input_2": x.shape})
found = session.run({"input_2": x})
apart = {k: float(np.abs(found[k] - v).max() / np.abs(v).max()) for k, v in expected.items()}
print(json.dumps({"frontend": frontend.name, "apart": apart, "fused": session.ledger.counts()["fused"]}))
"""


@pytest.mark.slow
def test_a_published_tflite_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite")
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setitem(zoo.MODELS, PITCH.name, PITCH)
    path, inputs = zoo.model_path(PITCH.name), zoo.inputs(PITCH.name)
    np.save(tmp_path / "x.npy", inputs["input_2"])
    install(tmp_path / "installed", CONTRIB / "frontend-tflite")
    done = run(tmp_path / "installed", ["-c", SCRIPT, str(path), str(tmp_path / "x.npy")])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["frontend"] == "tflite"
    assert sorted(found["apart"]) == ["contour", "note", "onset"]
    assert max(found["apart"].values()) < 1e-3, found
    assert found["fused"] > 50
