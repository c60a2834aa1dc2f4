"""The pointwise kernel: a region evaluated along rows of a loop nest.

In the code are the region, the element types, and how each operand moves along a row:

- ``vector``: contiguous. ``scalar``: one element for the row. ``lanes``: one vector for the row (a channel block's
  parameters, in blocked layouts). ``spread``: one element a vector (a per-position operand of a blocked tensor).
- ``table``: all of it, at computed places.

Whatever only depends on operands that stay the same along a row is computed once a row. Sizes, strides and the number
of axes are parameters, and so are numbers in the region that only take part in arithmetic: one kernel for all of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.graph import Value as GraphValue
from autofusion_kernels_cpu.codegen import elements, nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.pointwise_nodes import evaluate, scalar_constant
from autofusion_kernels_cpu.codegen.region import Leaf, Region
from autofusion_kernels_cpu.codegen.values import F32, Operandish, Value
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text

VECTOR, SCALAR, LANES, SPREAD, TABLE = "vector", "scalar", "lanes", "spread", "table"
FIXED = (SCALAR, LANES, TABLE)
"""Kinds that do not move along a row."""


@dataclass(frozen=True, slots=True)
class Structure:
    """What the code of a pointwise kernel depends on besides its region: kind of each leaf, and how rows end.

    ``whole`` rows count vectors (blocked layouts: no rest, and a vector is a channel block); other rows count elements.
    """

    kinds: tuple[str, ...]
    whole: bool = False
    streaming: bool = False


_ARITHMETIC = frozenset("Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Sub Sum Where".split())
"""Operators whose code is the same whatever number they have as an operand."""


def numbers_of(region: Region) -> list[GraphValue]:
    """The float32 numbers that are read from memory; any other constant of one element is in the code."""
    readers: dict[GraphValue, list[Node]] = {}
    leaves = {leaf.value for leaf in region.leaves}
    for node in region.nodes:
        for value in node.inputs:
            if value is not None and value not in leaves and scalar_constant(value) and value.dtype == np.float32:
                readers.setdefault(value, []).append(node)
    return [v for v, nodes in readers.items() if all(_is_any_number(n, v) for n in nodes)]


def _is_any_number(node: Node, value: GraphValue) -> bool:
    if node.op == "Div" and value is node.inputs[1]:
        assert value.const is not None
        return abs(math.frexp(value.const.item())[0]) != 0.5  # a division by a power of two is a multiplication
    return node.op in _ARITHMETIC


PARAMETERS = ("inner", "limit", "step")
"""Length, limit and step of rows; those of ``nest.rows`` follow."""


def build(region: Region, structure: Structure, isa: Isa) -> Kernel:
    """Buffers: leaves, results, and ``numbers`` where the region has some."""
    numbers = numbers_of(region)
    signature = region.signature({value: f"c{i}" for i, value in enumerate(numbers)})
    return Kernel(
        "pointwise",
        isa,
        structure_text(signature, [v.tensor.dtype for v in region.results], structure),
        (*operand_names(region), *(["numbers"] if numbers else [])),
        PARAMETERS,
        partial(_emit, region=region, structure=structure),
    )


def operand_names(region: Region) -> list[str]:
    """Buffers of the leaves, then the results."""
    return [f"x{i}" for i in range(len(region.leaves))] + [f"y{i}" for i in range(len(region.results))]


def _emit(f: Function, region: Region, structure: Structure) -> None:
    dtypes = [leaf.dtype for leaf in region.leaves] + [value.tensor.dtype for value in region.results]
    pointers = [f.buffer[n] for n in operand_names(region)]
    numbers = {v: f.broadcast(f.buffer["numbers"], i, F32, f.lanes) for i, v in enumerate(numbers_of(region))}
    with nest.rows(f, pointers, [elements.memory_type(d) for d in dtypes]) as row:
        # The last piece of a row that was cut into pieces is shorter.
        length = f.min(f.param["inner"], f.param["limit"] - row.index * f.param["step"])
        _row(f, region, structure, row.pointers, length, numbers)


def _row(
    f: Function,
    region: Region,
    structure: Structure,
    pointers: tuple[Value, ...],
    length: Value,
    numbers: dict[GraphValue, Value],
) -> None:
    leaves = list(zip(region.leaves, structure.kinds, pointers, strict=False))
    fixed = dict(numbers)
    for leaf, kind, pointer in leaves:
        if kind in FIXED:
            fixed[leaf.value] = _load(f, leaf, kind, pointer, 0, None)
    early = _invariant(region, set(fixed))
    evaluate(f, early, fixed, f.lanes)
    late = [node for node in region.nodes if node not in early]
    outputs = list(zip(region.results, pointers[len(region.leaves) :], strict=True))

    def body(index: Value, mask: Value | None) -> None:
        env = dict(fixed)
        for leaf, kind, pointer in leaves:
            if kind not in FIXED:
                env[leaf.value] = _load(f, leaf, kind, pointer, index, mask)
        evaluate(f, late, env, f.lanes)
        for value, pointer in outputs:
            elements.store(
                f, value.tensor.dtype, env[value], pointer, index, mask, structure.streaming and mask is None
            )

    if structure.whole:
        with f.loop(0, length * f.lanes, step=f.lanes) as loop:
            body(loop.index, None)
        return
    with vectors(f, length) as main:
        body(main.index, None)
    with rest(f, length) as (index, mask):
        body(index, mask)


def _load(f: Function, leaf: Leaf, kind: str, pointer: Value, index: Operandish, mask: Value | None) -> Value:
    if kind == TABLE:
        return pointer
    if kind == SCALAR:
        return elements.broadcast(f, leaf.dtype, pointer, 0, f.lanes)
    if kind == SPREAD:
        assert isinstance(index, Value)
        return elements.broadcast(f, leaf.dtype, pointer, f.udiv(index, f.lanes), f.lanes)
    return elements.load(f, leaf.dtype, pointer, index, f.lanes, mask)


def _invariant(region: Region, fixed: set[GraphValue]) -> list:
    """Nodes that depend on nothing that moves along a row."""
    known, early = set(fixed), []
    moving = {leaf.value for leaf in region.leaves} - fixed
    for node in region.nodes:
        operands = [v for v in node.inputs if v is not None]
        if all(v in known or (v.const is not None and v not in moving) for v in operands):
            known.add(node.output)
            early.append(node)
    return early


@contextlib.contextmanager
def vectors(f: Function, length: Value) -> Iterator:
    """A loop over the whole vectors of ``length`` elements."""
    with f.loop(0, whole(f, length), step=f.lanes) as loop:
        yield loop


def whole(f: Function, length: Value) -> Value:
    """The elements of ``length`` that fill vectors."""
    return length & -f.lanes


@contextlib.contextmanager
def rest(f: Function, length: Value) -> Iterator[tuple[Value, Value]]:
    """What whole vectors leave over: runs if there is any, with its first index and its mask."""
    start = whole(f, length)
    with f.when(start < length):
        yield start, f.tail_mask(length - start)
