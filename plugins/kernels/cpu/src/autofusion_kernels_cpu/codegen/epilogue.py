"""What a contraction does with its result before it is stored: a pointwise region whose operands are known by kind.

The kernel that owns the accumulators decides where they live; the epilogue only says what each operand is and emits
the code for one vector of channels::

    epilogue = epilogue_of(node, nodes, operands, anchor.output, result)     # or a reason (str)
    ...
    f.store(epilogue.emit(f, accumulator, lambda i: f.load(pointer[i], offset[i])), output)

Vectors hold consecutive channels of one pixel, as in blocked layouts.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.graph import Value as GraphValue
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.pointwise_ops import evaluate
from autofusion_kernels_cpu.codegen.region import Leaf, make_region, signature
from autofusion_kernels_cpu.codegen.values import Value

# Operators that fit beside a full register tile: a few instructions, few temporaries.
_LIGHT = frozenset(
    "Abs Add Clip Div HardSigmoid HardSwish Identity LeakyRelu Max Mean Min Mul Neg PRelu Relu Sub Sum".split()
)
_LIGHT_NODES = 6


class OperandKind(enum.Enum):
    """How an epilogue's operand varies over the result [N, C, ...]."""

    TENSOR = "tensor"
    """Element by element: the result's shape."""
    CHANNEL = "channel"
    """One vector of channels for each image: [N or 1, C, 1, ...]."""
    SCALAR = "scalar"
    """One number."""


@dataclass(frozen=True, slots=True, eq=False)
class Epilogue:
    """Pointwise nodes between an accumulator and the stored result. `kinds` has one entry for each leaf."""

    nodes: tuple[Node, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    kinds: tuple[OperandKind, ...] = ()
    accumulator: GraphValue | None = None
    result: GraphValue | None = None

    @property
    def key(self) -> str:
        """Text that is equal for epilogues that make the same code."""
        if self.accumulator is None or self.result is None:
            return ""
        names = {leaf.value: f"{k.value}{i}" for i, (leaf, k) in enumerate(zip(self.leaves, self.kinds, strict=True))}
        return signature(self.nodes, {**names, self.accumulator: "acc"}, [self.result])

    @property
    def is_light(self) -> bool:
        """True if it may act on a full register tile; otherwise the tile should be written to memory first."""
        return len(self.nodes) <= _LIGHT_NODES and all(node.op in _LIGHT for node in self.nodes)

    def emit(self, f: Function, accumulator: Value, load: Callable[[int], Value]) -> Value:
        """The result for one accumulator vector; `load(i)` gives the vector of leaf i, where it is used."""
        if self.accumulator is None or self.result is None:
            return accumulator
        env = {leaf.value: load(i) for i, leaf in enumerate(self.leaves)}
        env[self.accumulator] = accumulator
        evaluate(f, self.nodes, env, accumulator.type.lanes)
        return env[self.result]


NO_EPILOGUE = Epilogue()


def epilogue_of(
    node: Node,
    nodes: Sequence[Node],
    operands: dict[GraphValue, int],
    accumulator: GraphValue,
    result: GraphValue,
) -> Epilogue | str:
    """The epilogue made of `nodes` of the bound node's body, or why they are none.

    `accumulator` is the anchor's result [N, C, ...] and `result` what is stored. `operands` numbers the bound node's
    operands.
    """
    if not nodes:
        return NO_EPILOGUE
    region = make_region(node, nodes, operands, [result], given=[accumulator])
    if isinstance(region, str):
        return region
    shape = accumulator.tensor.static_shape
    if result.tensor.static_shape != shape:
        return f"its result is {list(result.tensor.static_shape)}, not {list(shape)} as its anchor's"
    kinds = []
    for leaf in region.leaves:
        if leaf.dtype != np.float32:
            return f"operand '{leaf.value.name}' of its epilogue is {leaf.dtype}, only float32 is supported"
        kind = kind_of(leaf.shape, shape)
        if kind is None:
            return f"operand '{leaf.value.name}' of its epilogue is neither one for each channel nor for each element"
        kinds.append(kind)
    return Epilogue(region.nodes, region.leaves, tuple(kinds), accumulator, result)


def kind_of(shape: Sequence[int], result: Sequence[int]) -> OperandKind | None:
    """How a tensor of `shape` varies when it is broadcast to `result`, or None for a way that epilogues do not have."""
    full = (1,) * (len(result) - len(shape)) + tuple(shape)
    if all(d == 1 for d in full):
        return OperandKind.SCALAR
    if full == tuple(result):
        return OperandKind.TENSOR
    if full[1] == result[1] and full[0] in (1, result[0]) and all(d == 1 for d in full[2:]):
        return OperandKind.CHANNEL
    return None
