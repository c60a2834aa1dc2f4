"""Priorities by name, so that packs whose authors have never met still come in an order that a reader understands.

A rule's priority is a number, the higher the earlier. Five bands name the numbers that mean something between packs;
``early+5`` and ``late-3`` are places within a band. Deployments override priorities by the same words.
"""

from __future__ import annotations

import re

from autofusion.errors import OptionError, nearest

BANDS = {"first": 200, "early": 100, "normal": 0, "late": -100, "last": -200}
"""Band -> priority. ``normal`` is where a rule is that says nothing."""
WIDTH = 50
"""Numbers this close to a band's are part of it."""

_FORM = re.compile(r"([a-z]+)\s*(?:([+-])\s*(\d+))?")


def parse_priority(value: int | str) -> int:
    """The number for ``early``, ``early+5`` or a number; raise OptionError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        if re.fullmatch(r"-?\d+", value.strip()):
            return int(value)
        found = _FORM.fullmatch(value.strip())
        if found and found[1] in BANDS:
            offset = int(found[3] or 0)
            return BANDS[found[1]] + (-offset if found[2] == "-" else offset)
    hint = nearest(str(value), BANDS)
    raise OptionError(f"priority {value!r} is neither a number nor a band: expected one of {', '.join(BANDS)}{hint}")


def priority_text(value: int) -> str:
    """``early``, ``normal+5``: the band that a priority lies in, and where; a number outside all bands."""
    band = min(BANDS, key=lambda name: abs(BANDS[name] - value))
    offset = value - BANDS[band]
    if abs(offset) > WIDTH:
        return str(value)
    return band if not offset else f"{band}{offset:+d}"
