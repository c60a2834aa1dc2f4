"""How far a kernel's result may be from the reference kernels' result: what a kernel states, and what a user allows.

Imports nothing heavy: the command line lists the names.
"""

from __future__ import annotations

import enum


class Numerics(enum.Enum):
    """How a kernel's result may differ from the reference kernels' result; the strictest first."""

    EXACT = "exact"
    """Bit for bit the same arithmetic."""
    REASSOCIATED = "reassociated"
    """The same arithmetic in another order, or fused multiply-adds."""
    APPROXIMATE = "approximate"
    """Another algorithm with a bounded error (Winograd, polynomial functions beyond 2 ulp). One that may spread what is
    not finite to other results, or make another such number of it, raises ``NotFinite`` when it has met it.
    """

    def exceeds(self, budget: Numerics) -> bool:
        """True if a kernel of these numerics is less exact than ``budget`` allows."""
        order = list(Numerics)
        return order.index(self) > order.index(budget)


class NotFinite(Exception):
    """No error: a kernel or segment says that its result does not count.

    It has met NaN, an infinity or an overflow, which it does not treat as the operator says. The whole run is repeated
    with kernels that are not APPROXIMATE.
    """
