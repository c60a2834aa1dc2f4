"""Every code block of the pages for plugin authors is run, in the order of the page, in a folder of its own.

`python` blocks of a page share their names, `sh` blocks run with `autofusion`, `pytest` and a `pip` that installs into
that folder, `ir` and `toml` blocks are read. Blocks of `text` are what something prints, and only they are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text, to_text
from autofusion.ir.verify import verify

ROOT = Path(__file__).parents[2]
PAGES = ("writing-a-rule", "writing-a-kernel", "writing-a-frontend", "pinning-and-upgrading", "ir-and-fused-kinds")
LANGUAGES = ("python", "sh", "toml", "ir", "text")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PIP = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.support.projects import install
assert sys.argv[1:3] == ["install", "-e"], "only editable installs are for docs: " + str(sys.argv)
install(Path(FOLDER), Path(sys.argv[3].split("[")[0]))
"""


@dataclass(frozen=True)
class Block:
    """One code block of a page."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 1) for m in _BLOCK.finditer(text)]


class Page:
    """Runs the blocks of a page in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.work, self._installed, bin_ = folder / "work", folder / "installed", folder / "bin"
        for each in (self.work, self._installed, bin_):
            each.mkdir()
        tools = {
            "autofusion": f'#!/bin/sh\nexec {sys.executable} -m autofusion "$@"\n',
            "pytest": f'#!/bin/sh\nexec {sys.executable} -m pytest -c /dev/null -p no:cacheprovider "$@"\n',
            "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
            "pip": PIP.replace("FOLDER", repr(str(self._installed))),
        }
        for name, text in tools.items():
            (bin_ / name).write_text(text)
            (bin_ / name).chmod(0o755)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AUTOFUSION_")}
        self._environ = inherited | {
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(p for p in (str(self._installed), os.environ.get("PYTHONPATH", "")) if p),
        }
        self._so_far: list[str] = []

    def run(self, block: Block) -> None:
        getattr(self, f"_{block.language}")(block)

    def _command(self, command: list[str], block: Block) -> None:
        done = subprocess.run(command, cwd=self.work, env=self._environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"line {block.line}:\n{block.text}\n{done.stdout}\n{done.stderr}"

    def _sh(self, block: Block) -> None:
        self._command(["bash", "-euo", "pipefail", "-c", block.text], block)

    def _python(self, block: Block) -> None:
        # Earlier blocks run again: their names are needed, and what a shell did in between may have changed the rest.
        self._so_far.append(block.text)
        self._command([sys.executable, "-c", "\n".join(self._so_far)], block)

    def _toml(self, block: Block) -> None:
        assert tomllib.loads(block.text)

    def _ir(self, block: Block) -> None:
        graph = from_text(block.text, SeededConstants())
        infer_graph(graph)
        verify(graph)
        assert from_text(to_text(graph)) is not None

    def _text(self, block: Block) -> None:
        assert block.text.strip()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page: str, tmp_path: Path) -> None:
    found = blocks(page)
    assert found
    runner = Page(tmp_path)
    for block in found:
        runner.run(block)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_its_language(page: str) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"docs/{page}.md, line {block.line}: '{block.language}'"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / "docs" / target).exists(), f"docs/{page}.md links to '{target}'"


def test_every_hook_is_documented_in_a_template() -> None:
    from autofusion.plugins.hookspecs import GROUPS

    templates = "".join(p.read_text() for p in (ROOT / "contrib").glob("template-*/src/*/__init__.py"))
    for hook in GROUPS.values():
        assert f"def {hook}(" in templates
