"""Converters by family; ``load`` imports them all, which registers them."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Register every converter of this package."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
