"""A kernel pack in NumPy: it offers what it can run, refuses the rest with a reason, and says what a run costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version

import numpy as np

from autofusion.ir.graph import FUSED, Node
from autofusion.ir.types import TensorType
from autofusion.kernels import (
    POINTWISE,
    BindContext,
    BoundStep,
    FusedKind,
    Memory,
    Offer,
    Operand,
    PythonKernel,
    Refusal,
    Segment,
    Target,
    TensorView,
)

FUNCTIONS: Mapping[str, Callable[..., np.ndarray]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, np.float32(0)),
}


class AcmePack:
    """See ``autofusion.kernels.KernelPack``."""

    name = "acme"
    version = version("autofusion-kernels-acme")
    kinds: Sequence[FusedKind] = (POINTWISE,)
    is_reference = False
    blocks: Sequence[int] = ()
    launch_seconds = 3e-6

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """One offer for operators that are in ``FUNCTIONS``, and for bodies that are made of them."""
        values = [v for v in (*node.inputs, *node.outputs) if v is not None]
        if not all(isinstance(v.type, TensorType) and v.type.is_static and v.dtype == np.float32 for v in values):
            return Refusal("it runs single precision of static shape only")
        steps = node.body.nodes if node.op == FUSED else [node]
        unknown = sorted({step.op for step in steps} - set(FUNCTIONS))
        if unknown or (node.op == FUSED and not POINTWISE.is_of(node)):
            return Refusal(f"it has no kernel for {', '.join(unknown) or node.attrs['kind']}")
        read = sum(v.tensor.nbytes for step in steps for v in step.inputs if v is not None)
        written = sum(step.output.tensor.nbytes for step in steps)
        return [
            Offer(
                kernel="acme.pointwise",
                inputs=tuple(Operand(strided=True) for _ in node.inputs),
                outputs=tuple(Operand(strided=True) for _ in node.outputs),
                bind=_binder(node),
                # Results are new arrays, which the run time copies to where they belong.
                seconds=1e-6 * len(steps) + (read + 3 * written) / target.bandwidth_l3,
            )
        ]

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """None: everything is plain."""
        return None

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment | None:
        """None: the kernels are Python callables."""
        return None


def _binder(node: Node) -> Callable[[BindContext, Sequence[TensorView | None], Sequence[TensorView]], PythonKernel]:
    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> PythonKernel:
        if node.op == FUSED:
            return lambda arrays: _run_body(node, arrays)
        return lambda arrays: [_run(node, arrays)]

    return bind


def _run(node: Node, operands: Sequence[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[node.op](*operands))


def _run_body(node: Node, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    values = dict(zip(node.body.inputs, arrays, strict=True))
    for step in node.body.nodes:
        operands = [v.const if v.const is not None else values[v] for v in step.inputs if v is not None]
        values[step.output] = _run(step, operands)
    return [values[v] for v in node.body.outputs]
