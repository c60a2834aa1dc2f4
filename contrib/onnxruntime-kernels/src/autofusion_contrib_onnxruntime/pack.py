"""Offers for what onnxruntime can run, at the price of a call and of the work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import numpy as np

from autofusion.ir.graph import FUSED, Node
from autofusion.ir.operators import OpClass, find, op_class, work
from autofusion.ir.types import TensorType
from autofusion.kernels import (
    STANDARD,
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
from autofusion_contrib_onnxruntime.model import session_of

CALL_SECONDS = 12e-6
"""What a call of a session costs beside its work, measured."""
_DTYPES = frozenset({"float32", "int64", "int32", "bool"})
_CLASSES = frozenset({OpClass.POINTWISE, OpClass.REDUCTION, OpClass.CONTRACTION, OpClass.MOVEMENT})
_OTHERWISE = MappingProxyType(
    {
        # Operators that onnxruntime runs otherwise than the operator set says, found by the conformance tests.
        "ArgMax": "it passes over NaN",
        "ArgMin": "it passes over NaN",
        "GlobalMaxPool": "it passes over NaN",
        "MaxPool": "it passes over NaN",
        "ReduceMax": "it passes over NaN",
        "ReduceMin": "it passes over NaN",
    }
)


class OnnxruntimePack:
    """See ``autofusion.kernels.KernelPack``."""

    name = "onnxruntime"
    version = version("autofusion-contrib-kernels-onnxruntime")
    kinds: Sequence[FusedKind] = STANDARD
    is_reference = False
    blocks: Sequence[int] = ()
    launch_seconds = CALL_SECONDS

    def __init__(self) -> None:
        self._known: dict[Any, str] = {}
        self._lock = threading.Lock()

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """One offer, for an operator or a region of operators that onnxruntime takes with these element types."""
        if node.op == FUSED and not any(kind.is_of(node) for kind in STANDARD):
            return Refusal(f"it does not know kind '{node.attrs['kind']}'")
        values = [v for v in (*node.inputs, *node.outputs) if v is not None]
        if not all(isinstance(v.type, TensorType) and v.type.is_static for v in values):
            return Refusal("an operand or a result has no static shape")
        for step in node.body.nodes if node.op == FUSED else [node]:
            reason = self._reason(step)
            if reason:
                return Refusal(reason)
        what = f"{node.attrs['kind']}" if node.op == FUSED else node.op
        return [
            Offer(
                kernel=f"onnxruntime.{what}",
                inputs=tuple(None if v is None else Operand() for v in node.inputs),
                outputs=tuple(Operand(strided=True) for _ in node.outputs),
                bind=_binder(node, target.threads),
                seconds=_seconds(node, target),
            )
        ]

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """None: everything is plain."""
        return None

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment | None:
        """None: a session is called from Python."""
        return None

    def _reason(self, node: Node) -> str:
        """Why onnxruntime does not run an ordinary node, or an empty string: it is asked once for each operator and
        combination of element types, with a session that is made and thrown away.
        """
        schema = find(node.op)
        if schema is None or schema.subgraphs or not schema.deterministic or op_class(node) not in _CLASSES:
            return f"it does not run '{node.op}' alone"
        if node.op in _OTHERWISE:
            return f"it runs '{node.op}' otherwise: {_OTHERWISE[node.op]}"
        dtypes = tuple(None if v is None else v.tensor.dtype.name for v in (*node.inputs, *node.outputs))
        if not set(dtypes) - {None} <= _DTYPES:
            return f"it is not asked to run {', '.join(sorted({d for d in dtypes if d} - _DTYPES))}"
        key = (node.op, dtypes, tuple(sorted(node.attrs)))
        with self._lock:
            if key not in self._known:
                try:
                    session_of(node, 1)
                    self._known[key] = ""
                except Exception as error:  # onnxruntime and the exporter raise classes of their own
                    said = " ".join(str(error).split())[:160]
                    self._known[key] = f"onnxruntime does not take '{node.op}': {said}"
            return self._known[key]


def _binder(
    node: Node, threads: int
) -> Callable[[BindContext, Sequence[TensorView | None], Sequence[TensorView]], PythonKernel]:
    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> PythonKernel:
        session, names = session_of(node, threads)

        def run(arrays: Sequence[Any]) -> list[np.ndarray]:
            return list(session.run(None, {name: arrays[index] for index, name in names.items()}))

        return run

    return bind


def _seconds(node: Node, target: Target) -> float:
    """Arithmetic at the share of peak that its kernels reach, or traffic (its results are copied once more)."""
    seconds = 0.0
    for step in node.body.nodes if node.op == FUSED else [node]:
        cost = work(step)
        share = 0.7 if op_class(step) is OpClass.CONTRACTION else 0.1
        arithmetic = cost.flops / (share * target.peak_flops) + 2 * cost.transcendentals / target.transcendentals
        traffic = (cost.bytes_read + 2 * cost.bytes_written) / target.bandwidth_l3
        alone = max(arithmetic, traffic)
        seconds += 1e-6 + alone / (1 + (target.threads - 1) * alone / (alone + 40e-6))
    return seconds
