"""Write small distributions as an installer would: a package and its ``dist-info``, in a folder for ``PYTHONPATH``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOOD_PACK = """
from autofusion.hooks import hookimpl

class Pack:
    name = "{name}"
    version = "1.0"
    kinds = ()
    is_reference = False
    blocks = ()
    launch_seconds = 1e-6
    def offer(self, node, target):
        from autofusion.kernels.contract import Refusal
        return Refusal("it runs nothing")
    def reorder(self, type_, source, result, target):
        return None
    def assemble(self, steps, memory, target):
        return None

@hookimpl
def autofusion_kernel_packs(target):
    return [Pack()]
"""


@dataclass(frozen=True)
class Distribution:
    """One distribution with one plugin; its module is named after the distribution."""

    dist: str
    source: str
    version: str = "1.0"
    group: str = "autofusion.kernels"
    name: str = ""
    requires: tuple[str, ...] = ("autofusion>=0.1",)

    @property
    def module(self) -> str:
        """The import name."""
        return self.dist.replace("-", "_")

    @property
    def plugin(self) -> str:
        """The entry point's name."""
        return self.name or self.dist

    def install(self, folder: Path) -> None:
        """Write the package and its metadata into ``folder``."""
        package = folder / self.module
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(self.source)
        info = folder / f"{self.module}-{self.version}.dist-info"
        info.mkdir()
        metadata = [f"Metadata-Version: 2.1\nName: {self.dist}\nVersion: {self.version}"]
        metadata += [f"Requires-Dist: {requirement}" for requirement in self.requires]
        (info / "METADATA").write_text("\n".join(metadata) + "\n")
        (info / "entry_points.txt").write_text(f"[{self.group}]\n{self.plugin} = {self.module}\n")


def run(folder: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a new interpreter that also sees the distributions in ``folder``."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("AUTOFUSION_")}
    paths = os.pathsep.join(p for p in (str(folder), os.environ.get("PYTHONPATH", "")) if p)
    return subprocess.run(
        [sys.executable, "-c", code],
        env=inherited | environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


RECORDS = """
import json, logging, sys
logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
from autofusion.plugins.registry import Registry
records = Registry(PINS).records
fields = ("group", "name", "dist", "version", "status", "detail")
print(json.dumps([{f: str(getattr(r, f)) for f in fields} for r in records]))
"""


def records(folder: Path, pins: dict[str, str] | None = None, **environ: str) -> tuple[dict[str, Any], str]:
    """Every record by distribution, and the log."""
    done = run(folder, RECORDS.replace("PINS", repr(pins)), **environ)
    assert done.returncode == 0, done.stderr
    return {r["dist"]: r for r in json.loads(done.stdout.splitlines()[-1])}, done.stderr
