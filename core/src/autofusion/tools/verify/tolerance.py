"""How far a result may be from what is expected of it.

One number per element type, relative to the size of what is compared. Sites are judged channel by channel, because a
channel of small values would hide behind a large one, against the exact value in double precision. Where large terms
cancel, any arithmetic is further off than that; how far shows when the operands are moved by one rounding, and in what
the reference kernels are off, and a multiple of both is allowed on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.numerics import Numerics

RELATIVE = {"f64": 1e-12, "f32": 1e-5, "f16": 5e-3, "bf16": 4e-2}
"""Defaults: some eighty units in the last place of float32; few of the short types, which are mostly rounding."""
_EPSILON = {"f64": 2.2e-16, "f32": 1.2e-7, "f16": 9.8e-4, "bf16": 7.8e-3}
OWN_ROUNDING = 4.0
"""Times that a kernel may be as far off as the reference kernels are."""
MOVED = 16.0
"""Times that a kernel may be as far off as one rounding of each operand moves the result: sums of many terms."""
APPROXIMATE = 10.0
"""More room for kernels that say they use another algorithm."""
CHANNEL_ELEMENTS = 16
"""A channel needs that many elements to be judged on its own."""
LARGEST = 10.0
"""Outputs: the largest error may be so much larger, in terms of the range, than the mean relative error."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Relative tolerance by element type (``f32``); ``stated`` overrides the defaults."""

    stated: Mapping[str, float] = field(default_factory=dict)

    def relative(self, dtype: np.dtype) -> float:
        """The tolerance of ``dtype``; 0 for integers and truth values."""
        name = dtype_name(dtype)
        return self.stated.get(name, RELATIVE.get(name, 0.0))


@dataclass(frozen=True, slots=True)
class Judged:
    """One tensor judged: ``error`` is the largest ratio of error to size, ``limit`` what was allowed there.

    ``share`` is error over limit at the worst place (fine up to 1). ``reason`` says what is wrong, or is empty.
    """

    error: float
    limit: float
    share: float
    reason: str = ""

    @property
    def fine(self) -> bool:
        """True if it is within the limit."""
        return not self.reason


EQUAL = Judged(0.0, 0.0, 0.0)


def judge(
    got: np.ndarray,
    plain: np.ndarray,
    exact: np.ndarray | None,
    moved: np.ndarray | None,
    tolerances: Tolerances,
    numerics: Numerics = Numerics.REASSOCIATED,
    clean: bool = True,
) -> Judged:
    """Judge a kernel's result against the reference kernels' ``plain`` and ``exact`` (double precision) results.

    ``moved`` is the exact result for ``perturbed`` operands. ``clean`` says that all operands are finite; if they are
    not, a kernel may spread that further than the operator does (by products with zero, in tiles), but not hide it.
    """
    if got.shape != plain.shape or got.dtype != plain.dtype:
        return _wrong(f"expected {plain.dtype}{list(plain.shape)}, found {got.dtype}{list(got.shape)}")
    if got.dtype.kind == "O" or not got.size:
        return EQUAL if np.array_equal(got, plain) else _wrong("the elements differ")
    limit = tolerances.relative(got.dtype)
    if limit == 0.0 and not clean:
        return EQUAL  # what integer NaN becomes is not defined
    if limit == 0.0:
        count = int(np.count_nonzero(got != plain))
        return EQUAL if not count else _wrong(f"{count} of {got.size} elements differ")
    wide = got.astype(np.float64)
    rounded = plain.astype(np.float64)
    other = np.isfinite(wide) != np.isfinite(rounded)
    other |= np.isnan(wide) != np.isnan(rounded)
    other |= np.isinf(rounded) & (wide != rounded)
    if not clean:
        other = ~np.isfinite(rounded) & np.isfinite(wide)
    if other.any():
        return _wrong(_not_finite(wide, rounded, other))
    expected = rounded if exact is None else np.where(np.isfinite(exact) & np.isfinite(rounded), exact, rounded)
    finite = np.isfinite(expected) & np.isfinite(wide) & np.isfinite(rounded)
    if not finite.any():
        return EQUAL
    limit *= APPROXIMATE if numerics is Numerics.APPROXIMATE else 1.0
    channel = _channels(wide.shape)
    worst, size_of = channel(_distance(wide, expected, finite)), channel(np.where(finite, np.abs(expected), 0.0))
    allowed = limit * size_of + OWN_ROUNDING * _typical(channel(_distance(rounded, expected, finite)))
    if moved is not None and exact is not None:
        known = finite & np.isfinite(moved) & np.isfinite(exact)
        allowed += MOVED * _typical(channel(_distance(moved, exact, known)))
    allowed += float(np.finfo(np.float32).tiny)
    share = worst / allowed
    at = int(np.argmax(share))
    ratio = float(worst[at] / size_of[at]) if size_of[at] else (math.inf if worst[at] else 0.0)
    permitted = float(allowed[at] / size_of[at]) if size_of[at] else float(allowed[at])
    if share[at] <= 1.0:
        return Judged(ratio, permitted, float(share[at]))
    where = f" in channel {at}" if len(share) > 1 else ""
    return Judged(ratio, permitted, float(share[at]), f"error {ratio:.2e}{where}, allowed {permitted:.2e}")


def judge_bits(got: np.ndarray, plain: np.ndarray, judged: Judged) -> Judged:
    """``judged`` (a result within its limit), unless a bit differs from the reference kernels' result ``plain``: what a
    kernel of EXACT numerics promises, NaN for NaN.
    """
    with np.errstate(all="ignore"):
        same = (got == plain) & (np.signbit(got) == np.signbit(plain)) if got.dtype.kind == "f" else got == plain
        same |= (got != got) & (plain != plain)
    count = int(got.size - np.count_nonzero(same))
    return _wrong(f"{count} of {got.size} elements differ, and its numerics are exact") if count else judged


def _distance(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> np.ndarray:
    apart: np.ndarray = np.abs(np.subtract(a, b, where=where, out=np.zeros(a.shape)))
    return apart


def _typical(errors: np.ndarray) -> np.ndarray:
    """Errors of the channels, each at least their mean: of a channel that an activation cuts to a few small values, the
    rounding of what was cut does not show.
    """
    some = errors[errors > 0]
    return np.maximum(errors, some.mean()) if some.size else errors


def _channels(shape: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    """The largest element of each channel, or of the whole where channels are too small, as a function."""
    axis = 2 if len(shape) == 3 else 1
    others = tuple(i for i in range(len(shape)) if i != axis)
    if len(shape) < 2 or math.prod(shape[i] for i in others) < CHANNEL_ELEMENTS:
        return lambda array: array.reshape(1, -1).max(1)
    return lambda array: array.max(others)


def perturbed(value: Any, number: int) -> Any:
    """``value`` moved by one rounding of its type, up or down at random; what is not a float stays.

    ``number`` is the operand's: two operands must not move alike, or what they have in common would cancel.
    """
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fV" or dtype_name(value.dtype) not in _EPSILON:
        return value
    signs = np.random.default_rng([number, value.size]).choice(np.array([-1.0, 1.0]), value.shape)
    with np.errstate(all="ignore"):
        return value.astype(np.float64) * (1.0 + 0.5 * _EPSILON[dtype_name(value.dtype)] * signs)


def _not_finite(got: np.ndarray, expected: np.ndarray, other: np.ndarray) -> str:
    first = tuple(int(i) for i in np.argwhere(other)[0])
    return (
        f"{int(other.sum())} of {got.size} elements are NaN or infinite at other places "
        f"(first at {list(first)}: expected {expected[first]:.6g}, found {got[first]:.6g})"
    )


def _wrong(reason: str) -> Judged:
    return Judged(math.inf, 0.0, math.inf, reason)
