"""Other programs that tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest


def uv() -> list[str]:
    """The command of uv; skips the test where it is not installed."""
    found = os.environ.get("UV") or shutil.which("uv")
    if found:
        return [found]
    if subprocess.run([sys.executable, "-m", "uv", "--version"], capture_output=True, check=False).returncode == 0:
        return [sys.executable, "-m", "uv"]
    pytest.skip("uv is not installed (pip install uv)")


def done(command: Sequence[str], **more: object) -> str:
    """What a command prints; fails the test, with all that it printed, if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}\n{result.stderr}"
    return str(result.stdout)
