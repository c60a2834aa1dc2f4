"""Where values live while a plan is made: stored tensors, and the buffers that groups of them share.

A value has one primary ``Stored`` (as its producer writes it) and perhaps further ones in other layouts. A
``Stored`` that is a view of another one, or a piece of a concatenation in place, belongs to the same ``Root``: one
buffer, one lifetime, one border.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autofusion.ir.types import TensorType
from autofusion.kernels.contract import PLAIN, Buffer, BufferKind, Layout, TensorView, dense_strides

ALIGNMENT = 64


@dataclass(slots=True, eq=False)
class Root:
    """One buffer in the making. Steps are numbered; the buffer lives from ``first`` to ``last``, both included."""

    type: TensorType
    layout: Layout
    bordered: bool
    """Every writer can write inside a border."""
    border: tuple[int, ...] = ()
    pinned: bool = False
    """Some view needs the tensor without a border around it."""
    slot: int = -1
    """External slot, or -1 for the arena."""
    first: int = -1
    last: int = -1
    shared: bool = False
    """More than one stored tensor lives here."""
    buffer: Buffer | None = None
    _stored: tuple[int, ...] | None = None
    """What ``stored_shape`` says, as long as the border stays."""

    def touch(self, step: int) -> None:
        """Extend the lifetime to ``step``."""
        self.first = step if self.first < 0 else min(self.first, step)
        self.last = max(self.last, step)

    def can_border(self, border: Sequence[int]) -> bool:
        """True if the buffer has, or can still be given, this zero border."""
        if not any(border):
            return True
        return self.bordered and not self.pinned and self.slot < 0

    def widen(self, border: Sequence[int]) -> None:
        """Give the buffer at least this border."""
        if any(border):
            have = self.border or (0,) * len(border)
            self._stored = None
            self.border = tuple(max(a, b) for a, b in zip(have, border, strict=True))

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the memory, border and padding lanes included."""
        if self._stored is None:
            self._stored = self._shape()
        return self._stored

    def _shape(self) -> tuple[int, ...]:
        shape = self.type.static_shape
        spatial = len(shape) - 2
        if self.layout.block:
            block = self.layout.block
            inner = list(shape[2:])
            head = [shape[0], -(-shape[1] // block)]
            tail = [block]
        else:
            if not any(self.border):
                return shape
            inner, head, tail = list(shape[2:]), list(shape[:2]), []
        if any(self.border):
            inner = [d + self.border[i] + self.border[spatial + i] for i, d in enumerate(inner)]
        return (*head, *inner, *tail)

    @property
    def nbytes(self) -> int:
        """Bytes, rounded up so that a whole vector can always be read."""
        raw = math.prod(self.stored_shape) * self.type.dtype.itemsize
        return -(-max(raw, 1) // ALIGNMENT) * ALIGNMENT

    @property
    def geometry(self) -> tuple[object, ...]:
        """Buffers of equal geometry have their borders at the same bytes."""
        return (self.type.dtype.str, self.stored_shape, self.border, self.layout)

    def view(self, type_: TensorType) -> TensorView:
        """The tensor in its buffer; the buffer must be placed."""
        assert self.buffer is not None
        stored = self.stored_shape
        strides = dense_strides(stored)
        if self.layout.block:
            strides = strides[:-1]
        spatial = len(type_.static_shape) - 2
        offset = 0
        if any(self.border):
            offset = sum(self.border[i] * strides[2 + i] for i in range(spatial))
        return TensorView(type_, self.layout, strides, self.buffer, offset, self.border if any(self.border) else ())


@dataclass(slots=True, eq=False)
class Stored:
    """A value in one layout. ``derive`` maps the view of ``parent`` to this one's (aliases and concat pieces)."""

    name: str
    type: TensorType
    layout: Layout
    own_root: Root | None
    parent: Stored | None = None
    derive: Callable[[TensorView], TensorView] | None = None
    _view: TensorView | None = field(default=None)
    _owner: Stored | None = field(default=None)
    """A tensor further down the chain of parents: chains of views may be thousands long, and are walked once."""

    @property
    def root(self) -> Root:
        """The buffer that this tensor lives in."""
        passed: list[Stored] = []
        stored = self
        while (below := stored._owner or stored.parent) is not None:
            passed.append(stored)
            stored = below
        for each in passed[:-1]:
            each._owner = stored
        assert stored.own_root is not None
        return stored.own_root

    def place(self, parent: Stored, derive: Callable[[TensorView], TensorView]) -> None:
        """Move the tensor into (a part of) ``parent``'s memory."""
        old, new = self.root, parent.root
        self.own_root, self.parent, self.derive = None, parent, derive
        new.shared = True
        new.bordered = new.bordered and old.bordered
        new.pinned = new.pinned or old.pinned
        new.widen(old.border)
        if old.first >= 0:
            new.touch(old.first)
            new.touch(old.last)

    def view(self) -> TensorView:
        """The view, once buffers are placed."""
        # From the buffer upwards, and not by recursion: views of views may be thousands deep.
        chain = [self]
        while chain[-1]._view is None and chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        for stored in reversed(chain):
            if stored._view is not None:
                continue
            if stored.parent is None or stored.derive is None:
                stored._view = stored.root.view(stored.type)
            else:
                assert stored.parent._view is not None
                stored._view = stored.derive(stored.parent._view)
        assert self._view is not None
        return self._view


def fresh(name: str, type_: TensorType, layout: Layout, *, bordered: bool, slot: int = -1) -> Stored:
    """A tensor with a buffer of its own."""
    return Stored(name, type_, layout, Root(type_, layout, bordered, slot=slot))


def external_buffer(root: Root) -> Buffer:
    """The buffer of a root that the caller provides."""
    assert root.layout == PLAIN and not any(root.border)
    return Buffer(BufferKind.EXTERNAL, root.type.nbytes, slot=root.slot)
