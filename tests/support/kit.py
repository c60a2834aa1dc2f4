"""Run a conformance class without pytest, to see which of its tests fail on a pack with a seeded fault."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

import pytest

from autofusion.testing.standard import StandardTests

OF_DISTRIBUTIONS = {
    "test_known_failures_exist",
    "test_plugin_is_loaded",
    "test_recognises",
    "test_version_is_the_distributions",
    "test_imports_lightly",
    "test_leaves_core_alone",
}
"""Tests that ask about an installed distribution; seeded packs are plain objects, so these are tried with real ones."""


def failures(cls: type[StandardTests]) -> dict[str, str]:
    """Standard test -> what it said, of those that failed."""
    found: dict[str, str] = {}
    parameters = cls.parameters()
    for name in sorted(n for n in dir(cls) if n.startswith("test_") and n not in OF_DISTRIBUTIONS):
        wanted = [p for p in inspect.signature(getattr(cls, name)).parameters if p != "self"]
        given = [p for p in wanted if p != "tmp_path"]
        values: list[dict[str, Any]] = [{given[0]: value} for value in parameters[given[0]]] if given else [{}]
        for arguments in values:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    extra = {"tmp_path": Path(folder)} if "tmp_path" in wanted else {}
                    getattr(cls(), name)(**arguments, **extra)
            except AssertionError as error:
                found.setdefault(name, str(error))
            except (Exception, pytest.fail.Exception) as error:
                found.setdefault(name, f"{type(error).__name__}: {error}")
    return found
