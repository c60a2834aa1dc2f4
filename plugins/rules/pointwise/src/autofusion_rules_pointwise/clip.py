"""Clips: merged, and recognised where they are written as Min and Max.

NaN goes through Clip, Relu, Min and Max alike. ``Clip`` is ``Min(Max(x, low), high)``, so that a low bound above the
high one gives the high one; every merge below keeps that.
"""

from __future__ import annotations

import math

from autofusion.ir.graph import Value
from autofusion.rules import Builder, Match, Refusal, RewriteRule, const, either, is_float, op, scalar, var

_X = var("x", where=is_float)
_LOW, _HIGH = var("low", optional=True), var("high", optional=True)


def _bound(value: Value | None, absent: float) -> float | None:
    """The number that a bound holds; None if it is computed or NaN."""
    if value is None:
        return absent
    number = scalar(value)
    return None if number is None or math.isnan(number) else number


def _clip(match: Match, builder: Builder, low: float, high: float | Value | None) -> list[Value]:
    x = match["x"]
    low_value = None if low == -math.inf else builder.constant(low, x.dtype, "min")
    if isinstance(high, float):
        high = None if high == math.inf else builder.constant(high, x.dtype, "max")
    return [builder.op("Clip", x, low_value, high, name=match.root.name)]


# ---- Clip behind Relu ---------------------------------------------------------------------------------------------


def _clip_of_relu(match: Match, builder: Builder) -> list[Value] | Refusal:
    low = _bound(match.get("low"), -math.inf)
    if low is None:
        return Refusal(f"{match.root.label}: its lower bound is not constant", match.get("low"))
    return _clip(match, builder, max(low, 0.0), match.get("high"))


CLIP_OF_RELU = RewriteRule(
    "pointwise.clip_of_relu",
    op("Clip", op("Relu", _X), _LOW, _HIGH),
    _clip_of_relu,
    doc="""Let a Clip do the work of the Relu before it.

    Before: %y = Clip(Relu(%x), %low, %high)
    After:  %y = Clip(%x, max(%low, 0), %high)
    Exact, whatever the upper bound. Refuses when: the lower bound is computed; the Relu is used elsewhere.
    """,
)

# ---- Clip or Relu behind Clip -------------------------------------------------------------------------------------


def _bounds(match: Match) -> tuple[float, float, float, float] | None:
    """The inner and the outer bounds."""
    outer = ("outer_low", "outer_high")
    numbers = [_bound(match.get("low"), -math.inf), _bound(match.get("high"), math.inf)]
    if match.root.op == "Relu":
        numbers += [0.0, math.inf]
    else:
        numbers += [_bound(match.get(name), absent) for name, absent in zip(outer, (-math.inf, math.inf), strict=True)]
    low, high, outer_low, outer_high = numbers
    if low is None or high is None or outer_low is None or outer_high is None:
        return None
    return low, high, outer_low, outer_high


def _clip_of_clip(match: Match, builder: Builder) -> list[Value] | Refusal:
    bounds = _bounds(match)
    if bounds is None:
        return Refusal(f"{match.root.label}: a bound is not constant", match.root)
    low, high, outer_low, outer_high = bounds

    def through_both(x: float) -> float:
        return min(max(min(max(x, low), high), outer_low), outer_high)

    # Both are monotonous and constant outside their bounds, so the ends say everything.
    return _clip(match, builder, through_both(-math.inf), through_both(math.inf))


CLIP_OF_CLIP = RewriteRule(
    "pointwise.clip_of_clip",
    either(
        op("Clip", op("Clip", _X, _LOW, _HIGH), var("outer_low", optional=True), var("outer_high", optional=True)),
        op("Relu", op("Clip", _X, _LOW, _HIGH)),
    ),
    _clip_of_clip,
    doc="""Merge a Clip or Relu into the Clip before it.

    Before: %y = Clip(Clip(%x, 0, 10), 2, 20)
    After:  %y = Clip(%x, 2, 10)
    Refuses when: a bound is computed; the inner Clip is used elsewhere.
    """,
)

# ---- Min and Max --------------------------------------------------------------------------------------------------


def _min_max(match: Match, builder: Builder) -> list[Value] | Refusal:
    low, high = scalar(match["lower"]), scalar(match["upper"])
    x, result = match["x"].shape, match.root.output.shape
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return Refusal(f"{match.root.label}: a bound is not a single number", match.root)
    if match.root.op == "Max" and low > high:
        return Refusal(f"{match.root.label}: the lower bound is above the upper one", match.root)
    if x is None or result is None or len(x) != len(result):
        return Refusal(f"{match.root.label}: a bound may enlarge '{match['x'].name}'", match["x"])
    return _clip(match, builder, low, high)


_LOWER, _UPPER = (const(name, where=lambda data: data.size == 1) for name in ("lower", "upper"))

MIN_OF_MAX = RewriteRule(
    "pointwise.min_max",
    either(op("Min", op("Max", _X, _LOWER), _UPPER), op("Max", op("Min", _X, _UPPER), _LOWER)),
    _min_max,
    doc="""Recognise a Clip.

    Before: %y = Min(Max(%x, 0), 6)
    After:  %y = Clip(%x, 0, 6)
    Also the other way round, if the lower bound is not above the upper one.
    Refuses when: a bound is not a single constant number, or enlarges %x; the inner result is used elsewhere.
    """,
)

RULES = (CLIP_OF_RELU, CLIP_OF_CLIP, MIN_OF_MAX)
