"""The faulty plugin, installed beside the real ones for child processes, and the network it harms."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.browser import browser, show, small_page  # noqa: F401  (fixtures of the tests beside)

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"


@pytest.fixture(scope="session")
def plugin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as an installer leaves it: the package and its metadata."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "trust_faults.py").write_text((SUPPORT / "faulty_pack.py").read_text())
    (folder / "trust_more_faults.py").write_text((SUPPORT / "more_faults.py").read_text())
    (folder / "trust_gate_faults.py").write_text((SUPPORT / "gate_faults.py").read_text())
    info = folder / "trust_faults-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: trust-faults\nVersion: 3.1\nRequires-Dist: autofusion\n"
    )
    (info / "entry_points.txt").write_text(
        "[autofusion.rules]\nfaulty = trust_faults\nsloppy = trust_more_faults\nlab = trust_gate_faults\n"
        "[autofusion.kernels]\nfaulty = trust_faults\nsloppy = trust_more_faults\nlab = trust_gate_faults\n"
    )
    return folder


@pytest.fixture(scope="session")
def faults(plugin_folder: Path) -> Callable[..., dict[str, str]]:
    """``faults(crash="block1.conv1")`` is the environment of a process that has that fault at that node."""

    def environ(**sites: str) -> dict[str, str]:
        paths = [str(plugin_folder), str(ROOT), os.environ.get("PYTHONPATH", "")]
        return {
            "PYTHONPATH": os.pathsep.join(p for p in paths if p),
            "TRUST_FAULTS": ",".join(sites),
            "TRUST_SITES": ",".join(f"{fault}={site}" for fault, site in sites.items()),
        }

    return environ


@pytest.fixture(scope="session")
def batch_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network of mixed operators, which takes any batch."""
    from tests.support.network import batches, write

    return write(batches(), tmp_path_factory.mktemp("model") / "batches.onnx")


@pytest.fixture(scope="session")
def blocks_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network of residual blocks as an ONNX file."""
    from tests.support.network import network, write

    return write(network(), tmp_path_factory.mktemp("model") / "blocks.onnx")
