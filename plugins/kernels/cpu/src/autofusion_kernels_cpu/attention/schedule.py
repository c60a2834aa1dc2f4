"""How attention is cut into tasks, and what it costs."""

from __future__ import annotations

import math

from autofusion.ir.graph import Node
from autofusion.ir.operators import work
from autofusion.kernels import Target
from autofusion_kernels_cpu.attention.problem import Attention
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.estimate import Estimate, roofline
from autofusion_kernels_cpu.matmul.tile import choose_rows, panel_width


def estimate(node: Node, problem: Attention, isa: Isa, target: Target) -> Estimate:
    """Two products at the tile's rate, packing K, one exponential a score, and the traffic of the operands."""
    heads, width = math.prod(problem.batch), panel_width(isa)
    rows = choose_rows(isa, max(1, problem.queries), single=True)
    panels = -(-problem.keys // width) * problem.depth + -(-problem.width // width) * problem.keys
    cycles = heads * panels * rows.cycles
    cycles += heads * problem.keys * problem.depth * 4 / isa.lanes
    scores = heads * problem.queries * problem.keys
    amount = work(node)
    compute = cycles * 4 * isa.lanes / target.peak_flops + scores / target.transcendentals
    return roofline(target, compute * target.peak_flops, amount.bytes_read + amount.bytes_written)


def tile_groups(batches: int, tiles: int, workers: int) -> tuple[int, int]:
    """(blocks of tiles of a head, tiles in each): heads are only cut where threads would wait for each other."""
    best, choice = math.inf, (1, tiles)
    for wanted in range(1, min(tiles, 2 * workers) + 1):
        height = -(-tiles // wanted)
        groups = -(-tiles // height)
        # A thread that comes to another part of a head packs K once more.
        cost = -(-batches * groups // workers) * height + 0.5 * (groups > 1)
        if cost < best:
            best, choice = cost, (groups, height)
    return choice
