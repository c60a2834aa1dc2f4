"""Kernels for AArch64 compute what those of this machine do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.arm import emulated, program
from tests.support.projects import ROOT
from tests.zoo import zoo

pytestmark = [pytest.mark.slow, pytest.mark.arm]

KERNELS = ROOT / "plugins" / "kernels" / "cpu" / "tests"
SAMPLE = ("test_conv_single_axes", "test_pooling", "test_native_pool")
"""Tests of kernels that take two minutes under emulation; `pytest -m arm` runs them all, in an hour."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> emulated.Emulated:
    """One for all tests, with an object cache of its own."""
    return emulated.make(tmp_path_factory.mktemp("own"))


def test_it_is_an_arm(python: emulated.Emulated) -> None:
    code = "import platform, autofusion_kernels_cpu.codegen.isa as i; print(platform.machine(), i.host_isa().name)"
    assert python.run("-c", code).split() == ["aarch64", "neon"]


def test_models(python: emulated.Emulated, tmp_path: Path) -> None:
    models = []
    for name in ("ppocr_cls", "silero_vad_op18_ifless"):
        inputs = tmp_path / f"{name}.npz"
        np.savez(inputs, **zoo.inputs(name))
        models.append(f"{name}={zoo.model_path(name)}={inputs}")
    here, there = tmp_path / "here.npz", tmp_path / "there.npz"
    subprocess.run([sys.executable, program.__file__, str(here), *models], check=True, capture_output=True)
    ran = python.run(program.__file__, str(there), *models, AUTOFUSION_CACHE=str(tmp_path / "cache"))
    assert "reference" not in ran
    with np.load(here) as expected, np.load(there) as found:
        assert sorted(found) == sorted(expected)
        for key, want in expected.items():
            np.testing.assert_allclose(found[key], want, rtol=1e-4, atol=2e-6, err_msg=key)


@pytest.mark.parametrize("name", SAMPLE)
def test_kernels(python: emulated.Emulated, tmp_path: Path, name: str) -> None:
    _pytest(python, tmp_path, KERNELS / f"{name}.py")


@pytest.mark.parametrize("name", sorted({path.stem for path in KERNELS.glob("test_*.py")} - set(SAMPLE)))
@pytest.mark.skipif("config.option.markexpr != 'arm'", reason="takes long under emulation; `pytest -m arm` runs it")
def test_other_kernels(python: emulated.Emulated, tmp_path: Path, name: str) -> None:
    _pytest(python, tmp_path, KERNELS / f"{name}.py")


def _pytest(python: emulated.Emulated, tmp_path: Path, path: Path) -> None:
    options = ["-oaddopts=", "--import-mode=importlib", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider"]
    python.run("-m", "pytest", *options, str(path), AUTOFUSION_CACHE=str(tmp_path))
