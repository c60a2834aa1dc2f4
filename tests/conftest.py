"""Fixtures shared by the tests that cross distributions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.zoo import zoo


@pytest.fixture(scope="session")
def zoo_model() -> Callable[[str], Path]:
    """`zoo_model("ppocrv4_det")` is the path of that model, fetched and checked on first use."""
    return zoo.model_path
