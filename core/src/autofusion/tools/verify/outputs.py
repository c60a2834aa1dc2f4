"""Step 2: the model's outputs, against a reference run and against the exact ones.

Two single-precision runs differ by rounding, and in a deep network by more than any fixed number. An output is fine if
it is within the tolerance of the reference, or as near to the exact output as the reference itself is, which a note
then says; that excuse does not hold against the model's own framework. What both sides share, they cannot judge: an
output far from the exact one is judged by the reference kernels besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autofusion.tools.compare import Difference, difference
from autofusion.tools.verify.exact import is_narrow
from autofusion.tools.verify.tolerance import LARGEST, Tolerances

AS_GOOD = 4.0
"""Times that the error against the exact output may be larger than the reference's: both are rounding."""
NOWHERE = "it is nowhere finite in the reference, so no number of it was compared"


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two tensors, over elements that are finite in both; 1 if both are zero."""
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    kept = np.isfinite(x) & np.isfinite(y)
    x, y = x[kept], y[kept]
    sizes = float(np.linalg.norm(x) * np.linalg.norm(y))
    if sizes == 0.0:
        return 1.0 if not x.any() and not y.any() else 0.0
    return float(x @ y) / sizes


def compare_outputs(
    got: Mapping[str, Any],
    expected: Mapping[str, Any],
    exact: Mapping[str, Any] | None,
    tolerances: Tolerances,
    *,
    excuse: bool = True,
    clean: bool = True,
) -> list[dict[str, Any]]:
    """One row for each output: how far it is from the reference and from the exact one, and what is wrong, if so.

    ``excuse`` allows what is as near to the exact output as the reference is. ``clean`` says that the inputs are
    finite; if they are not, a kernel may spread that further than the operator does, but not hide it.
    """
    rows = []
    for name, want in expected.items():
        if clean:
            row = _row(name, got[name], want, None if exact is None else exact[name], tolerances, excuse)
            if nowhere_finite(want) and not row["reason"]:
                row["reason"] = NOWHERE
        else:
            row = _row(name, _spread_undone(got[name], want), want, None, tolerances, excuse)
        rows.append(row)
    return rows


def _spread_undone(got: Any, want: Any) -> Any:
    """``got`` with the reference's elements where it is not finite, and everywhere if it is not of floats: what those
    become of NaN is not defined.
    """
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray) or got.shape != want.shape:
        return got
    if got.dtype != want.dtype:
        return got
    if not (got.dtype.kind == "f" or is_narrow(got.dtype)):
        return want
    return np.where(np.isfinite(got.astype(np.float64)), got, want)


def _row(name: str, got: Any, want: Any, exact: Any, tolerances: Tolerances, excuse: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"output": name, "reason": ""}
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray):
        same = _same(got, want)
        return row | {"type": type(got).__name__, "reason": "" if same else "it is not what the reference gives"}
    row["type"] = f"{got.dtype}{list(got.shape)}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return row | {"reason": f"expected {want.dtype}{list(want.shape)}, found {got.dtype}{list(got.shape)}"}
    apart = difference(got, want)
    row |= {"max_abs": apart.max_abs, "max_over_range": apart.max_over_range, "mean_relative": apart.mean_relative}
    row["cosine"] = cosine(got, want) if got.dtype.kind not in "OUS" else 1.0
    if not (got.dtype.kind == "f" or is_narrow(got.dtype)):
        return row | {"reason": "" if apart.max_abs == 0 else "elements differ from the reference's"}
    limit = tolerances.relative(got.dtype)
    row["limit"] = limit
    if exact is not None and isinstance(exact, np.ndarray) and exact.shape == got.shape:
        mine, its = difference(got, exact), difference(want, exact)
        row["exact"] = {"max_over_range": mine.max_over_range, "mean_relative": mine.mean_relative}
        row["reference_exact"] = {"max_over_range": its.max_over_range, "mean_relative": its.mean_relative}
        as_good = mine.same_nonfinite or not its.same_nonfinite
        as_good &= mine.max_over_range <= AS_GOOD * its.max_over_range + limit
        as_good &= mine.mean_relative <= AS_GOOD * its.mean_relative + limit
    else:
        as_good = False
    reason = _reason(apart, row["cosine"], limit)
    row["excused"] = reason if reason and excuse and as_good and apart.same_nonfinite else ""
    return row | {"reason": "" if row["excused"] else reason}


def notes_of(row: Mapping[str, Any]) -> list[str]:
    """Sentences on what was excused in a row."""
    if not row.get("excused"):
        return []
    mine, its = row["exact"]["mean_relative"], row["reference_exact"]["mean_relative"]
    return [
        f"output {row['output']} was excused ({row['excused']}): it is {mine:.1e} from double precision, "
        f"the reference {its:.1e}"
    ]


def is_far(row: Mapping[str, Any]) -> bool:
    """True if an output without a reason against it is further from the exact one than the tolerance."""
    if row["reason"] or "exact" not in row:
        return False
    exact = row["exact"]
    return bool(exact["mean_relative"] > row["limit"] or exact["max_over_range"] > LARGEST * row["limit"])


def judge_far(row: Mapping[str, Any], plain: Any, exact: Any) -> str:
    """What is wrong with an output that ``is_far``, or an empty string: the reference kernels, whose result is
    ``plain``, are as far from the exact one.
    """
    its, limit = difference(plain, exact), LARGEST * row["limit"]
    for figure, what in (("mean_relative", "mean relative error"), ("max_over_range", "largest error over the range")):
        own = getattr(its, figure)
        if row["exact"][figure] > AS_GOOD * own + limit:
            return (
                f"{what} {row['exact'][figure]:.2e} from double precision, where the reference kernels have {own:.2e}: "
                "a kernel that the reference runs as well is wrong"
            )
    return ""


def nowhere_finite(value: Any) -> bool:
    """True for a floating-point array that is all NaN and infinity."""
    if not isinstance(value, np.ndarray) or not value.size or not (value.dtype.kind == "f" or is_narrow(value.dtype)):
        return False
    return not np.isfinite(value.astype(np.float64)).any()


def _reason(apart: Difference, angle: float, limit: float) -> str:
    if not apart.same_nonfinite:
        return "NaN or infinity at other places than in the reference"
    if apart.mean_relative > limit:
        return f"mean relative error {apart.mean_relative:.2e}, allowed {limit:.0e}"
    if apart.max_over_range > LARGEST * limit:
        return f"largest error {apart.max_over_range:.2e} of the range, allowed {LARGEST * limit:.0e}"
    if angle < 1.0 - limit:
        return f"cosine {angle:.8f}, expected at least {1 - limit:.8f}"
    return ""


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        close = a.dtype.kind == "f" and a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        return bool(close or np.array_equal(a, b))
    return bool(a == b)


def same_bits(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """True if two runs gave the same, NaN for NaN."""
    return all(_bits(x) == _bits(b[name]) for name, x in a.items())


def _bits(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.shape, np.ascontiguousarray(value).tobytes()
    if isinstance(value, list | tuple):
        return [_bits(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
