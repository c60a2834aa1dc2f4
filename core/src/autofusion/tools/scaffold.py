"""Write a new pack from a template: the templates are whole packs, whose own tests pass as they are."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from pathlib import Path

from autofusion.errors import OptionError, nearest

PLACEHOLDER = "acme"
"""The name that the templates have, in files and in their names."""
KINDS = ("rules", "kernels", "frontend")

_SOURCES = Path(__file__).parent / "templates"
_IGNORED = frozenset({"__pycache__", ".pytest_cache"})


def scaffold(kind: str, name: str, folder: Path | None = None) -> Path:
    """Write a pack of ``kind`` called ``name`` into ``folder`` (by default ``autofusion-KIND-NAME``), and return that.

    Raises OptionError for an unknown kind, a name that cannot be a module's, or a folder that is there already.
    """
    if kind not in KINDS:
        raise OptionError(f"there is no template '{kind}': expected one of {', '.join(KINDS)}{nearest(kind, KINDS)}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise OptionError(
            f"'{name}' cannot be the name of a pack: expected lower-case letters, digits and underscores, as in 'acme'"
        )
    target = folder or Path(f"autofusion-{kind}-{name.replace('_', '-')}")
    if target.exists():
        raise OptionError(f"'{target}' exists already; choose another name or folder")
    for source in _files(_SOURCES / kind):
        path = target / _renamed(source.relative_to(_SOURCES / kind).as_posix(), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = source.read_bytes()
        try:
            path.write_text(_renamed(content.decode("utf-8"), name), encoding="utf-8")
        except UnicodeDecodeError:
            path.write_bytes(content)
    return target


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not _IGNORED & set(path.parts):
            yield path


def _renamed(text: str, name: str) -> str:
    """``text`` with ``name`` for the placeholder; in names of distributions with hyphens."""
    text = re.sub(
        rf"autofusion-(rules|kernels|frontend)-{PLACEHOLDER}", rf"autofusion-\1-{name.replace('_', '-')}", text
    )
    text = text.replace(PLACEHOLDER.title(), "".join(part.title() for part in name.split("_")))
    return text.replace(PLACEHOLDER, name)
