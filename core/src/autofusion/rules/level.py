"""How much fusion the user asked for."""

from __future__ import annotations

import enum


class Level(enum.IntEnum):
    """How much fusion the user asked for; a rule runs at its own level and above."""

    OFF = 0
    BASIC = 1
    FULL = 2
