"""Where tensors live: chains of places."""

from __future__ import annotations

import itertools

import numpy as np

from autofusion.ir.types import TensorType
from autofusion.kernels.contract import PLAIN
from autofusion.lowering.storage import fresh

TYPE = TensorType(np.dtype(np.float32), (4,))


def test_the_buffer_of_a_long_chain_is_found_also_after_it_moves() -> None:
    chain = [fresh(str(i), TYPE, PLAIN, bordered=False) for i in range(5000)]
    for lower, upper in itertools.pairwise(chain):
        upper.place(lower, lambda view: view)
        assert upper.root is chain[0].root
    below = fresh("below", TYPE, PLAIN, bordered=False)
    chain[0].place(below, lambda view: view)
    assert chain[-1].root is below.root and chain[2500].root is below.root
