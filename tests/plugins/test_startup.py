"""Starting up stays light: by what is imported, since times on a shared machine say little."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.projects import CONTRIB, install, run

CONTRIBUTED = (
    "byte-tables",
    "frontend-tflite",
    "onnxruntime-kernels",
    "template-rules",
    "template-kernels",
    "template-frontend",
    "tensorflow-bucketize",
)
HEAVY = (
    "tensorflow",
    "mindspore",
    "torch",
    "onnxruntime",
    "openvino",
    "onnx",
    "scipy",
    "keras",
    "jax",
    "tflite",
    "llvmlite",
)
PRINT = f"\nprint([m for m in {HEAVY!r} if m in sys.modules], 'numpy' in sys.modules)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every pack of contrib beside ours."""
    place = tmp_path_factory.mktemp("packs") / "installed"
    install(place, *(CONTRIB / name for name in CONTRIBUTED))
    return place


def imported(folder: Path, code: str) -> tuple[list[str], str]:
    done = run(folder, ["-X", "importtime", "-c", f"import sys\n{code}{PRINT}"])
    assert done.returncode == 0, done.stderr
    modules = re.findall(r"^import time:.*\| *([\w.]+)$", done.stderr, flags=re.MULTILINE)
    return modules, done.stdout.splitlines()[-1]


def test_importing_the_package_imports_next_to_nothing(folder: Path) -> None:
    modules, heavy = imported(folder, "import autofusion")
    assert heavy == "[] False", "not even NumPy"
    ours = [m for m in modules if m.startswith("autofusion")]
    assert set(ours) == {"autofusion", "autofusion.errors"}
    assert len(modules) < 80


def test_listing_plugins_imports_no_framework(folder: Path) -> None:
    code = "sys.argv = ['autofusion', 'plugins']\nfrom autofusion.cli import main\nmain()"
    modules, heavy = imported(folder, code)
    assert heavy.startswith("[]"), heavy
    generators = [m for m in modules if re.match(r"autofusion_kernels_cpu\.(native|conv|matmul|pointwise)\b", m)]
    assert not generators, "what a pack implements is stated, not found by importing its kernels"


def test_all_packs_are_listed(folder: Path) -> None:
    done = run(folder, ["-m", "autofusion", "plugins"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("loaded ") >= 7 + len(CONTRIBUTED)
    table = [line for line in done.stdout.splitlines() if line.startswith("loaded ")]
    assert len({line.index("autofusion") for line in table}) == 1 and all(len(line.split()) == 4 for line in table)


def test_entry_points_alone_import_no_pack(folder: Path) -> None:
    modules, heavy = imported(folder, "from autofusion.plugins.discovery import discover\ndiscover()")
    assert heavy == "[] False", "the modules of entry points hold hooks, and nothing else"
    assert not [m for m in modules if m.endswith(".pack")]
