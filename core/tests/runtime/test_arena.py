"""Reading tensors out of a plan's memory."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.errors import KernelError
from autofusion.ir.dtypes import F32
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import Buffer, BufferKind, Layout, TensorView
from autofusion.runtime.arena import Arena


def test_what_was_read_stays_as_it_was() -> None:
    """Of one pixel, a blocked tensor is its channels in order; a view of them would change with the next step."""
    arena = Arena(1024)
    buffer = Buffer(BufferKind.ARENA, 512, 0)
    view = TensorView(TensorType(F32, (1, 30, 1, 1)), Layout(16), (32, 16, 16, 16), buffer)
    arena.array(view, ())[...] = np.arange(32, dtype=np.float32).reshape(1, 2, 1, 1, 16)
    read = arena.read(view, ())
    arena.bytes[...] = 0
    np.testing.assert_array_equal(read.reshape(-1), np.arange(30))


def test_more_memory_than_there_is() -> None:
    with pytest.raises(KernelError, match=f"take {1 << 55} bytes, which this process cannot have"):
        Arena(1 << 55)
