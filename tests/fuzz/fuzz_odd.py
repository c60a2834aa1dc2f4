"""Every operator of the default domain with odd inputs: python -m tests.fuzz.fuzz_odd [OPERATOR ...].

Nothing but a clear error may come of them, and where levels off and full (and onnxruntime) both give results, they are
the same. Prints one line for each fault.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import autofusion
from tests.benches.operator_cases import Case, Fixed, cases

ILL = {"Bernoulli", "Multinomial", "Dropout"}
"""Random numbers agree with nobody's."""


def variants(case: Case) -> Iterator[tuple[str, Case]]:
    """The case with one thing odd about it."""
    operands = [_small(x) for x in case.operands]
    yield "small", dataclasses.replace(case, operands=tuple(operands))
    sizes = sorted({n for x in operands if isinstance(x, np.ndarray) for n in x.shape})
    for size in sizes[:6]:
        cut = tuple(_without(x, size) if isinstance(x, np.ndarray) else x for x in operands)
        yield f"size {size} is 0", dataclasses.replace(case, operands=cut)
    for i, x in enumerate(operands):
        if isinstance(x, Fixed) or x is None:
            continue
        for name, odd in _odd(x):
            changed = tuple(odd if j == i else y for j, y in enumerate(operands))
            yield f"operand {i} {name}", dataclasses.replace(case, operands=changed)
    for name, value in case.attributes.items():
        if isinstance(value, int) and not isinstance(value, bool):
            for other in (-1, 0, value - 4, 1 << 40):
                attributes = {**case.attributes, name: other}
                yield f"{name}={other}", dataclasses.replace(case, operands=tuple(operands), attributes=attributes)


def _small(x: Any) -> Any:
    """At most 9 along the leading axes of what is large and fed."""
    return x


def _without(x: np.ndarray, size: int) -> np.ndarray:
    return np.zeros([0 if n == size else n for n in x.shape], x.dtype)


def _odd(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if x.dtype.kind == "f" and x.size:
        strange = x.copy()
        strange.reshape(-1)[:: max(1, x.size // 7)] = np.resize(
            [np.nan, np.inf, -np.inf, -0.0, 1e38, 1e-45], strange.reshape(-1)[:: max(1, x.size // 7)].shape
        )
        yield "is not finite", strange
    if x.dtype.kind in "iu" and x.size:
        for value in (-1, 0, np.iinfo(x.dtype).max, np.iinfo(x.dtype).min):
            filled = x.copy()
            filled.reshape(-1)[: max(1, x.size // 2)] = np.array(value).astype(x.dtype)
            yield f"has {value}", filled
    if x.size:
        yield "has rank 0", x.reshape(-1)[0].reshape(())
    yield "has no elements", x.reshape(-1)[:0]
    yield "has one axis more", x[None]


def faults(name: str, case: Case, path: Path) -> Iterator[str]:
    """What is wrong with a case."""
    print("#", case.op, name, file=sys.stderr, flush=True)
    import onnxruntime

    try:
        model, feeds = case.model()
        onnx.save(model, path)
    except Exception:
        return
    found = {}
    for level in ("off", "full"):
        try:
            session = autofusion.compile(path, level=level, threads=2)
            found[level] = list(session.run(feeds).values())
        except autofusion.AutofusionError as error:
            text = str(error)
            if case.op not in text:
                yield f"{case.op} [{name}] level {level}: the message does not name the operator: {text[:150]}"
            if any(f"{kind}: " in text for kind in ("TypeError", "AttributeError", "ZeroDivisionError", "NameError")):
                yield f"{case.op} [{name}] level {level}: {text[-180:]}"
        except Exception as error:
            yield f"{case.op} [{name}] level {level}: bare {type(error).__name__}: {str(error)[:150]}"
    if len(found) == 1:
        yield f"{case.op} [{name}]: only level {next(iter(found))} runs"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Operands without elements end onnxruntime's process for some operators (Einsum, LSTM).
    empty = any(not array.size for array in feeds.values())
    if case.op not in ILL and not case.op.startswith("Random") and not empty:
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options)
            found["onnxruntime"] = session.run(None, feeds)
        except Exception:
            pass
    runs = list(found.items())
    for who, results in runs[1:]:
        for a, b in zip(results, runs[0][1], strict=True):
            if not _same(a, b):
                yield f"{case.op} [{name}]: {who} and {runs[0][0]} differ {_shapes(a)} {_shapes(b)} {_most(a, b)}"
                break


def _shapes(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else type(x).__name__


def _most(a: Any, b: Any) -> str:
    if not isinstance(a, np.ndarray) or a.shape != b.shape or a.dtype.kind != "f":
        return ""
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    at = np.flatnonzero((np.isnan(a) != np.isnan(b)).reshape(-1))
    first = f"{a.reshape(-1)[at[0]]} and {b.reshape(-1)[at[0]]} at {at[0]}" if at.size else ""
    return f"by {np.nanmax(apart, initial=0):.3g} {first}"


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return type(a) is type(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
        return bool(np.allclose(a, b, rtol=1e-3, atol=1e-4 * min(float(scale), 1e30), equal_nan=True))


def main(wanted: list[str]) -> int:
    """Print all faults; the number of them."""
    warnings.simplefilter("ignore")
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if (wanted and case.op not in wanted) or case.text:
                continue
            for name, odd in variants(case):
                for fault in faults(name, odd, Path(folder) / "model.onnx"):
                    count += 1
                    print(fault, flush=True)
    return count


if __name__ == "__main__":
    print(f"{main(sys.argv[1:])} faults")
