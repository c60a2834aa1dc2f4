"""What a recurrent layer costs, and how its projection is cut."""

from __future__ import annotations

from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.recurrent import kernel
from autofusion_kernels_cpu.recurrent.problem import Layer

_STEP_SECONDS = 1e-7
"""Of a native step with its barrier: a layer has several for each time, and the cost model adds one launch."""


def seconds(layer: Layer, target: Target) -> float:
    """Time of all steps of all directions."""
    rows, directions = layer.time * layer.batch, len(layer.reverse)
    flops = 2.0 * rows * directions * layer.gates * layer.width * (layer.inputs + layer.hidden)
    weights = 4.0 * directions * layer.gates * layer.width * layer.hidden
    # A step with few rows reads all of the recurrent weights for little arithmetic.
    streamed = layer.time * roofline(target, 0, weights).seconds
    steps = _STEP_SECONDS * layer.time * directions * len(layer.parts)
    return max(flops / target.peak_flops / target.threads, streamed) + steps


def projection_parts(layer: Layer, isa: Isa, threads: int) -> tuple[int, int]:
    """(parts, rows of each) into which the rows of the projection are cut, so that every thread has some."""
    rows, tile = layer.time * layer.batch, kernel.tiles(isa, layer.gates)[0]
    parts = max(1, min(-(-2 * threads // layer.blocks), -(-rows // tile)))
    chunk = -(-rows // parts)
    return parts, -(-chunk // tile) * tile if parts > 1 else chunk
