"""What a contraction does with its result before it is stored: a pointwise region whose operands are known by kind.

The kernel that owns the accumulators decides where they live; the epilogue only says what each operand is and emits
the code for one vector of channels or columns::

    epilogue = epilogue_of(node, nodes, operands, anchor.output, result)     # or a reason (str)
    ...
    f.store(epilogue.emit(f, accumulator, lambda i: f.load(pointer[i], offset[i])), output)

Vectors hold consecutive channels of one pixel, as in blocked layouts, or consecutive columns of one row of a product.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import Node
from autofusion.ir.graph import Value as GraphValue
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.pointwise_nodes import evaluate, literal
from autofusion_kernels_cpu.codegen.region import Leaf, Region, make_region
from autofusion_kernels_cpu.codegen.values import Value

# Operators that fit beside a full register tile: a few instructions, few temporaries.
_LIGHT = frozenset(
    "Abs Add Clip Div HardSigmoid HardSwish Identity LeakyRelu Max Mean Min Mul Neg PRelu Relu Sub Sum".split()
)
_LIGHT_NODES = 6


NO_REGION = Region((), (), ())


class OperandKind(enum.Enum):
    """How an epilogue's operand varies over the result [N, C, ...], or [..., rows, columns] of a product."""

    TENSOR = "tensor"
    """Element by element: the result's shape. Of a product: along its columns."""
    CHANNEL = "channel"
    """One vector of channels for each image: [N or 1, C, 1, ...]. Not of a product."""
    SCALAR = "scalar"
    """One number. Of a product: one for each row, or one."""


@dataclass(frozen=True, eq=False)
class Epilogue:
    """Pointwise work between an accumulator and the stored results; ``kinds`` has one entry for each leaf.

    The region reads ``alpha * accumulator + beta * c`` under the name of ``accumulator``. ``c`` is a leaf, a literal
    or None.
    """

    region: Region = NO_REGION
    kinds: tuple[OperandKind, ...] = ()
    accumulator: GraphValue | None = None
    alpha: float = 1.0
    beta: float = 1.0
    c: GraphValue | None = None
    kernels: dict[Any, Any] = field(default_factory=dict)
    """Kernels with this epilogue by their structure: the code does not depend on sizes."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The pointwise nodes, in order."""
        return self.region.nodes

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """What is read besides the accumulator."""
        return self.region.leaves

    @cached_property
    def key(self) -> str:
        """Text that is equal for epilogues that make the same code, different for others."""
        if self.accumulator is None:
            return ""
        added: object = None
        if self.c is not None:
            leaves = [leaf.value for leaf in self.leaves]
            added = leaves.index(self.c) if self.c in leaves else constant_text(self.c)
        kinds = ",".join(kind.value for kind in self.kinds)
        region = self.region.signature({self.accumulator: "acc"})
        return f"{region}|{kinds}|{self.alpha!r},{self.beta!r},{added!r}"

    @property
    def is_light(self) -> bool:
        """True if it may act on a full register tile; otherwise the tile should be written to memory first."""
        return len(self.nodes) <= _LIGHT_NODES and all(node.op in _LIGHT for node in self.nodes)

    def emit(self, f: Function, accumulator: Value, load: Callable[[int], Value]) -> Value:
        """The only result for one accumulator vector; `load(i)` gives the vector of leaf i, where it is used."""
        if self.accumulator is None:
            return accumulator
        leaves = {leaf.value: load(i) for i, leaf in enumerate(self.leaves)}
        return self.values(f, accumulator, leaves)[self.region.results[0]]

    def values(self, f: Function, accumulator: Value, leaves: Mapping[GraphValue, Value]) -> dict[GraphValue, Value]:
        """All values of the region for one accumulator vector and those of the leaves."""
        assert self.accumulator is not None
        lanes = accumulator.type.lanes
        if self.alpha != 1.0:
            accumulator = accumulator * self.alpha
        if self.c is not None:
            added = leaves[self.c] if self.c in leaves else literal(f, self.c, lanes)
            accumulator = accumulator + (added if self.beta == 1.0 else added * self.beta)
        env = {**leaves, self.accumulator: accumulator}
        evaluate(f, self.nodes, env, lanes)
        return env


NO_EPILOGUE = Epilogue()


def constant_text(value: GraphValue) -> str:
    """The number of a scalar constant, exact, with its type."""
    assert value.const is not None
    return f"{value.const.reshape(()).item()!r}:{dtype_name(value.const.dtype)}"


def epilogue_of(
    node: Node,
    nodes: Sequence[Node],
    operands: dict[GraphValue, int],
    accumulator: GraphValue,
    result: GraphValue,
) -> Epilogue | Refusal:
    """The epilogue made of `nodes` of the bound node's body, or why there is none.

    `accumulator` is the anchor's result [N, C, ...] and `result` what is stored. `operands` numbers the bound node's
    operands.
    """
    if not nodes:
        return NO_EPILOGUE
    region = make_region(node, nodes, operands, [result], given=[accumulator])
    if isinstance(region, Refusal):
        return region
    shape = accumulator.tensor.static_shape
    if result.tensor.static_shape != shape:
        return Refusal(f"its result is {list(result.tensor.static_shape)}, not {list(shape)} as its anchor's")
    kinds = []
    for leaf in region.leaves:
        if leaf.dtype != np.float32:
            return Refusal(f"operand '{leaf.value.name}' of its epilogue is {leaf.dtype}, only float32 is supported")
        kind = kind_of(leaf.shape, shape)
        if kind is None:
            return Refusal(
                f"operand '{leaf.value.name}' of its epilogue is neither one for each channel nor for each element"
            )
        kinds.append(kind)
    return Epilogue(region, tuple(kinds), accumulator)


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
