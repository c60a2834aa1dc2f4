"""The memory behind plans: aligned arenas that plans share, and NumPy arrays over tensor views."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from autofusion.errors import KernelError
from autofusion.forks import renew_after_fork
from autofusion.ir.mapped import resident
from autofusion.kernels.contract import BufferKind, TensorView
from autofusion.lowering.plan import Plan
from autofusion.lowering.storage import ALIGNMENT


class Arena:
    """Bytes aligned to ``ALIGNMENT``, at first zero. Plans that share one run in turns: each holds ``lock`` for a run.

    Plans rely on the zeros of their borders, which they never write; see ``hold``.
    """

    def __init__(self, nbytes: int) -> None:
        try:
            self._owner = np.zeros(nbytes + 2 * ALIGNMENT, np.uint8)
        except (MemoryError, ValueError, OverflowError) as error:
            raise KernelError(
                f"the activations of this plan take {nbytes} bytes, which this process cannot have: {error}; "
                "run it on smaller inputs"
            ) from error
        start = -self._owner.ctypes.data % ALIGNMENT
        self.bytes = self._owner[start : start + nbytes + ALIGNMENT]
        self.capacity = nbytes
        self.wanted = 0
        """Bytes of the largest plan: memory past them is never touched."""
        self._base = int(self.bytes.ctypes.data)
        self._holder: object = None
        self._copies: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        """Copies of mapped constants by the id of the original."""
        self.renew_lock()
        renew_after_fork(self)

    @property
    def base(self) -> int:
        """The address that offsets of ARENA buffers count from."""
        return self._base

    def renew_lock(self) -> None:
        """A lock that nobody holds; see ``forks``."""
        self.lock = threading.Lock()

    def hold(self, plan: Plan) -> None:
        """Make the arena ready for a run of ``plan``: zeros in its borders, if another plan has run here since."""
        if self._holder is not plan:
            for border in plan.borders:
                border.clear(self.bytes)
            self._holder = plan

    def address(self, view: TensorView) -> int:
        """Address of the first element of an ARENA or CONSTANT view."""
        offset = view.offset * view.type.dtype.itemsize
        if view.buffer.kind is BufferKind.CONSTANT:
            return int(self._constant(view).ctypes.data) + offset
        assert view.buffer.kind is BufferKind.ARENA, "the address of an external view is only known at a run"
        return self._base + view.buffer.offset + offset

    def _constant(self, view: TensorView) -> np.ndarray:
        """The data of a CONSTANT view; of a mapped one, a copy that lives as long as the arena."""
        array = view.buffer.array
        assert array is not None
        copy = resident(array)
        if copy is array:
            return array
        return self._copies.setdefault(id(array), (array, copy))[1]

    def array(self, view: TensorView, external: Sequence[np.ndarray]) -> np.ndarray:
        """The view as an array: the logical shape if plain, ``[N, blocks, *spatial, block]`` inside the border if
        blocked.
        """
        dtype = view.type.dtype
        shape, strides = list(view.shape), list(view.strides)
        if view.layout.block:
            block = view.layout.block
            shape = [shape[0], -(-shape[1] // block), *shape[2:], block]
            strides.append(1)
        if view.buffer.kind is BufferKind.CONSTANT:
            return self._constant(view)
        if view.buffer.kind is BufferKind.EXTERNAL:
            source = external[view.buffer.slot]
            if view.is_dense and view.offset == 0 and source.shape == view.shape:
                return source
            memory, base = source.reshape(-1).view(np.uint8), 0
        else:
            memory, base = self.bytes, view.buffer.offset
        size = dtype.itemsize
        array = np.ndarray(shape, dtype, memory, base + view.offset * size, [s * size for s in strides])
        return array

    def read(self, view: TensorView, external: Sequence[np.ndarray]) -> np.ndarray:
        """A copy of the tensor in its logical shape, whatever its layout."""
        array = self.array(view, external)
        if not view.layout.block:
            return array.copy()
        count, channels, *spatial = view.shape
        joined = np.moveaxis(array, -1, 2).reshape(count, array.shape[1] * view.layout.block, *spatial)
        return np.array(joined[:, :channels], order="C")  # of one pixel, all of it would still be a view


class Arenas:
    """The arenas of one graph: one, sized for its largest plan, and more only where runs of several threads overlap.

    A plan stays with its arena, whose addresses its kernels have. Arenas are made larger than asked for, by powers of
    two, so that plans of growing sizes need few; memory that no plan touches is not taken from the machine.
    """

    def __init__(self) -> None:
        self._arenas: list[Arena] = []

    def take(self, nbytes: int) -> Arena:
        """An arena of at least ``nbytes`` that nobody is using now. Only called by one thread at a time."""
        for arena in self._arenas:
            if arena.capacity >= nbytes and not arena.lock.locked():
                break
        else:
            arena = _roomy(nbytes)
            self._arenas = [arena, *(other for other in self._arenas if other.capacity >= arena.capacity)]
        arena.wanted = max(arena.wanted, nbytes)
        return arena


def _roomy(nbytes: int) -> Arena:
    try:
        return Arena(1 << max(nbytes - 1, 0).bit_length())
    except KernelError:  # so much address space may not be allowed
        return Arena(nbytes)
