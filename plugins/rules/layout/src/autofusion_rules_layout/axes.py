"""How an operator looks when its operand is transposed: the same operator with other axes.

``moved(node, perm)`` answers: where ``node`` reads ``Transpose(s, perm)``, which node on ``s`` gives the same, and how
must its result be transposed? Every axis ``a`` of the transposed operand is axis ``perm[a]`` of ``s``. This one answer
serves both directions: sinking a Transpose below an operator, and lifting it above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, attribute, names, op_class
from autofusion.rules import ints, normal_axis

Perm = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Stands for what the Transpose in front of operand ``index`` reads."""

    index: int


@dataclass(frozen=True, slots=True)
class Turned:
    """Stands for operand ``index`` behind a Transpose that moves nothing but axes of one element."""

    index: int


Operand = Source | Turned | Value | np.ndarray | None


@dataclass(frozen=True, slots=True)
class Moved:
    """The node on untransposed operands. ``perm`` transposes each of its results back.

    Operands are Sources, Turned, values as they are, arrays (new constants), or None.
    """

    operands: tuple[Operand, ...]
    perm: Perm
    attrs: dict[str, Any] = field(default_factory=dict)


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes ``perm``."""
    return tuple(int(i) for i in np.argsort(perm))


def perm_of(node: Node) -> Perm | None:
    """The permutation of a Transpose; None if it is the default one and the rank is not known."""
    perm = attribute(node, "perm")
    if perm is not None:
        return tuple(int(p) for p in perm)
    x = node.inputs[0]
    return None if x is None or x.shape is None else tuple(reversed(range(len(x.shape))))


def transposes(value: Value | None) -> Perm | None:
    """The permutation, if the value comes from a Transpose."""
    node = None if value is None else value.producer
    return perm_of(node) if node is not None and node.op == "Transpose" else None


def is_single(value: Value) -> bool:
    """True if the value is known to have one element, whatever its rank."""
    return value.shape is not None and all(d == 1 for d in value.shape)


# ---- one answer for each kind of operator -------------------------------------------------------------------------


def _pointwise(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    operands: list[Operand] = []
    rank = len(perm)
    for index, value in enumerate(node.inputs):
        if value is None:
            operands.append(None)
        elif source(value):
            operands.append(Source(index))
        elif value.shape is None or len(value.shape) > rank:
            return None
        elif is_single(value):
            operands.append(value)
        elif value.const is not None:
            operands.append(_transposed_constant(value.const, perm))
        elif moves_to_last(perm) and _is_gate(value, node, perm):
            operands.append(Turned(index))
        else:
            return None
    return Moved(tuple(operands), perm, dict(node.attrs))


def moves_to_last(perm: Perm) -> bool:
    """True for the permutation from channels first to channels last, where it is not its own inverse."""
    return len(perm) >= 4 and perm == (0, *range(2, len(perm)), 1)


def _is_gate(value: Value, node: Node, perm: Perm) -> bool:
    """True for an operand that is broadcast (one number for each channel), and whose elements stay in order."""
    shape, result = value.shape, node.output.shape
    if shape is None or len(shape) != len(perm) or result is None or shape == result:
        return False
    order = [p for p in inverse(perm) if shape[p] != 1]
    return order == sorted(order)


def _transposed_constant(data: np.ndarray, perm: Perm) -> np.ndarray:
    full = data.reshape((1,) * (len(perm) - data.ndim) + data.shape)
    return np.ascontiguousarray(full.transpose(inverse(perm)))


def _mapped(node: Node, axes: Sequence[int], perm: Perm) -> list[int]:
    return [perm[normal_axis(a, len(perm))] for a in axes]


def _without(perm: Perm, axes: Sequence[int]) -> Perm:
    """``perm`` of what is left when ``axes`` (of the untransposed operand) are gone."""
    left = [p for p in perm if p not in axes]
    order = sorted(left)
    return tuple(order.index(p) for p in left)


def _all_axes(perm: Perm, given: Sequence[Any]) -> list[Any]:
    """One number for each axis, in the order of the untransposed operand."""
    inv = inverse(perm)
    return [given[inv[i]] for i in range(len(perm))]


def _reduce(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    axes_value = node.operand(1)
    axes = ints(axes_value)
    if axes_value is not None and axes is None:
        return None
    keep = bool(attribute(node, "keepdims"))
    if not axes:
        if attribute(node, "noop_with_empty_axes"):
            return None
        return Moved((Source(0), axes_value), perm if keep else (), dict(node.attrs))
    moved = _mapped(node, axes, perm)
    return Moved((Source(0), np.array(moved, np.int64)), perm if keep else _without(perm, moved), dict(node.attrs))


def _arg(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    (axis,) = _mapped(node, [attribute(node, "axis")], perm)
    keep = bool(attribute(node, "keepdims"))
    return Moved((Source(0),), perm if keep else _without(perm, [axis]), dict(node.attrs) | {"axis": axis})


def _along_axis(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    """Operators with one ``axis`` and results of the operand's rank; their other operands do not depend on axes."""
    (axis,) = _mapped(node, [attribute(node, "axis")], perm)
    return Moved((Source(0), *node.inputs[1:]), perm, dict(node.attrs) | {"axis": axis})


def _softmax(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    """As any operator with an axis; but one along the last axis stays so, since its elements then are neighbours."""
    answer = _along_axis(node, perm, source)
    was_last = normal_axis(attribute(node, "axis"), len(perm)) == len(perm) - 1
    return None if was_last and answer is not None and answer.attrs["axis"] != len(perm) - 1 else answer


def _gather(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    indices = node.operand(1)
    if indices is None or indices.shape is None or source(indices) or len(indices.shape) > 1:
        return None
    (axis,) = _mapped(node, [attribute(node, "axis")], perm)
    result = perm if len(indices.shape) == 1 else _without(perm, [axis])
    return Moved((Source(0), indices), result, dict(node.attrs) | {"axis": axis})


def _concat(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    (axis,) = _mapped(node, [attribute(node, "axis")], perm)
    operands: list[Operand] = []
    for index, value in enumerate(node.inputs):
        if value is not None and source(value):
            operands.append(Source(index))
        elif value is not None and value.const is not None and value.const.ndim == len(perm):
            operands.append(_transposed_constant(value.const, perm))
        else:
            return None
    return Moved(tuple(operands), perm, dict(node.attrs) | {"axis": axis})


def _pad(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    amounts, axes_value = node.operand(1), node.operand(3)
    if axes_value is not None:
        axes = ints(axes_value)
        if axes is None:
            return None
        new = np.array(_mapped(node, axes, perm), np.int64)
        return Moved((Source(0), amounts, node.operand(2), new), perm, dict(node.attrs))
    given = ints(amounts)
    if given is None or len(given) != 2 * len(perm):
        return None
    rank = len(perm)
    both = _all_axes(perm, given[:rank]) + _all_axes(perm, given[rank:])
    return Moved((Source(0), np.array(both, np.int64), *node.inputs[2:3]), perm, dict(node.attrs))


def _slice(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    axes_value, starts = node.operand(3), node.operand(1)
    axes = ints(axes_value)
    if axes is None:
        if axes_value is not None or starts is None or starts.shape is None or not isinstance(starts.shape[0], int):
            return None
        axes = list(range(starts.shape[0]))
    new = np.array(_mapped(node, axes, perm), np.int64)
    return Moved((Source(0), starts, node.operand(2), new, *node.inputs[4:]), perm, dict(node.attrs))


def _resize(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    axes = node.attr("axes")
    if axes:
        return Moved((Source(0), *node.inputs[1:]), perm, dict(node.attrs) | {"axes": _mapped(node, axes, perm)})
    rank = len(perm)
    operands: list[Operand] = [Source(0)]
    for value in node.inputs[1:]:
        if value is None or (value.const is not None and value.const.size == 0):
            operands.append(value)
        elif value.const is None or value.const.size not in (rank, 2 * rank):
            return None
        else:
            parts = [_all_axes(perm, list(part)) for part in value.const.reshape(-1, rank)]
            operands.append(np.array([x for part in parts for x in part], value.const.dtype))
    return Moved(tuple(operands), perm, dict(node.attrs))


def _tile(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    repeats = ints(node.operand(1))
    if repeats is None or len(repeats) != len(perm):
        return None
    return Moved((Source(0), np.array(_all_axes(perm, repeats), np.int64)), perm, dict(node.attrs))


def _squeeze(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    x = node.inputs[0]
    axes = ints(node.operand(1))
    if node.operand(1) is None and x is not None and x.shape is not None and all(isinstance(d, int) for d in x.shape):
        axes = [i for i, d in enumerate(x.shape) if d == 1]
    if axes is None:
        return None
    moved = _mapped(node, axes, perm)
    return Moved((Source(0), np.array(moved, np.int64)), _without(perm, moved), dict(node.attrs))


def _unsqueeze(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    axes = ints(node.operand(1))
    if axes is None:
        return None
    rank = len(perm) + len(axes)
    new = {normal_axis(a, rank) for a in axes}
    old = iter(perm)
    # Labels: the axes of the untransposed operand by number, the new ones by minus their position.
    labels = [-1 - i if i in new else next(old) for i in range(rank)]
    order: list[int] = list(range(len(perm)))
    # A new axis goes before the axis that it precedes in the result, so that the Transpose stays as simple as it was.
    for position in reversed(range(rank)):
        if labels[position] < 0:
            follows = labels[position + 1] if position + 1 < rank else None
            order.insert(len(order) if follows is None else order.index(follows), labels[position])
    made = [i for i, label in enumerate(order) if label < 0]
    return Moved((Source(0), np.array(made, np.int64)), tuple(order.index(label) for label in labels), dict(node.attrs))


Answer = Callable[[Node, Perm, Callable[[Value], bool]], Moved | None]

_ANSWERS: dict[str, Answer] = {
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Concat": _concat,
    "Gather": _gather,
    "Hardmax": _along_axis,
    "LogSoftmax": _softmax,
    "LpNormalization": _along_axis,
    "Pad": _pad,
    "Resize": _resize,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _along_axis,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Unsqueeze": _unsqueeze,
}
_REDUCTIONS = tuple(
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
_ANSWERS |= dict.fromkeys(_REDUCTIONS, _reduce)


def movable_ops() -> tuple[str, ...]:
    """Every operator for which ``moved`` may have an answer."""
    return (*names(lambda schema: schema.op_class is OpClass.POINTWISE), *_ANSWERS)


def moved(node: Node, perm: Perm, source: Callable[[Value], bool]) -> Moved | None:
    """``node`` on untransposed operands, or None. ``source(v)``: does ``v`` count as transposed by ``perm``?"""
    if op_class(node) is OpClass.POINTWISE:
        return _pointwise(node, perm, source)
    answer = _ANSWERS.get(node.op)
    if answer is None or node.inputs[0] is None:
        return None
    if node.op != "Concat" and not source(node.inputs[0]):
        return None
    return answer(node, perm, source)
