"""What a distribution's code is, as one number: two installations with the same digest run the same code.

A version says what someone meant to install. A digest also tells an edited file, a rebuilt wheel under an old version,
and an editable checkout that has moved on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata as metadata
import importlib.util
from collections.abc import Iterator
from pathlib import Path

_IGNORED = ("__pycache__", ".pyc", ".pyo")


def content_digest(dist: str) -> str:
    """``sha256:...`` over the code and data of the distribution called ``dist`` and over its entry points.

    An editable installation lists no files of its own; there the packages of its entry points are read, which gives the
    same digest as a wheel of them.
    """
    distribution = metadata.distribution(dist)
    digest = hashlib.sha256()
    for point in sorted(f"{p.group}\0{p.name}\0{p.value}" for p in distribution.entry_points):
        digest.update(point.encode())
    files = dict(_recorded(distribution)) or dict(_of_packages(distribution))
    for name in sorted(files):
        content = files[name].read_bytes() if files[name].is_file() else b""
        digest.update(f"\0{name}\0{len(content)}\0".encode())
        digest.update(content)
    return f"sha256:{digest.hexdigest()}"


def _recorded(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """(name, path) of the installed files, without metadata, scripts and compiled files; none if editable."""
    for file in distribution.files or ():
        name = file.as_posix()
        top = name.split("/")[0]
        if top.endswith((".dist-info", ".egg-info", ".pth")) or name.startswith(("..", "__editable__", "_editable")):
            continue
        if not any(part in name for part in _IGNORED):
            yield name, Path(str(distribution.locate_file(file)))


def _of_packages(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    points = [p for p in distribution.entry_points if p.group.startswith(("autofusion.", "console_scripts"))]
    tops = {p.value.split(":")[0].split(".")[0] for p in points}
    for top in sorted(tops):
        spec = importlib.util.find_spec(top)
        if spec is None:
            continue
        for folder in map(Path, spec.submodule_search_locations or ()):
            for path in folder.rglob("*"):
                name = f"{top}/{path.relative_to(folder).as_posix()}"
                if path.is_file() and not any(part in name for part in _IGNORED):
                    yield name, path
        if not spec.submodule_search_locations and spec.origin:
            yield Path(spec.origin).name, Path(spec.origin)
