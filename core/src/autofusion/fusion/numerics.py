"""The numerics that a user may ask for: how far a kernel's result may be from the reference kernels' result.

Names only, those of ``lowering.contract.Numerics``: the command line states them before anything heavy is imported.
"""

from __future__ import annotations

from autofusion.errors import OptionError, nearest

NUMERICS = ("exact", "reassociated", "approximate")
"""The strictest first."""
DEFAULT = "approximate"


def parse_numerics(text: str) -> str:
    """One of ``NUMERICS``; raise OptionError for anything else."""
    if text not in NUMERICS:
        raise OptionError(f"unknown numerics '{text}': expected one of {', '.join(NUMERICS)}{nearest(text, NUMERICS)}")
    return text


def exceeds(numerics: str, budget: str) -> bool:
    """True if a kernel with these numerics is less exact than ``budget`` allows."""
    return NUMERICS.index(numerics) > NUMERICS.index(budget)
