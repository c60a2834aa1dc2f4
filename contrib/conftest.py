"""Packs here are what third parties would write, no members of the workspace: their tests run where they are installed.

``tests/packs`` installs each into a folder of its own and runs them there.
"""

from __future__ import annotations

import importlib.metadata as metadata
import tomllib
from pathlib import Path


def _is_missing(folder: Path) -> bool:
    try:
        metadata.distribution(tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"])
    except metadata.PackageNotFoundError:
        return True
    return False


collect_ignore = [
    str(folder / "tests" / "test_conformance.py")
    for folder in sorted(path.parent for path in Path(__file__).parent.glob("*/pyproject.toml"))
    if _is_missing(folder)
]
