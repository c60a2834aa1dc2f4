"""The pointwise kernel: a region evaluated along rows of a loop nest.

In the code are the region, the element types, and how each operand moves along a row:

- ``vector``: contiguous. ``scalar``: one element for the row. ``lanes``: one vector for the row (a channel block's
  parameters, in blocked layouts). ``spread``: one element a vector (a per-position operand of a blocked tensor).
- ``table``: all of it, at computed places.

Whatever only depends on operands that stay the same along a row is computed once a row. Sizes, strides and the number
of axes are parameters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from autofusion.ir.graph import Value as GraphValue
from autofusion_kernels_cpu.codegen import elements, nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.pointwise_ops import evaluate
from autofusion_kernels_cpu.codegen.region import Leaf, Region
from autofusion_kernels_cpu.codegen.values import Operandish, Value
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


PARAMETERS = ("inner", "limit", "step")
"""Length, limit and step of rows; those of ``nest.rows`` follow."""


def build(region: Region, structure: Structure, isa: Isa) -> Kernel:
    """Buffers: leaves, results."""
    return Kernel(
        "pointwise",
        isa,
        structure_text(region.signature(), [v.tensor.dtype for v in region.results], structure),
        tuple(operand_names(region)),
        PARAMETERS,
        partial(_emit, region=region, structure=structure),
    )


def operand_names(region: Region) -> list[str]:
    """Buffers of the leaves, then the results."""
    return [f"x{i}" for i in range(len(region.leaves))] + [f"y{i}" for i in range(len(region.results))]


def _emit(f: Function, region: Region, structure: Structure) -> None:
    dtypes = [leaf.dtype for leaf in region.leaves] + [value.tensor.dtype for value in region.results]
    pointers = [f.buffer[n] for n in operand_names(region)]
    with nest.rows(f, pointers, [elements.memory_type(d) for d in dtypes]) as row:
        # The last piece of a row that was cut into pieces is shorter.
        length = f.min(f.param["inner"], f.param["limit"] - row.index * f.param["step"])
        _row(f, region, structure, row.pointers, length)


def _row(f: Function, region: Region, structure: Structure, pointers: tuple[Value, ...], length: Value) -> None:
    leaves = list(zip(region.leaves, structure.kinds, pointers, strict=False))
    fixed: dict[GraphValue, Value] = {}
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
