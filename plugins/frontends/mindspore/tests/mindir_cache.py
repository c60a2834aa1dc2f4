"""The exported networks, made on first use and kept: `exported(["crnn"])` is the folder with `crnn.mindir`, `crnn.npz`.

The folder is named by a digest of what makes the networks, so that a changed recipe never meets yesterday's file.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
NETWORKS = (
    "mindir_pointwise",
    "mindir_movement",
    "mindir_reductions",
    "mindir_layers",
    "mindir_programs",
    "mindir_control",
    "mindir_open",
    "mindir_specials",
)
"""The modules that register our own networks when they are imported."""


@dataclass(frozen=True, slots=True)
class Exported:
    """One exported network, with what it was run on and what MindSpore gave."""

    path: Path
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]


@cache
def folder(group: str) -> Path:
    """Where the networks of a group lie: `nets` are our own, `mindcv` the architectures of that package."""
    sources = ["mindir_builder", *(("mindir_nets", *NETWORKS) if group == "nets" else ())]
    recipe = hashlib.sha256(version("mindspore").encode())
    for name in sources:
        recipe.update((HERE / f"{name}.py").read_bytes())
    root = Path(os.environ.get("AUTOFUSION_ZOO") or Path.home() / ".cache" / "autofusion" / "zoo")
    return root / f"mindir-{group}-{recipe.hexdigest()[:8]}"


def build(names: Iterable[str]) -> None:
    """Make the networks that are not there yet, in one process; a network that cannot be made fails at its use."""
    for group in ("nets", "mindcv"):
        wanted = [n for n in names if (group == "mindcv") == n.startswith("mindcv-")]
        missing = [n for n in wanted if not _is_there(folder(group), n)]
        if missing:
            module = "plugins.frontends.mindspore.tests.mindir_builder"
            command = [sys.executable, "-m", module, str(folder(group)), *missing]
            subprocess.run(command, cwd=HERE.parents[3], capture_output=True, check=False)


def _is_there(where: Path, name: str) -> bool:
    return (where / f"{name}.mindir").exists() and (where / f"{name}.npz").exists()


def exported(name: str) -> Exported:
    """The network called ``name``; raise RuntimeError with what went wrong if it could not be made."""
    build([name])
    where = folder("mindcv" if name.startswith("mindcv-") else "nets")
    if not _is_there(where, name):
        error = where / f"{name}.error"
        raise RuntimeError(f"'{name}' was not made: {error.read_text() if error.exists() else 'no reason was left'}")
    with np.load(where / f"{name}.npz") as stored:
        inputs = [stored[f"in{i}"] for i in range(sum(k.startswith("in") for k in stored.files))]
        outputs = [stored[f"out{i}"] for i in range(sum(k.startswith("out") for k in stored.files))]
    return Exported(where / f"{name}.mindir", inputs, outputs)
