"""What a report is evidence of: the versions, the machine, the model, the options and the day that it was made with.

Reports are JSON that any reader takes: JSON has no NaN and no infinity, so ``dumps`` writes them as the strings
``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, which Python's ``float`` reads.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import autofusion
from autofusion.cost.detect import detect
from autofusion.plugins.registry import default_registry

REPORT_FORMAT = 1
"""Number of the form of all reports but baselines; one that says a field otherwise has the next."""


def digest(path: Path) -> str:
    """SHA-256 of a model file, or of all files of a folder."""
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            found.update(file.relative_to(path).as_posix().encode() if path.is_dir() else b"")
            found.update(file.read_bytes())
    return found.hexdigest()


def provenance(
    model: Path | None = None, settings: Mapping[str, Any] | None = None, seed: int | None = None
) -> dict[str, Any]:
    """Versions of core and packs (by distribution), machine, instruction set, digest of ``model``, seed, options, date.

    ``settings`` are the stated keywords of ``autofusion.compile``.
    """
    stated = {k: v for k, v in (settings or {}).items() if v not in (None, (), [], {}, "")}
    threads = stated.get("threads")
    target = detect(threads if isinstance(threads, int) else None)
    return {
        "core": autofusion.__version__,
        "packs": {r.dist: r.version for r in default_registry().records},
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "isa": target.isa,
        "lanes": target.lanes,
        "threads": target.threads,
        "model": None if model is None or not model.exists() else {"path": str(model), "sha256": digest(model)},
        "seed": seed,
        "options": stated,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def report(data: Mapping[str, Any], *args: Any, **more: Any) -> dict[str, Any]:
    """``data`` as a report: with the number of its format, and its ``provenance`` (of the other arguments)."""
    return {"format": REPORT_FORMAT, **data, "provenance": provenance(*args, **more)}


def dumps(data: Any, indent: int | None = None) -> str:
    """JSON of plain data, paths, sets and numbers of NumPy; see above for what is not finite."""
    return json.dumps(_plain(data), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(_plain(k)): _plain(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return _plain(value.tolist()) if isinstance(value, np.ndarray) else str(value)
