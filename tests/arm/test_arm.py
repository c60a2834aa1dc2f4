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
by_hand = pytest.mark.skipif(
    "config.option.markexpr != 'arm'", reason="takes long under emulation; `pytest -m arm` runs it"
)

KERNELS = ROOT / "plugins" / "kernels" / "cpu" / "tests"
SAMPLE = ("test_conv_single_axes", "test_pooling")
"""Tests of kernels that take a minute under emulation; `pytest -m arm` runs them all, in an hour."""


HOURS = {"test_cpu_conformance"}
"""Left out: the conformance kit draws hundreds of graphs."""

NOT_EMULATED = "not process_exits and not times_are"
"""Tests that start other programs, or that need a clock."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> emulated.Emulated:
    """One for all tests, with an object cache of its own."""
    return emulated.make(tmp_path_factory.mktemp("own"))


def test_it_is_an_arm(python: emulated.Emulated) -> None:
    code = "import platform, autofusion_kernels_cpu.codegen.isa as i; print(platform.machine(), i.host_isa().name)"
    assert python.run("-c", code).split() == ["aarch64", "neon"]


@pytest.mark.parametrize("name", ["ppocr_cls", pytest.param("silero_vad_op18_ifless", marks=by_hand)])
def test_models(python: emulated.Emulated, tmp_path: Path, name: str) -> None:
    inputs, here, there = (tmp_path / f"{part}.npz" for part in ("inputs", "here", "there"))
    np.savez(inputs, **zoo.inputs(name))
    model = f"{name}={zoo.model_path(name)}={inputs}"
    subprocess.run([sys.executable, program.__file__, str(here), model], check=True, capture_output=True)
    ran = python.run(program.__file__, str(there), model, AUTOFUSION_CACHE=str(tmp_path / "cache"))
    assert "reference" not in ran
    with np.load(here) as expected, np.load(there) as found:
        assert sorted(found) == sorted(expected)
        for key, want in expected.items():
            np.testing.assert_allclose(found[key], want, rtol=1e-4, atol=2e-6, err_msg=key)


@pytest.mark.parametrize("name", SAMPLE)
def test_kernels(python: emulated.Emulated, tmp_path: Path, name: str) -> None:
    _pytest(python, tmp_path, KERNELS / f"{name}.py")


@pytest.mark.parametrize("name", sorted({path.stem for path in KERNELS.glob("test_*.py")} - {*SAMPLE, *HOURS}))
@by_hand
def test_other_kernels(python: emulated.Emulated, tmp_path: Path, name: str) -> None:
    _pytest(python, tmp_path, KERNELS / f"{name}.py")


def _pytest(python: emulated.Emulated, tmp_path: Path, path: Path) -> None:
    options = [
        "-oaddopts=",
        "--import-mode=importlib",
        "-q",
        "-x",
        "-m",
        "not slow",
        "-k",
        NOT_EMULATED,
        "-p",
        "no:cacheprovider",
    ]
    python.run("-m", "pytest", *options, str(path), AUTOFUSION_CACHE=str(tmp_path))
