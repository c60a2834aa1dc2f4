"""How rows are cut into pieces, so that threads have enough of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion_kernels_cpu.codegen.nest import Axis

# Pieces of a long row start on whole cache lines.
PIECE = 64
# Rows for each thread below which rows are cut, so that threads finish together.
ROWS_PER_THREAD = 4


def cut_rows(axes: Sequence[Axis], along: Sequence[int], workers: int) -> tuple[dict[str, int], list[Axis]]:
    """Length, limit and step of a row, and the axes around, with long rows cut into pieces if there are few of them."""
    length, outer = axes[-1].size, list(axes[:-1])
    count = int(np.prod([a.size for a in outer], dtype=np.int64))
    if workers == 1 or count >= ROWS_PER_THREAD * workers:
        return {"inner": length, "limit": length, "step": 0}, outer
    wanted = -(-ROWS_PER_THREAD * workers // count)
    piece = -(-length // (wanted * PIECE)) * PIECE
    outer.append(Axis(-(-length // piece), tuple(piece * a for a in along)))
    return {"inner": piece, "limit": length, "step": piece}, outer
