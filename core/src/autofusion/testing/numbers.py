"""Whether two results are the same numbers, as far as their element type and the way they were computed allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType

TOLERANCE = {"float64": 2e-6, "float32": 2e-5, "float16": 8e-3, "bfloat16": 5e-2}
"""Largest difference, relative to the largest number of the result: a few roundings of sums of a few hundred terms.
Attributes are single precision, so a number that a rule takes for an attribute is no more exact than that."""
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


def tolerance(dtype: np.dtype) -> float:
    """Relative tolerance for results of ``dtype``; 0 for those that have no rounding."""
    return TOLERANCE.get(dtype.name, 0.0 if dtype.kind in "biuOSU" else 5e-2)


def difference(found: Any, expected: Any, rtol: float | None = None) -> str:
    """How two results differ, as a sentence; empty if they do not. NaN equals NaN, infinities must be the same."""
    old, new = np.asarray(expected), np.asarray(found)
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"it is {new.dtype.name}{list(new.shape)}, expected {old.dtype.name}{list(old.shape)}"
    if old.dtype.kind in "OSU":
        return "" if np.array_equal(old, new) else f"it is {new.tolist()}, expected {old.tolist()}"
    rtol = tolerance(old.dtype) if rtol is None else rtol
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    a, b = new.astype(wide), old.astype(wide)
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max(initial=0.0))
    limit = rtol * np.maximum(np.abs(np.where(finite, b, 0)), scale)
    with np.errstate(all="ignore"):
        same = np.where(finite, np.isfinite(a) & (np.abs(a - b) <= limit), (a == b) | (np.isnan(a) & np.isnan(b)))
    if same.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    count = int((~same).sum())
    return f"{count} of {same.size} numbers differ, the first at {list(place)}: {a[place]}, expected {b[place]}"


def all_differences(found: Sequence[Any], expected: Sequence[Any], names: Sequence[str]) -> str:
    """The first difference, with the name of the output."""
    for name, new, old in zip(names, found, expected, strict=True):
        said = difference(new, old)
        if said:
            return f"output '{name}': {said}"
    return ""


def ordinary_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Random data for every input of static shape, also for those that have a default: a caller may override it."""
    rng = np.random.default_rng(seed)
    return {v.name: random_array(v.type, rng) for v in graph.inputs if isinstance(v.type, TensorType)}


def special_inputs(graph: Graph, seed: int = 0) -> Mapping[str, np.ndarray]:
    """As ``ordinary_inputs``, with NaN, infinities and zeros of both signs among the numbers."""
    made = ordinary_inputs(graph, seed)
    return {name: with_specials(array, seed) for name, array in made.items()}


def with_specials(array: np.ndarray, seed: int = 0) -> np.ndarray:
    """A copy of ``array`` with a special number at every fifth place or so; integers stay as they are."""
    if not _is_float(array.dtype) or not array.size:
        return array
    rng = np.random.default_rng(seed + 1)
    flat = array.reshape(-1).copy()
    places = rng.choice(flat.size, max(1, flat.size // 5), replace=False)
    flat[places] = rng.choice(np.asarray(_SPECIAL), places.size).astype(flat.dtype)
    return flat.reshape(array.shape)


def random_array(type_: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Data of a static type: floats about 0, small integers, truth values."""
    shape, dtype = type_.static_shape, type_.dtype
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0, 9, shape)).astype(dtype)
    if dtype.kind == "O":
        return np.asarray([f"s{i}" for i in range(type_.numel)], object).reshape(shape)
    if dtype.kind == "c":
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"
