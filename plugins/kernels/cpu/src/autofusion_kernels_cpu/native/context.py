"""The interpreter's context: byte offsets of the words that Python and the interpreter's code share.

Words that different threads write lie on cache lines of their own.
"""

from __future__ import annotations

LAYOUT = 2
"""Raised when an offset, the table of steps or the meaning of a word changes: saved code states its layout."""

EPOCH, SLEEPERS, ARRIVED, GENERATION, BARRIER_SLEEPERS = 0, 64, 128, 192, 256
STEPS, STEP_COUNT, THREADS, STOP, TIMES, IDLE_SPINS, BARRIER_SPINS, SLEEP_FUNCTION, SLEEP_ARGUMENT, FLUSH = range(
    320, 400, 8
)
CONTEXT_BYTES = 448
