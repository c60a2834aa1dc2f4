"""Register tiles of integer convolutions, how their work is cut, and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autofusion.ir.operators import work
from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.conv.geometry import Geometry
from autofusion_kernels_cpu.estimate import Estimate, roofline
from autofusion_kernels_cpu.integer.form import Form
from autofusion_kernels_cpu.integer_conv.problem import IntegerConv

_LENGTHS = (14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)
_FEW = 2
"""Pixels up to which four vectors of filters share each element of the image."""


@dataclass(frozen=True, slots=True)
class Tile:
    """``pixels`` neighbours of a row for ``vectors`` vectors of filters."""

    pixels: int
    vectors: int

    @property
    def cycles(self) -> float:
        """Of one group of channels: two multiplications or loads a cycle, five cycles from one to the next."""
        return max(self.pixels * self.vectors, self.pixels + self.vectors + 2, 10) / 2


def choose_tile(isa: Isa, form: Form, pixels: int, filters: int, groups: int = 1) -> Tile:
    """The tile for rows of ``pixels``; it is not longer than a row. Filters of small groups read channels of their own:
    more vectors of them would multiply by zeros only.
    """
    blocks = 1 if groups > 1 and filters // groups < 2 * isa.lanes else -(-filters // isa.lanes)
    vectors = 1 if blocks == 1 else 4 if pixels <= _FEW and blocks >= 4 and isa.registers > 16 else 2
    spare = vectors + (2 if form is Form.BYTES else 4)
    most = min((isa.registers - spare) // vectors, pixels)
    lengths = [length for length in _LENGTHS if length <= most]
    return min(
        (Tile(length, vectors) for length in lengths), key=lambda t: (-(-pixels // t.pixels) * t.cycles, t.pixels)
    )


def row_pixels(geometry: Geometry) -> int:
    """Pixels that follow each other: those of a row, or all where rows follow each other without gaps."""
    return math.prod(a.out for a in geometry.axes) if geometry.is_pointwise else geometry.axes[2].out


def estimate(
    problem: IntegerConv, form: Form, isa: Isa, target: Target, prepared: bool, rows: bool = False
) -> Estimate:
    """Time and threads: register tiles against the traffic, plus the epilogue."""
    g = problem.geometry
    pixels = row_pixels(g)
    tile = choose_tile(isa, form, pixels, g.filters, g.groups)
    lines = g.batch * math.prod(a.out for a in g.axes) // pixels
    panels = -(-g.filters // (isa.lanes * tile.vectors))
    channels = g.group_channels * min(g.groups, -(-isa.lanes * tile.vectors // g.group_filters))
    groups = g.taps * -(-channels // form.group)
    cycles = lines * -(-pixels // tile.pixels) * panels * groups * tile.cycles * (1.0 if form is Form.BYTES else 1.5)
    if rows:
        tall, wide = g.axes[0].kernel * g.axes[1].kernel, g.axes[2].kernel
        cycles = lines * -(-g.filters // isa.lanes) * -(-tall // form.group) * (5 * g.axes[2].size + wide * pixels)
    elements = g.batch * g.filters * math.prod(a.out for a in g.axes)
    cycles += elements / isa.lanes * (6 + 1.5 * len(problem.epilogue.nodes))
    amount = work(problem.node)
    read = amount.bytes_read + (2 * problem.node.inputs[problem.operand].tensor.nbytes if prepared else 0)  # type: ignore[union-attr]
    return roofline(target, cycles * 4 * isa.lanes, read + amount.bytes_written, amount.transcendentals)
