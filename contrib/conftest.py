"""Packs here are what third parties would write, no members of the workspace: their tests run where they are installed.

``tests/plugins`` installs each into a folder of its own and runs them there.
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


_FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/tests/test_conformance.py"))
collect_ignore = [str(folder) for folder in _FOLDERS if _is_missing(folder.parent)]
