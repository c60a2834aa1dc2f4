"""Mutated files are read or refused: a small part of what ``mutate.py`` tries."""

from __future__ import annotations

import pytest

from tests.fuzz.mutate import SOURCES, failures


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_mutated_files_are_read_or_refused(kind: str) -> None:
    assert not list(failures(kind, 1000))
