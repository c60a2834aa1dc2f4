"""Evaluates small constant expressions while a graph is read.

Models compute axes, permutations and shapes by operators (an element of a shape, times two), where the IR wants
numbers. Only what gives the same bits on every machine is evaluated here: moving elements, integers, and floating-point
operations that are rounded correctly, on a few elements. All else is left to the engine's folding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_MOST_ELEMENTS = 4096
"""Results of arithmetic may have as many; larger ones are left alone."""

Arrays = Sequence[np.ndarray | None]
Attrs = Mapping[str, Any]


def fold(op: str, attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
    """The result of ``op`` on constant operands, or None if it is not evaluated here."""
    function = _MOVES.get(op)
    if function is None:
        function = _ARITHMETIC.get(op)
        if function is None or any(x is not None and (x.size > _MOST_ELEMENTS) for x in inputs):
            return None
    if any(x is not None and x.dtype == object for x in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            result = function(attrs, inputs)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None  # the operands do not fit: inference will say so, naming the node
    return (
        result
        if result is None or result.size <= max(_MOST_ELEMENTS, *(x.size for x in inputs if x is not None))
        else None
    )


def _some(inputs: Arrays, index: int) -> np.ndarray:
    value = inputs[index] if index < len(inputs) else None
    if value is None:
        raise ValueError("absent")
    return value


def _reshape(attrs: Attrs, inputs: Arrays) -> np.ndarray:
    target = [int(d) for d in _some(inputs, 1)]
    if not attrs.get("allowzero"):
        target = [_some(inputs, 0).shape[i] if d == 0 else d for i, d in enumerate(target)]
    return _some(inputs, 0).reshape(target)


def _axes(inputs: Arrays, rank: int) -> tuple[int, ...]:
    return tuple(int(a) % rank for a in _some(inputs, 1).reshape(-1))


def _squeeze(attrs: Attrs, inputs: Arrays) -> np.ndarray:
    x = _some(inputs, 0)
    if len(inputs) < 2:
        return x.squeeze()
    return x.squeeze(_axes(inputs, x.ndim)) if x.ndim else x


def _unsqueeze(attrs: Attrs, inputs: Arrays) -> np.ndarray:
    x = _some(inputs, 0)
    return np.expand_dims(x, _axes(inputs, x.ndim + _some(inputs, 1).size))


def _slice(attrs: Attrs, inputs: Arrays) -> np.ndarray:
    x, starts, ends = (_some(inputs, i) for i in range(3))
    axes = _some(inputs, 3) if len(inputs) > 3 and inputs[3] is not None else np.arange(len(starts))
    steps = _some(inputs, 4) if len(inputs) > 4 and inputs[4] is not None else np.ones(len(starts), np.int64)
    index: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[int(axis)]
        low, high, stride = int(start), int(end), int(step)
        low = low + size if low < 0 else low
        high = high + size if high < 0 else high
        if stride > 0:
            index[int(axis)] = slice(min(max(low, 0), size), min(max(high, 0), size), stride)
        else:
            low, high = min(max(low, 0), size - 1), max(high, -1)
            index[int(axis)] = slice(low, None if high < 0 else high, stride)
    return x[tuple(index)]


def _gather(attrs: Attrs, inputs: Arrays) -> np.ndarray:
    return np.take(_some(inputs, 0), _some(inputs, 1), axis=int(attrs.get("axis", 0)))


def _divide(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
    a, b = _some(inputs, 0), _some(inputs, 1)
    if a.dtype != b.dtype:
        return None
    if a.dtype.kind not in "iu":
        return np.asarray(np.divide(a, b))
    if not b.all():
        return None
    quotient = np.abs(a) // np.abs(b)
    return np.asarray(np.where((a < 0) != (b < 0), -quotient, quotient), a.dtype)


def _modulo(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
    a, b = _some(inputs, 0), _some(inputs, 1)
    if a.dtype != b.dtype or not b.all():
        return None
    return np.asarray(np.fmod(a, b) if attrs.get("fmod") else np.mod(a, b))


def _cast(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
    x = _some(inputs, 0)
    to: np.dtype[Any] = np.dtype(attrs["to"])
    if x.dtype.kind not in "biuf" or to.kind not in "biuf":
        return None
    if x.dtype.kind == "f" and to.kind in "iu":
        info = np.iinfo(to.name)
        if not (np.isfinite(x).all() and (x >= float(info.min)).all() and (x < float(info.max)).all()):
            return None
    return x.astype(to)


def _range(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
    start, limit, delta = (_some(inputs, i).reshape(()) for i in range(3))
    if start.dtype.kind not in "iu" or not int(delta):
        return None
    count = max(-(-(int(limit) - int(start)) // int(delta)), 0)
    if count > _MOST_ELEMENTS:
        return None
    return (int(start) + np.arange(count) * int(delta)).astype(start.dtype)


def _expand(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
    x = _some(inputs, 0)
    shape = np.broadcast_shapes(x.shape, tuple(int(d) for d in _some(inputs, 1)))
    return None if np.prod(shape) > _MOST_ELEMENTS else np.broadcast_to(x, shape)


def _tile(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
    x, repeats = _some(inputs, 0), _some(inputs, 1)
    return None if x.size * np.prod(repeats) > _MOST_ELEMENTS else np.tile(x, repeats)


def _filled(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
    shape = tuple(int(d) for d in _some(inputs, 0))
    if np.prod(shape) > _MOST_ELEMENTS:
        return None
    value = attrs.get("value")
    return np.full(shape, np.float32(0) if value is None else np.asarray(value).reshape(()))


def _reduce(ufunc: np.ufunc) -> Callable[[Attrs, Arrays], np.ndarray | None]:
    def function(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
        x = _some(inputs, 0)
        if x.dtype.kind not in "biu":
            return None
        axes: Any = None if len(inputs) < 2 or inputs[1] is None else _axes(inputs, max(x.ndim, 1))
        if axes is not None and x.ndim == 0:
            return x
        return np.asarray(ufunc.reduce(x, axis=axes, keepdims=bool(attrs.get("keepdims", 1)))).astype(x.dtype)

    return function


def _plain(function: Callable[..., Any]) -> Callable[[Attrs, Arrays], np.ndarray]:
    return lambda attrs, inputs: np.asarray(function(*(_some(inputs, i) for i in range(len(inputs)))))


def _of_one_type(function: np.ufunc) -> Callable[[Attrs, Arrays], np.ndarray | None]:
    """Of two operands, or of any number for Max and Min; operands of several types are for inference to refuse."""

    def folded(attrs: Attrs, inputs: Arrays) -> np.ndarray | None:
        arrays = [_some(inputs, i) for i in range(len(inputs))]
        if len({x.dtype for x in arrays}) != 1:
            return None
        return np.asarray(functools.reduce(function, arrays))

    return folded


_MOVES: dict[str, Callable[[Attrs, Arrays], np.ndarray | None]] = {
    "Identity": lambda attrs, inputs: _some(inputs, 0),
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": lambda attrs, inputs: _some(inputs, 0).transpose(attrs["perm"]),
    "Unsqueeze": _unsqueeze,
}
_ARITHMETIC: dict[str, Callable[[Attrs, Arrays], np.ndarray | None]] = {
    "Abs": _plain(np.abs),
    "Add": _of_one_type(np.add),
    "And": _of_one_type(np.logical_and),
    "Cast": _cast,
    "Ceil": _plain(np.ceil),
    "Concat": lambda attrs, inputs: np.concatenate([_some(inputs, i) for i in range(len(inputs))], attrs["axis"]),
    "ConstantOfShape": _filled,
    "Div": _divide,
    "Equal": _of_one_type(np.equal),
    "Expand": _expand,
    "Floor": _plain(np.floor),
    "Gather": _gather,
    "Greater": _of_one_type(np.greater),
    "GreaterOrEqual": _of_one_type(np.greater_equal),
    "Less": _of_one_type(np.less),
    "LessOrEqual": _of_one_type(np.less_equal),
    "Max": _of_one_type(np.maximum),
    "Min": _of_one_type(np.minimum),
    "Mod": _modulo,
    "Mul": _of_one_type(np.multiply),
    "Neg": _plain(np.negative),
    "Not": _plain(np.logical_not),
    "Or": _of_one_type(np.logical_or),
    "Range": _range,
    "ReduceMax": _reduce(np.maximum),
    "ReduceMin": _reduce(np.minimum),
    "ReduceProd": _reduce(np.multiply),
    "ReduceSum": _reduce(np.add),
    "Round": _plain(np.rint),
    "Slice": _slice,
    "Sub": _of_one_type(np.subtract),
    "Tile": _tile,
    "Where": _plain(np.where),
}
