"""What a kernel pack and the lowering say to each other: layouts, offers, tensor views, bound kernels.

A pack *offers* to run a node, stating the operand layouts it wants and what it will cost. Lowering picks one offer per
node so that the whole is cheapest, lays the buffers out, and *binds* each chosen offer to views of them. A pack whose
kernels are native may then *assemble* neighbouring bound kernels into one call; all others run as Python callables.

Layout facts that kernels may rely on, and must keep:

- A plain tensor has row-major strides; unless the operand says ``strided``, they are dense.
- A blocked tensor ``[N, C, *spatial]`` is stored as ``[N, ceil(C / block), *spatial, block]``. The lanes past C in the
  last block are *unspecified*: a reader must not use them (not even times zero: they may be NaN), a writer may write
  anything there.
- A view may have a zero border around its spatial axes. The border is zero when a kernel reads it, and nobody but the
  memory planner ever writes it. A reader states how much border it wants; a writer just writes the inside.
- The lanes of a block are aligned to their own size (64 bytes at most). A plain view is only aligned to its element:
  it may be a part of a larger tensor.
- A blocked view has whatever row, channel-block and batch strides it says; its pixels are adjacent (the last spatial
  stride is the block).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from autofusion.errors import KernelError
from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType, Type
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind
from autofusion.numerics import Numerics
from autofusion.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Layout:
    """Storage order: ``block == 0`` is plain row-major, otherwise channels (axis 1) in blocks of that many."""

    block: int = 0

    def __str__(self) -> str:
        return f"nc{self.block}" if self.block else "plain"


PLAIN = Layout()


@dataclass(frozen=True, slots=True)
class Operand:
    """What an offer wants of one operand or result.

    ``border`` is the zero border that a reader needs: ``(low_1, ..., low_k, high_1, ..., high_k)`` over the k
    spatial axes (the order of ONNX pads). ``bordered`` says that a writer can write inside a border. ``strided``
    says of a plain operand that the kernel takes any strides (a blocked operand always has to).
    """

    layout: Layout = PLAIN
    border: tuple[int, ...] = ()
    bordered: bool = False
    strided: bool = False


class BufferKind(enum.Enum):
    """Who owns the memory behind a view."""

    ARENA = "arena"
    CONSTANT = "constant"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """One piece of memory of a plan.

    ARENA: ``offset`` bytes into the plan's arena. CONSTANT: ``array`` holds the data. EXTERNAL: ``slot`` numbers the
    caller's arrays (graph inputs, then graph outputs), whose addresses are only known at each run; those are dense
    and plain.
    """

    kind: BufferKind
    nbytes: int
    offset: int = -1
    slot: int = -1
    array: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor inside a buffer.

    ``strides`` count elements. Plain: one for each axis. Blocked: ``(n, channel_block, *spatial)``; the lanes of a
    block are contiguous. ``offset`` counts elements from the buffer's start to element (0, ..., 0), inside the
    border. ``border`` is the zero border that is there, in the order of ``Operand.border``.
    """

    type: TensorType
    layout: Layout
    strides: tuple[int, ...]
    buffer: Buffer
    offset: int = 0
    border: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape."""
        return self.type.static_shape

    @property
    def is_dense(self) -> bool:
        """True if a plain view is row-major without gaps."""
        return self.layout == PLAIN and self.strides == dense_strides(self.shape)


def storable(type_: Type | None) -> TypeGuard[TensorType]:
    """True for what a plan's memory can hold: tensors of static shape whose elements are not Python objects."""
    return isinstance(type_, TensorType) and type_.is_static and type_.dtype.kind != "O"


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))


def constant_view(array: np.ndarray) -> TensorView:
    """A plain view of an array."""
    buffer = Buffer(BufferKind.CONSTANT, array.nbytes, array=array)
    return TensorView(TensorType(array.dtype, array.shape), PLAIN, dense_strides(array.shape), buffer)


PythonKernel = Callable[[Sequence[Any]], Sequence[Any]]
"""A bound kernel as a Python callable: operand arrays in (None where absent), freshly made results out.

A plain operand is an array of the logical shape; a blocked one has its stored shape ``[N, ceil(C / block),
*spatial, block]`` without the border, and so must a blocked result. Sequences are lists, an absent optional is
None.
"""


def _no_reference(node: Node, operands: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
    raise KernelError(f"no reference kernels are at hand to evaluate {node.label}")


@dataclass(frozen=True, slots=True)
class BindContext:
    """What a kernel may use while it is bound.

    ``cache`` lives as long as the session and is shared by its plans: packed weights belong there, keyed by
    ``(kernel, id(array), ...)`` with the array itself kept in the entry. ``scratch`` is a byte view (uint8, plain)
    of the size that the offer asked for, private to this step while it runs, or None. ``reference`` runs one ordinary
    node on arrays by the reference kernels (see ``evaluate``).
    """

    target: Target
    cache: dict[Any, Any]
    scratch: TensorView | None = None
    reference: Callable[[Node, Sequence[np.ndarray | None]], Sequence[np.ndarray]] = _no_reference


BindFunction = Callable[[BindContext, Sequence[TensorView | None], Sequence[TensorView]], Any]
ResizeFunction = Callable[[], "Offer | None"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to run a node.

    ``inputs`` has one entry for each operand of the node (None where the operand is absent), ``outputs`` one for each
    result. A constant operand always arrives as a plain CONSTANT view; a kernel that packs weights does so in ``bind``.
    ``seconds`` is the pack's own estimate of the run time, to which core adds the pack's ``launch_seconds`` (None: the
    cost model prices the node's work).
    ``inplace`` lists (result, operand) pairs that may share memory if the operand is not needed afterwards.
    ``bind`` gets the node's views and returns a PythonKernel, or an object of the pack's own that its ``assemble``
    understands. A result whose type is not static can only be made by a PythonKernel (its output views are absent).

    ``resize`` makes new input shapes cheap: core has given other sizes to the types of the very node that was offered
    for (of its body too), and calls it for the same kernel in the same layouts for the node as it is now. Ranks,
    element types, attributes, constants, and dims of 0 or 1 are as they were. The answer must be what the pack would
    offer if it were asked anew, or None if the kernel is not to be had for these sizes. Types change again once the
    answer has been bound, so that nothing that ``bind`` returns may look at the node later. Without ``resize`` (the
    default) the pack is asked anew.
    """

    kernel: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]
    bind: BindFunction
    seconds: float | None = None
    scratch: int = 0
    numerics: Numerics = Numerics.REASSOCIATED
    inplace: tuple[tuple[int, int], ...] = ()
    resize: ResizeFunction | None = None


@dataclass(frozen=True, slots=True)
class BoundStep:
    """A bound kernel with what it reads and writes, as handed to ``assemble``."""

    node: Node
    kernel: Any
    inputs: tuple[TensorView | None, ...]
    outputs: tuple[TensorView, ...]


class Memory(Protocol):
    """Addresses of a plan's memory."""

    def address(self, view: TensorView) -> int:
        """The address of the view's first element. ARENA and CONSTANT only."""
        ...


class Segment(Protocol):
    """Assembled steps, run with the address of every external slot (inputs, then outputs)."""

    def run(self, addresses: Sequence[int], start: int = 0, stop: int | None = None) -> None:
        """Run the steps from number ``start`` up to, not including, ``stop`` (None: to the last)."""
        ...

    def run_timed(self, addresses: Sequence[int]) -> Sequence[float]:
        """Run all steps; return the seconds that each took."""
        ...


@runtime_checkable
class RepeatingSegment(Protocol):
    """A segment that can also run many times in one call: for the bodies of loops."""

    def repeat(self, addresses: np.ndarray) -> None:
        """Run all steps once for each row of ``addresses``, int64 [runs, slots], in order."""
        ...


class KernelPack(Protocol):
    """What a kernel pack provides. ``kinds`` are the fused kinds that it implements."""

    name: str
    version: str
    kinds: Sequence[FusedKind]
    is_reference: bool
    """True if the pack has the reference kernels, one by one, on plain tensors: the reference and the fallback."""
    blocks: Sequence[int]
    """Channel blocks of the layouts that the pack's kernels use; empty if all are plain."""
    launch_seconds: float
    """Cost of starting one step of this pack, paid per node: Python call overhead, or a native dispatch."""

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """Offers for a node with static operand types, best first; ``Refusal`` if the pack cannot run it."""
        ...

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """An offer that copies a tensor from one layout or border to another, or None."""
        ...

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment | None:
        """One call that runs ``steps`` in order, or None if they should run as Python callables.

        Only called with steps whose kernels this pack bound. Everything the segment needs must be owned by it.
        """
        ...
