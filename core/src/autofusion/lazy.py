"""Names of a package that are imported when they are first asked for, so that importing the package costs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Collection, MutableMapping, Sequence
from typing import Any


def find(name: str, exported: Collection[str], modules: Sequence[str], namespace: MutableMapping[str, Any]) -> Any:
    """The object that a package exports as ``name``, from the first of ``modules`` that has it.

    ``namespace`` is the package's, ``globals()``: the object is kept there for the next time. Raises AttributeError
    for a name that is not among ``exported``. To be called by the package's ``__getattr__``.
    """
    if name in exported:
        for module in map(importlib.import_module, modules):
            if hasattr(module, name):
                namespace[name] = getattr(module, name)
                return namespace[name]
    raise AttributeError(f"module '{namespace['__name__']}' has no attribute '{name}'")
