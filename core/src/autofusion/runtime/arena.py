"""The memory behind one plan: a zeroed, aligned arena, and NumPy arrays over tensor views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.errors import KernelError
from autofusion.kernels.contract import BufferKind, TensorView
from autofusion.lowering.storage import ALIGNMENT


class Arena:
    """Zeroed bytes, aligned to ``ALIGNMENT``. Borders rely on the zeros: whoever holds the arena never clears it."""

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
        self._base = int(self.bytes.ctypes.data)

    def address(self, view: TensorView) -> int:
        """Address of the first element of an ARENA or CONSTANT view."""
        offset = view.offset * view.type.dtype.itemsize
        if view.buffer.kind is BufferKind.CONSTANT:
            assert view.buffer.array is not None
            return int(view.buffer.array.ctypes.data) + offset
        assert view.buffer.kind is BufferKind.ARENA, "the address of an external view is only known at a run"
        return self._base + view.buffer.offset + offset

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
            assert view.buffer.array is not None
            return view.buffer.array
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
