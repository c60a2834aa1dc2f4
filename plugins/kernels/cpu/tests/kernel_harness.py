"""Run every offer that a kernel family makes for a node, on hostile memory, and compare with the reference kernels.

Hostile: views start off alignment where they may, rows have gaps, lanes past the channels hold NaN, borders are
checked to stay zero, and everything around a result is checked to stay as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph, Node
from autofusion.ir.types import TensorType, of_array
from autofusion.kernels import (
    PLAIN,
    BindContext,
    Buffer,
    BufferKind,
    Offer,
    Operand,
    Refusal,
    Target,
    TensorView,
    dense_strides,
)
from autofusion_kernels_cpu.native.pool import pool
from autofusion_kernels_cpu.native.program import Program
from plugins.kernels.cpu.tests.native_support import Arena, aligned, isa_named

Offers = Callable[[Node, Target], Sequence[Offer] | Refusal]
GUARD = 80
"""Elements before and after a tensor that nobody may touch."""


def target_for(isa: str, threads: int = 1) -> Target:
    """A machine description with round numbers."""
    return Target(isa, isa_named(isa).lanes, threads, 1e11, 1 << 15, 1 << 20, 1 << 25, 5e10, 2e10, 2e10, 1e9)


def make_node(
    op: str,
    inputs: Sequence[np.ndarray | None],
    attrs: Mapping[str, Any] | None = None,
    constants: Sequence[int] = (),
    outputs: int = 1,
) -> Node:
    """A graph of one node, all of whose results are graph outputs; operands in `constants` are constants."""
    graph = Graph()
    values = [
        None if x is None else (graph.constant(x, f"c{i}") if i in constants else graph.add_input(f"x{i}", of_array(x)))
        for i, x in enumerate(inputs)
    ]
    node = graph.node(op, values, attrs, outputs=outputs)
    for value in node.outputs:
        graph.add_output(value)
    return node


class Placed:
    """An array laid out in memory of its own as an operand wants it."""

    def __init__(self, type_: TensorType, operand: Operand, *, constant: bool, hostile: bool, writer: bool) -> None:
        shape, dtype = type_.static_shape, type_.dtype
        block = operand.layout.block
        spatial = max(len(shape) - 2, 0)
        border = operand.border or (0,) * (2 * spatial)
        if hostile and block and (operand.bordered or not writer):
            border = tuple(max(b, 1 + i % 2) for i, b in enumerate(border))
        low, high = border[:spatial], border[spatial:]
        if block:
            full = [shape[0], -(-shape[1] // block)]
            full += [s + a + b for s, a, b in zip(shape[2:], low, high, strict=True)] + [block]
        else:
            full = list(shape[:2]) + [s + a + b for s, a, b in zip(shape[2:], low, high, strict=True)]
        # Storage with a gap after each row but the innermost two (pixels of a row are adjacent).
        padded = list(full)
        if hostile and (block or operand.strided):
            for axis in range(len(padded) - (2 if block else 0)):
                padded[axis] += 1
            if not block and padded:
                padded[-1] += 1
        strides = dense_strides(padded)
        guard = GUARD if block else (GUARD + 1 if hostile and not constant else GUARD)
        count = int(np.prod(padded)) + 2 * guard
        self.memory = aligned(count, dtype, 0)
        self.memory[:] = _garbage(count, dtype) if not constant else 0
        self.before = self.memory.copy()
        body = self.memory[guard : count - guard]
        self.storage = np.lib.stride_tricks.as_strided(
            body, full, [s * dtype.itemsize for s in strides], writeable=True
        )
        inside = (slice(None), slice(None), *(slice(a, a + s) for a, s in zip(low, shape[2:], strict=False)))
        self.inner = self.storage[inside] if any(border) else self.storage
        if any(border):
            self.storage[...] = 0
        view_strides = strides[:-1] if block else strides
        offset = guard + sum(a * s for a, s in zip(low, strides[2:], strict=False))
        self.view = TensorView(
            type_,
            operand.layout,
            view_strides,
            Buffer(BufferKind.CONSTANT, self.memory.nbytes, array=self.memory),
            offset,
            border if any(border) else (),
        )
        self.block, self.shape = block, shape

    def fill(self, array: np.ndarray) -> None:
        """Store the array; lanes past the channels become NaN."""
        if not self.block:
            self.inner[...] = array
            return
        for channel in range(self.inner.shape[1] * self.block):
            lane = self.inner[:, channel // self.block, ..., channel % self.block]
            lane[...] = array[:, channel] if channel < self.shape[1] else _nan(array.dtype)

    def read(self) -> np.ndarray:
        """The logical array."""
        if not self.block:
            return self.inner.copy()
        lanes = [self.inner[:, c // self.block, ..., c % self.block] for c in range(self.shape[1])]
        return np.stack(lanes, axis=1) if lanes else np.zeros(self.shape, self.memory.dtype)

    def check_surroundings(self, label: str) -> None:
        """Nothing but the inside (and unspecified lanes) may have changed; a border must still be zero."""
        after = self.memory.copy()
        now, old = _bits(after), _bits(self.before)
        mask = np.zeros(len(now), bool)
        if self.inner.size:
            index = np.arange(len(now)).reshape(-1)
            itemsize = self.memory.dtype.itemsize
            start = (self.inner.ctypes.data - self.memory.ctypes.data) // itemsize
            positions = np.lib.stride_tricks.as_strided(
                index[start:], self.inner.shape, [s // itemsize * 8 for s in self.inner.strides]
            )
            mask[positions.ravel()] = True
        wrong = np.flatnonzero((now != old) & ~mask)
        if self.view.border:
            outer_start = (self.storage.ctypes.data - self.memory.ctypes.data) // self.memory.dtype.itemsize
            positions = np.lib.stride_tricks.as_strided(
                np.arange(len(now))[outer_start:],
                self.storage.shape,
                [s // self.memory.dtype.itemsize * 8 for s in self.storage.strides],
            )
            border = np.zeros(len(now), bool)
            border[positions.ravel()] = True
            assert not now[border & ~mask].any(), f"{label}: the border of a result is no longer zero"
            wrong = np.flatnonzero((now != old) & ~mask & ~border)
        assert len(wrong) == 0, f"{label}: wrote outside its result at elements {wrong[:8]} of {len(now)}"


def _bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def _nan(dtype: np.dtype) -> Any:
    return np.nan if dtype.kind in "fV" else np.iinfo(dtype).max if dtype.kind in "iu" else True


def _garbage(count: int, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.arange(count) % 2 == 0
    return (np.arange(count) % 113 + 7).astype(dtype)


def evaluate(node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The reference kernels' results."""
    from autofusion_kernels_reference.evaluate import evaluate as by_the_book

    return [np.asarray(x) for x in by_the_book(node, arrays)]


def run_offer(
    node: Node,
    offer: Offer,
    arrays: Sequence[np.ndarray | None],
    target: Target,
    *,
    hostile: bool = True,
    cache: dict[Any, Any] | None = None,
) -> list[np.ndarray]:
    """Bind one offer to memory (`cache` is the session's), run it, check the surroundings, return the results."""
    sources: list[Placed | None] = []
    for value, operand, array in zip(node.inputs, offer.inputs, arrays, strict=True):
        if value is None or operand is None or array is None:
            sources.append(None)
            continue
        constant = value.const is not None
        placed = Placed(of_array(array), operand, constant=constant, hostile=hostile and not constant, writer=False)
        placed.fill(array)
        sources.append(placed)
    results = [
        Placed(v.tensor, operand, constant=False, hostile=hostile, writer=True)
        for v, operand in zip(node.outputs, offer.outputs, strict=True)
    ]
    scratch = None
    if offer.scratch:
        memory = aligned(offer.scratch, "uint8", 0x5A)
        scratch = TensorView(
            TensorType(np.dtype(np.uint8), (offer.scratch,)),
            PLAIN,
            (1,),
            Buffer(BufferKind.CONSTANT, offer.scratch, array=memory),
        )
    for placed in results:
        placed.before = placed.memory.copy()
    frozen = [None if s is None else s.memory.copy() for s in sources]
    context = BindContext(target, {} if cache is None else cache, scratch)
    kernel = offer.bind(context, [None if s is None else s.view for s in sources], [r.view for r in results])
    program = Program(pool(target.threads), [kernel], Arena(aligned(1)))
    for _ in range(2):  # a second run must not depend on what the first one left
        program.run()
        for source, old in zip(sources, frozen, strict=True):
            if source is not None and old is not None:
                assert (_bits(source.memory) == _bits(old)).all(), f"{offer.kernel}: wrote to an operand"
        for placed in results:
            placed.check_surroundings(offer.kernel)
    return [r.read() for r in results]


def check(
    offers: Offers,
    op: str,
    inputs: Sequence[np.ndarray | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    isa: str,
    threads: int = 1,
    constants: Sequence[int] = (),
    outputs: int = 1,
    expected: Sequence[np.ndarray] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    kernels: Sequence[str] = (),
) -> list[str]:
    """Run all offers for a node on hostile and on friendly memory; return their kernel names.

    The default is bit-for-bit equality with the reference (NaNs equal each other). `kernels` are names that must be
    among the offers.
    """
    node = make_node(op, inputs, attrs, constants, outputs)
    return check_node(
        offers,
        node,
        inputs,
        isa=isa,
        threads=threads,
        expected=expected,
        rtol=rtol,
        atol=atol,
        kernels=kernels,
    )


def check_node(
    offers: Offers,
    node: Node,
    inputs: Sequence[np.ndarray | None],
    *,
    isa: str,
    threads: int = 1,
    expected: Sequence[np.ndarray] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    kernels: Sequence[str] = (),
) -> list[str]:
    """As `check`, for a node that exists already (a fused node, say); `inputs` holds the data of constants too."""
    op = node.op
    wanted = list(expected) if expected is not None else evaluate(node, inputs)
    for value, array in zip(node.outputs, wanted, strict=True):
        value.type = of_array(np.asarray(array))
    target = target_for(isa, threads)
    made = offers(node, target)
    assert not isinstance(made, Refusal), f"{op} was refused: {made.reason}"
    assert made, f"{op}: no offers"
    names = [offer.kernel for offer in made]
    assert not set(kernels) - set(names), f"{op}: expected offers {kernels}, found {names}"
    for offer in made:
        assert offer.seconds is None or offer.seconds >= 0
        for hostile in (True, False):
            found = run_offer(node, offer, inputs, target, hostile=hostile)
            for a, b in zip(found, wanted, strict=True):
                assert a.dtype == np.asarray(b).dtype and a.shape == np.asarray(b).shape
                np.testing.assert_allclose(
                    a,
                    b,
                    rtol=rtol,
                    atol=atol,
                    err_msg=f"{op} by {offer.kernel} {[str(o and o.layout) for o in offer.inputs]}",
                )
    return names


def node_with_type(node, result):
    from autofusion.ir.types import of_array

    node.output.type = of_array(result)
    return node
