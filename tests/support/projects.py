"""Install a project's folder as an installer would, without building it, and run things where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRIB = ROOT / "contrib"


def install(folder: Path, *projects: Path) -> None:
    """Put the packages of ``projects``, and their metadata, into ``folder``."""
    folder.mkdir(exist_ok=True)
    for source in projects:
        data = tomllib.loads((source / "pyproject.toml").read_text())["project"]
        shutil.copytree(source / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        info = folder / f"{data['name'].replace('-', '_')}-{data['version']}.dist-info"
        info.mkdir()
        requires = "".join(f"Requires-Dist: {r}\n" for r in data["dependencies"])
        metadata = f"Metadata-Version: 2.1\nName: {data['name']}\nVersion: {data['version']}\n{requires}"
        (info / "METADATA").write_text(metadata)
        points = "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())
            for group, found in data.get("entry-points", {}).items()
        )
        (info / "entry_points.txt").write_text(points)


def run(
    folder: Path, command: Sequence[str], cwd: Path | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with ``command`` where the projects in ``folder`` are installed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("AUTOFUSION_")}
    paths = os.pathsep.join(p for p in (str(folder), os.environ.get("PYTHONPATH", "")) if p)
    return subprocess.run(
        [sys.executable, *command],
        env=inherited | environ | {"PYTHONPATH": paths},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def run_tests(folder: Path, project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a project's own tests where it is installed, with no settings but pytest's own."""
    arguments = ["-c", os.devnull, "--rootdir", str(project), "-p", "no:cacheprovider", "-q", *options]
    return run(folder, ["-m", "pytest", *arguments, str(project / "tests")])
