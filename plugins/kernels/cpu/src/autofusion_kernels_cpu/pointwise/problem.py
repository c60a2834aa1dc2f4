"""A pointwise region as a kernel sees it: what it computes, over which shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.codegen.region import Leaf, Region, region_of

_IN_BLOCKS = tuple(map(np.dtype, (np.float32, np.uint8, np.int8)))
"""Element types of tensors in channel blocks."""


@dataclass(frozen=True, slots=True, eq=False)
class Pointwise:
    """A region whose results all have the shape ``space``."""

    node: Node
    region: Region
    space: tuple[int, ...]

    def in_blocks(self, leaf: Leaf) -> bool:
        """True if the leaf differs from channel to channel, so that a blocked result needs it in blocks."""
        axis = 1 - (len(self.space) - len(leaf.shape))
        channels = leaf.shape[axis] if axis >= 0 else 1
        return (self.space[1] == 1 and len(leaf.shape) == len(self.space)) or channels > 1

    def blocked_operands(self) -> frozenset[int] | None:
        """Operands that a blocked offer wants in blocks; None if there can be no such offer."""
        if len(self.space) < 3 or any(v.tensor.dtype not in _IN_BLOCKS for v in self.region.results):
            return None
        chosen: set[int] = set()
        for leaf in self.region.leaves:
            if leaf.constant is not None or not self.in_blocks(leaf):
                continue
            if leaf.dtype not in _IN_BLOCKS or len(leaf.value.tensor.static_shape) != len(self.space):
                return None
            assert leaf.operand is not None
            chosen.add(leaf.operand)
        return frozenset(chosen)


def pointwise_of(node: Node) -> Pointwise | Refusal:
    """The region in a node, or why these kernels do not run it."""
    region = region_of(node)
    if isinstance(region, Refusal):
        return region
    if not region.results or not region.nodes:
        return Refusal("the region computes nothing")
    shapes = [*(leaf.shape for leaf in region.leaves), *(v.tensor.static_shape for v in region.results)]
    space = np.broadcast_shapes(*shapes)
    for value in region.results:
        if value.tensor.static_shape != space:
            return Refusal(f"result '{value.name}' is {list(value.tensor.static_shape)} in a region over {list(space)}")
    return Pointwise(node, region, space)
