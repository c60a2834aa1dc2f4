"""Python for AArch64 under emulation: Debian packages and wheels in a folder of the cache, without a container.

`qemu-aarch64-static` runs the programs of that folder one by one, with the files of this machine around them. Times
mean nothing there; what is computed does.
"""

from __future__ import annotations

import hashlib
import importlib.metadata as metadata
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.commands import done, uv
from tests.support.projects import ROOT
from tests.zoo import zoo

EMULATOR = "qemu-aarch64-static"
PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6")
"""Debian's, with what they depend on."""

LIBRARIES = ("numpy", "llvmlite", "onnx", "protobuf", "pluggy", "click", "packaging", "tomli-w", "pytest", "hypothesis")
"""From the registry, in the versions of this environment."""

OURS = ("core", "plugins/frontends/onnx", "plugins/kernels/*", "plugins/rules/*")


@dataclass(frozen=True)
class Emulated:
    """A Python with Autofusion: `root` holds the system, `libraries` and `own` are folders of packages."""

    root: Path
    libraries: Path
    own: Path

    def run(self, *arguments: str, **environ: str) -> str:
        """What `python *arguments` prints, run at the root of the repository."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AUTOFUSION_", "PYTHON"))}
        paths = os.pathsep.join(map(str, (self.own, self.libraries)))
        here = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
        command = [*_emulator(self.root), *arguments]
        return done(command, env=inherited | here | environ, cwd=ROOT)


def make(own: Path) -> Emulated:
    """The system and the libraries from the cache, made if they are not there; Autofusion as it is now into `own`.

    Skips the test where the emulator, apt-get or packages for AArch64 are not to be had.
    """
    for program in (EMULATOR, "apt-get", "dpkg"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (on Debian: apt-get install qemu-user-static)")
    folder = zoo.cache_dir().parent / "arm64"
    root = _kept(folder / "root" / _digest(PACKAGES), _unpack)
    wanted = [f"{name}=={metadata.version(name)}" for name in LIBRARIES]
    version = done([*_emulator(root), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
    platform = ["--python-platform", "aarch64-manylinux_2_28", "--python-version", version]
    install = [*uv(), "pip", "install", "--quiet", "--no-sources", *platform, "--target"]
    binary = ["--only-binary", ":all:"]
    libraries = _kept(
        folder / "libraries" / _digest([version, *wanted]), lambda to: _have([*install, str(to), *binary, *wanted])
    )
    projects = [str(project) for pattern in OURS for project in sorted(ROOT.glob(pattern))]
    done([*install, str(own), "--no-deps", *projects])
    return Emulated(root, libraries, own)


def _emulator(root: Path) -> list[str]:
    (python,) = sorted((root / "usr" / "bin").glob("python3.*[0-9]"))[:1] or [root / "usr" / "bin" / "python3"]
    # Every feature that the emulator has: what the kernels are generated for is read from it, as on a board.
    return [EMULATOR, "-L", str(root), "-cpu", "max", str(python)]


def _unpack(to: Path) -> None:
    """The packages of `PACKAGES`, by an apt that knows this folder only and thinks it is on such a machine."""
    with tempfile.TemporaryDirectory() as name:
        state, cache = Path(name) / "state", Path(name) / "cache"
        (state / "lists" / "partial").mkdir(parents=True)
        (cache / "archives" / "partial").mkdir(parents=True)
        (state / "status").touch()
        options = {
            "Dir::State": state,
            "Dir::State::status": state / "status",
            "Dir::Cache": cache,
            "APT::Architecture": "arm64",
            "APT::Architectures::": "arm64",
            "APT::Sandbox::User": "root",
            "Debug::NoLocking": "1",
        }
        apt = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in options.items())]
        for command in (["update"], ["install", "--download-only", "--yes", "--no-install-recommends", *PACKAGES]):
            _have([*apt, *command])
        for package in sorted((cache / "archives").glob("*.deb")):
            done(["dpkg", "-x", str(package), str(to)])


def _have(command: Sequence[str]) -> None:
    """Fetch packages; skips the test where there are none for AArch64."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"no packages for AArch64 here: {result.stderr.strip()[:300]}")


def _kept(folder: Path, make: object) -> Path:
    """A folder of the cache, made beside its place and moved there, so that a half-made one is never used."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            made = Path(name) / "made"
            made.mkdir()
            make(made)  # type: ignore[operator]
            try:
                made.rename(folder)
            except OSError:
                # Somebody else was faster.
                assert folder.exists()
    return folder


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
