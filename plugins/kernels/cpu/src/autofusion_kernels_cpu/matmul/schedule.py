"""How a product is cut into tasks, and what it costs."""

from __future__ import annotations

import math

from autofusion.ir.graph import Node
from autofusion.ir.operators import work
from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.estimate import Estimate, roofline
from autofusion_kernels_cpu.matmul.kernel import PACKED
from autofusion_kernels_cpu.matmul.problem import Product
from autofusion_kernels_cpu.matmul.tile import Rows, choose_rows, panel_width


def estimate(node: Node, product: Product, isa: Isa, target: Target) -> Estimate:
    """Time and threads: register tiles at two multiply-adds a cycle, against the traffic, plus the epilogue."""
    batches = math.prod(product.batch)
    shared = math.prod(product.b_shape[:-2]) == 1
    rows = choose_rows(isa, max(1, product.rows * batches if shared else product.rows))
    panels = -(-product.columns // panel_width(isa))
    cycles = (1 if shared else batches) * panels * max(product.k, 1) * rows.cycles
    inner = cycles * 4 * isa.lanes / target.peak_flops
    amount = work(node)
    elements = product.anchor.output.tensor.numel
    rest = max(0.0, amount.flops - 2.0 * elements * product.k) / (target.peak_flops / 2)
    rest += amount.transcendentals / target.transcendentals
    return roofline(target, (inner + rest) * target.peak_flops, amount.bytes_read + amount.bytes_written)


def row_groups(
    steps: int, rows: Rows, batches: int, panels: int, workers: int, source: str, target: Target
) -> tuple[int, int]:
    """(blocks of rows, tiles in each), so that A's block stays in the second-level cache and threads end together.

    A row of A has ``steps`` steps of 4 bytes.
    """
    tiles = rows.tall + rows.short
    block_bytes = steps * tiles * rows.tile.rows * 4
    least = max(1, min(tiles, -(-block_bytes * 4 // (3 * target.l2_bytes))))
    spans = -(-panels // rows.tile.panels)
    # What a task costs besides its tiles, in tiles: fetching its panels again, or packing them again.
    overhead = 0.5 if source == PACKED else 1.0
    best, choice = math.inf, (least, -(-tiles // least))
    for wanted in range(least, min(tiles, 8 * workers + least) + 1):
        height = -(-tiles // wanted)
        groups = -(-tiles // height)
        cost = -(-batches * groups * spans // workers) * (tiles / groups + overhead)
        if cost < best * 0.99:
            best, choice = cost, (groups, height)
    return choice
