"""Run one offer of a kernel pack on memory that is as unfriendly as the contract allows, and see what it touched.

Views start off alignment where they may, rows have gaps where the offer takes strides, lanes past the channels hold
NaN, scratch memory holds rubbish, and everything around a result must stay as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofusion.ir.types import TensorType
from autofusion.kernels.contract import (
    PLAIN,
    BindContext,
    BoundStep,
    Buffer,
    BufferKind,
    KernelPack,
    Offer,
    Operand,
    Segment,
    TensorView,
    dense_strides,
)
from autofusion.kernels.target import Target
from autofusion.runtime.arena import Arena
from autofusion.testing.apply import run_node
from autofusion.testing.nodes import NodeCase

_GUARD = 256
"""Bytes before and after every tensor that nobody may touch."""
_LINE = 64


class OfferError(AssertionError):
    """An offer or its kernel breaks the contract."""


@dataclass(slots=True)
class _Place:
    """Where a tensor lies, and how much memory it takes."""

    view: TensorView
    nbytes: int


def _place(type_: TensorType, operand: Operand, offset: int, *, hostile: bool, writer: bool) -> _Place:
    """A view for ``type_`` as ``operand`` wants it, in the arena at ``offset`` bytes or a little after."""
    shape, size = type_.static_shape, type_.dtype.itemsize
    block, spatial = operand.layout.block, max(len(shape) - 2, 0)
    border = operand.border or (0,) * (2 * spatial)
    if hostile and block and (operand.bordered or not writer):
        border = tuple(max(b, 1 + i % 2) for i, b in enumerate(border))
    low, high = border[:spatial], border[spatial:]
    inner = [d + a + b for d, a, b in zip(shape[2:], low, high, strict=True)]
    stored = [shape[0], -(-shape[1] // block), *inner, block] if block else [*shape[:2], *inner]
    if hostile and (block or operand.strided):
        for axis in range(len(stored) - (2 if block else 0)):
            stored[axis] += 1
    strides = dense_strides(stored)
    start = -(-offset // _LINE) * _LINE + _GUARD
    if hostile and not block:
        start += size  # a plain view is aligned to its element only
    nbytes = int(np.prod(stored, dtype=np.int64)) * size
    first = sum(a * s for a, s in zip(low, strides[2:], strict=False))
    buffer = Buffer(BufferKind.ARENA, nbytes, offset=start)
    view_border = border if any(border) else ()
    view = TensorView(type_, operand.layout, strides[:-1] if block else strides, buffer, first, view_border)
    return _Place(view, start + nbytes + _GUARD - offset)


def stored(array: np.ndarray, block: int, fill: Any) -> np.ndarray:
    """``[N, C, *S]`` as ``[N, ceil(C / block), *S, block]``, ``fill`` in the lanes past C; plain data as it is."""
    if not block:
        return array
    count, channels, *spatial = array.shape
    blocks = -(-channels // block)
    padded = np.full((count, blocks * block, *spatial), fill, array.dtype)
    padded[:, :channels] = array
    return np.ascontiguousarray(np.moveaxis(padded.reshape(count, blocks, block, *spatial), 2, -1))


class Bench:
    """One offer bound to memory of its own; ``run`` as often as wanted, with any operands of the same types."""

    def __init__(
        self,
        pack: KernelPack,
        case: NodeCase,
        offer: Offer,
        target: Target,
        *,
        hostile: bool = True,
        inplace: bool = False,
    ) -> None:
        self.case, self.offer, self._label = case, offer, f"kernel '{offer.kernel}' of pack '{pack.name}' on {case}"
        node = case.node
        if len(offer.inputs) != len(node.inputs) or len(offer.outputs) != len(node.outputs):
            raise OfferError(
                f"{self._label}: the offer has {len(offer.inputs)} operands and {len(offer.outputs)} results, the node "
                f"{len(node.inputs)} and {len(node.outputs)}"
            )
        at = 0
        self._inputs: list[TensorView | None] = []
        self._outputs: list[TensorView] = []
        for value, operand, data in zip(node.inputs, offer.inputs, case.arrays, strict=True):
            if value is None or data is None or operand is None:
                self._inputs.append(None)
            elif value.const is not None:
                buffer = Buffer(BufferKind.CONSTANT, value.const.nbytes, array=value.const)
                self._inputs.append(TensorView(value.tensor, PLAIN, dense_strides(value.const.shape), buffer))
            else:
                place = _place(value.tensor, operand, at, hostile=hostile, writer=False)
                self._inputs.append(place.view)
                at += place.nbytes
        shared = dict(offer.inplace) if inplace else {}
        for index, (value, operand) in enumerate(zip(node.outputs, offer.outputs, strict=True)):
            over = self._inputs[shared[index]] if index in shared else None
            if over is not None and over.buffer.kind is BufferKind.ARENA:
                self._outputs.append(over)
                continue
            place = _place(value.tensor, operand, at, hostile=hostile, writer=True)
            self._outputs.append(place.view)
            at += place.nbytes
        scratch = None
        if offer.scratch:
            bytes_ = TensorType(np.dtype(np.uint8), (offer.scratch,))
            place = _place(bytes_, Operand(), at, hostile=False, writer=True)
            scratch, at = place.view, at + place.nbytes
        self._scratch = scratch
        self._arena = Arena(at + _GUARD)
        self._rubbish()
        kernel = offer.bind(BindContext(target, {}, scratch, run_node), self._inputs, self._outputs)
        self._kernel, self._segment = kernel, None
        if not callable(kernel):
            step = BoundStep(node, kernel, tuple(self._inputs), tuple(self._outputs))
            segment: Segment | None = pack.assemble([step], self._arena, target)
            if segment is None:
                raise OfferError(f"{self._label}: its kernel is not callable, and the pack assembles none")
            self._segment = segment

    def _rubbish(self) -> None:
        """Fill all memory with a pattern that is neither zero nor a small number; borders with zeros."""
        self._arena.bytes[:] = np.arange(len(self._arena.bytes)) % 113 + 130
        for view in (*self._inputs, *self._outputs):
            if view is not None and view.border:
                self._with_border(view)[...] = 0

    def _with_border(self, view: TensorView) -> np.ndarray:
        """The stored array, the border included."""
        spatial = len(view.border) // 2
        low, high = view.border[:spatial], view.border[spatial:]
        array = self._arena.array(view, ())
        strides = list(array.strides)
        first = array.ctypes.data - sum(a * s for a, s in zip(low, strides[2:], strict=False))
        shape = list(array.shape)
        for axis in range(spatial):
            shape[2 + axis] += low[axis] + high[axis]
        offset = first - self._arena.bytes.ctypes.data
        return np.ndarray(shape, array.dtype, self._arena.bytes, offset, strides)

    def run(self, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Run on these operands; return the results in their logical shapes, and check what was touched."""
        self._fill(arrays)
        before = self._arena.bytes.copy()
        self.run_kernel()
        self._check(before)
        return [self._arena.read(view, ()) for view in self._outputs]

    def _fill(self, arrays: Sequence[np.ndarray | None]) -> None:
        for view, data in zip(self._inputs, arrays, strict=True):
            if view is not None and data is not None and view.buffer.kind is BufferKind.ARENA:
                lanes = np.nan if data.dtype.kind in "fV" else 1
                self._arena.array(view, ())[...] = stored(data, view.layout.block, lanes)

    def run_kernel(self) -> None:
        """Run once on whatever the memory holds."""
        if self._segment is not None:
            self._segment.run([])
            return
        given = [None if view is None else self._arena.array(view, ()) for view in self._inputs]
        results = self._kernel(given)
        if len(results) != len(self._outputs):
            raise OfferError(f"{self._label}: it returned {len(results)} results, expected {len(self._outputs)}")
        for view, result in zip(self._outputs, results, strict=True):
            place = self._arena.array(view, ())
            if not isinstance(result, np.ndarray) or result.shape != place.shape or result.dtype != place.dtype:
                found = (
                    f"{result.dtype}{list(result.shape)}" if isinstance(result, np.ndarray) else type(result).__name__
                )
                raise OfferError(f"{self._label}: it returned {found}, expected {place.dtype}{list(place.shape)}")
            place[...] = result

    def _check(self, before: np.ndarray) -> None:
        allowed = np.zeros(len(before), bool)
        written = [*self._outputs, *([self._scratch] if self._scratch is not None else [])]
        for array in (self._arena.array(view, ()) for view in written):
            size = array.dtype.itemsize
            start = array.ctypes.data - self._arena.bytes.ctypes.data
            np.ndarray((*array.shape, size), bool, allowed, start, (*array.strides, 1))[...] = True
        touched = np.flatnonzero((self._arena.bytes != before) & ~allowed)
        if not touched.size:
            return
        for number, view in enumerate(self._inputs):
            if view is not None and view.buffer.kind is BufferKind.ARENA:
                start = view.buffer.offset
                if start <= touched[0] < start + view.buffer.nbytes:
                    raise OfferError(f"{self._label}: it writes to its operand {number}")
        for number, result in enumerate(self._outputs):
            start = result.buffer.offset
            if start <= touched[0] < start + result.buffer.nbytes:
                raise OfferError(f"{self._label}: it writes to the border, or between the rows, of its result {number}")
        raise OfferError(f"{self._label}: it writes outside its results, at byte {touched[0]} of {len(before)}")
