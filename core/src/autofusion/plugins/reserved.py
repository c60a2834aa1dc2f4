"""Names of plugins and packs that belong to the distributions of this project.

Another distribution that takes such a name is refused, and the project's own stays: otherwise anyone could switch the
kernels of everybody off by a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NAMES = {
    "autofusion.frontends": ("frontend", ("mindspore", "onnx", "tensorflow")),
    "autofusion.rules": ("rules", ("conv", "layout", "pointwise", "quantised", "transformer")),
    "autofusion.kernels": ("kernels", ("cpu", "reference")),
}


def owner(group: str, name: str) -> str | None:
    """The distribution that ``name`` belongs to in an entry-point group; None if it is free."""
    kind, names = _NAMES.get(group, ("", ()))
    return f"autofusion-{kind}-{name}" if name in names else None


def trespass(group: str, dist: str, names: Iterable[Any]) -> str:
    """What is wrong with these names for plugins or packs of ``dist``; empty if nothing is."""
    for name in names:
        whose = owner(group, name) if isinstance(name, str) else None
        if whose not in (None, dist):
            return f"the name '{name}' belongs to {whose}; {dist} must choose another"
    return ""
