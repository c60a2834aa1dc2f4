"""How reports write times, sizes and counts."""

from __future__ import annotations


def time(seconds: float) -> str:
    """``93.6 us``, ``1.25 ms``."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def size(count: int) -> str:
    """``512 B``, ``12.3 kB``, ``1.2 MB``."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def counted(count: int, noun: str) -> str:
    """``1 node``, ``3 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
