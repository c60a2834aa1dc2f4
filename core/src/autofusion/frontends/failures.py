"""Whatever goes wrong while a model is read becomes one kind of error, that names the file and the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autofusion.errors import AutofusionError, GraphError, ModelError

DAMAGE: tuple[type[Exception], ...] = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What code runs into that reads a file as its format has it, when a damaged one holds something else."""


@contextmanager
def naming_node(label: str, damage: tuple[type[Exception], ...] = DAMAGE) -> Iterator[None]:
    """Turn every error inside into a ModelError that begins with ``label``, unless it is one that names it already.

    ``damage`` are the exceptions that mean a damaged model; others are faults of the frontend, and pass.
    """
    try:
        yield
    except ModelError:
        raise
    except AutofusionError as error:
        raise ModelError(f"{label}: {error}") from error
    except damage as error:
        raise ModelError(f"{label}: it cannot be read: {type(error).__name__}: {error}") from error


@contextmanager
def naming_file(path: Path, damage: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Let every error inside name the file, and be a ModelError if it is about the graph that was made of it.

    ``damage`` are exceptions that mean a damaged file, for frontends that read more than nodes by Python's own means.
    """
    try:
        yield
    except AutofusionError as error:
        kind = ModelError if isinstance(error, GraphError) else type(error)
        if kind is type(error) and str(path) in str(error):
            raise
        raise kind(f"'{path}': {error}") from error
    except RecursionError as error:
        raise ModelError(f"'{path}' is nested too deep to be read") from error
    except damage as error:
        raise ModelError(f"'{path}' is damaged: {type(error).__name__}: {error}") from error
