"""The reference kernel pack: an offer for every node whose operator it knows, plain tensors in and out, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from autofusion.ir.graph import FUSED, Graph, Node
from autofusion.ir.operators import work
from autofusion.ir.types import TensorType
from autofusion.kernels import (
    ANY_KIND,
    PLAIN,
    BindContext,
    BoundStep,
    FusedKind,
    Memory,
    Numerics,
    Offer,
    Operand,
    PythonKernel,
    Refusal,
    Segment,
    Target,
    TensorView,
)
from autofusion_kernels_reference.control import OPS as CONTROL
from autofusion_kernels_reference.evaluate import function_of, is_known

_FLOPS = 1e9
_BYTES = 0.5e9
_LAUNCH = 20e-6


class ReferencePack:
    """Runs every operator of the default domain, and any fused node by its body."""

    name = "reference"
    version = version("autofusion-kernels-reference")
    kinds: Sequence[FusedKind] = (ANY_KIND,)
    is_reference = True
    blocks: Sequence[int] = ()
    launch_seconds = _LAUNCH

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """One offer, or Refusal for an operator outside the default domain or one that runs graphs of its own."""
        refusal = _refusal(node)
        if refusal is not None:
            return refusal

        def bind(
            context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]
        ) -> PythonKernel:
            return function_of(node)

        return [
            Offer(
                kernel=f"reference.{node.op}",
                inputs=tuple(None if v is None else Operand() for v in node.inputs),
                outputs=tuple(Operand() for _ in node.outputs),
                bind=bind,
                # A node of constants is only run to be folded: nobody compares what that costs.
                seconds=_seconds(node) if any(v is not None and v.const is None for v in node.inputs) else 0.0,
                numerics=Numerics.EXACT,
            )
        ]

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """Copy between plain and channel-blocked storage, in either direction or from one block to another."""
        channels = type_.static_shape[1] if type_.rank is not None and type_.rank > 1 else 0
        if not channels and (source.layout != PLAIN or result.layout != PLAIN):
            return None

        def kernel(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [to_blocked(to_plain(inputs[0], source.layout.block, channels), result.layout.block)]

        return Offer(
            kernel=f"reference.reorder.{source.layout}.{result.layout}",
            inputs=(Operand(source.layout, source.border, strided=True),),
            outputs=(Operand(result.layout, result.border, bordered=True, strided=True),),
            bind=lambda context, inputs, outputs: kernel,
            seconds=2 * type_.nbytes / _BYTES,
            numerics=Numerics.EXACT,
        )

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment | None:
        """None: the kernels are Python callables, one for each step."""
        return None


def to_plain(x: np.ndarray, block: int, channels: int) -> np.ndarray:
    """[N, ceil(C / block), *spatial, block] as a plain [N, C, *spatial]; a copy. ``block == 0`` is plain already."""
    if block == 0:
        return np.array(x, order="C")
    y = np.moveaxis(x, -1, 2)
    return np.ascontiguousarray(y.reshape(x.shape[0], x.shape[1] * block, *x.shape[2:-1])[:, :channels])


def to_blocked(x: np.ndarray, block: int) -> np.ndarray:
    """Plain [N, C, *spatial] as [N, ceil(C / block), *spatial, block], zero in the lanes past C."""
    if block == 0:
        return x
    n, c, *spatial = x.shape
    blocks = -(-c // block)
    y = np.zeros((n, blocks * block, *spatial), x.dtype)
    y[:, :c] = x
    return np.ascontiguousarray(np.moveaxis(y.reshape(n, blocks, block, *spatial), 2, -1))


def _refusal(node: Node) -> Refusal | None:
    """Why the pack cannot run ``node``, if it cannot."""
    if node.op in CONTROL and any(isinstance(a, Graph) for a in node.attrs.values()) and node.op != "SequenceMap":
        return Refusal(f"'{node.op}' is control flow, which the session runs itself", node)
    if not is_known(node.op):
        return Refusal(f"the reference kernels have no operator '{node.op}'", node)
    if node.op == FUSED:
        for inner in node.body.nodes:
            refusal = _refusal(inner)
            if refusal is not None:
                return refusal.at(f"its body has {inner.label}")
    return None


def _seconds(node: Node) -> float:
    """A deliberately slow estimate, so that any other pack that runs the node is chosen; without the step's launch."""
    launches = len(node.body) - 1 if node.op == FUSED else 0
    if any(v is not None and (v.type is None or not v.type.is_static) for v in (*node.inputs, *node.outputs)):
        return _LAUNCH * launches
    cost = work(node)
    inner = sum(work(n).bytes_read + work(n).bytes_written for n in node.body.nodes) if node.op == FUSED else 0.0
    moved = max(cost.bytes_read + cost.bytes_written, inner)
    return _LAUNCH * launches + cost.flops / _FLOPS + cost.transcendentals / 1e8 + moved / _BYTES
