"""Which artefacts may run the machine code inside them: those that this user wrote, and those whose digest is stated.

The digest is that of the manifest, which has the digests of all sections. Those of written artefacts are kept, as names
of empty files, in a folder that only this user (or root) can write to; a folder that others can write to is not looked
at.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def _folder() -> Path:
    root = os.environ.get("AUTOFUSION_CACHE", "").split(os.pathsep)[0]
    if not root:
        root = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "autofusion")
    return Path(root) / "artefacts"


def _is_private(path: Path) -> bool:
    if not hasattr(os, "getuid"):
        return False
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_uid in (0, os.getuid()) and not stat.S_IMODE(found.st_mode) & 0o022
    return False


def remember(digest: str) -> None:
    """Take note that this user wrote the artefact; what cannot be noted is not trusted later."""
    folder = _folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_private(folder):
            (folder / digest).touch(0o600)


def is_trusted(digest: str, stated: str | None) -> bool:
    """True for the digest ``stated``, and for what this user wrote."""
    if stated is not None:
        return stated.lower().removeprefix("sha256:") == digest
    folder = _folder()
    return _is_private(folder) and _is_private(folder / digest)
