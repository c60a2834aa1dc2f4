"""Run functions of 8-bit numbers by table. The table is what the fused node's body makes of all 256 of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.kernels import (
    BindContext,
    BoundStep,
    FusedKind,
    GraphError,
    KernelError,
    Memory,
    Numerics,
    Offer,
    Operand,
    PythonKernel,
    Refusal,
    Segment,
    Target,
    TensorView,
    evaluate,
)
from autofusion_contrib_byte_tables.rule import FUNCTION_KIND, is_byte

_SECONDS = {1: 0.6e-9, 2: 1.2e-9, 4: 1.2e-9, 8: 1.3e-9}
"""Bytes of a result -> seconds for each of them, measured; one thread, since NumPy has no more."""


class TablePack:
    """See ``autofusion.kernels.KernelPack``."""

    name = "byte-tables"
    version = version("autofusion-contrib-byte-tables")
    kinds: Sequence[FusedKind] = (FUNCTION_KIND,)
    is_reference = False
    blocks: Sequence[int] = ()
    launch_seconds = 3e-6

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """One offer for a fused node of the pack's kind."""
        if not FUNCTION_KIND.is_of(node):
            return Refusal(f"it only runs fused nodes of kind '{FUNCTION_KIND.name}'")
        sources = [v for v in node.inputs if v is not None and v.const is None]
        if len(sources) != 1 or not is_byte(sources[0]) or len(node.outputs) != 1:
            return Refusal("it is not a function of one 8-bit tensor")
        type_ = node.output.type
        if not isinstance(type_, TensorType) or type_.shape != sources[0].shape or type_.dtype.itemsize not in _SECONDS:
            return Refusal("its result has another shape, or elements that have no table")
        body = _body_of_all_bytes(node)
        if isinstance(body, Refusal):
            return body
        return [
            Offer(
                kernel="byte-tables.look_up",
                inputs=tuple(None if v is None else Operand() for v in node.inputs),
                outputs=(Operand(strided=True),),
                bind=_binder(node, node.inputs.index(sources[0])),
                seconds=type_.numel * _SECONDS[type_.dtype.itemsize],
                numerics=Numerics.EXACT,
            )
        ]

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """None: everything is plain."""
        return None

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment | None:
        """None: the kernels are Python callables."""
        return None


def _binder(
    node: Node, index: int
) -> Callable[[BindContext, Sequence[TensorView | None], Sequence[TensorView]], PythonKernel]:
    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> PythonKernel:
        table = _table(node, index, context)
        translation = table.tobytes() if table.dtype.itemsize == 1 else None

        def look_up(arrays: Sequence[Any]) -> list[np.ndarray]:
            x = arrays[index]
            if translation is not None:  # four times as fast as NumPy's own indexing
                return [np.frombuffer(x.tobytes().translate(translation), table.dtype).reshape(x.shape)]
            return [np.take(table, x.view(np.uint8), mode="clip")]

        return look_up

    return bind


def _body_of_all_bytes(node: Node) -> Graph | Refusal:
    """The body over a vector of 256 elements, its other operands made single numbers."""
    graph, values = Graph("table"), dict[Value, Value]()
    for inner, outer in zip(node.body.inputs, node.inputs, strict=True):
        if outer is None or (outer.const is not None and outer.const.size != 1):
            return Refusal("its other operands are not all single numbers")
        if outer.const is not None:
            values[inner] = graph.constant(outer.const.reshape(()))
        else:
            values[inner] = graph.add_input("x", TensorType(inner.tensor.dtype, (256,)))
    for step in node.body.nodes:
        for value in step.inputs:
            if value is not None and value not in values:
                if value.const is None or value.const.size != 1:
                    return Refusal("its body has constants of several numbers")
                values[value] = graph.constant(value.const.reshape(()))
        operands = [None if v is None else values[v] for v in step.inputs]
        copy = graph.node(step.op, operands, step.attrs, outputs=len(step.outputs), origin=step.origin or (step.name,))
        values.update(zip(step.outputs, copy.outputs, strict=True))
    graph.add_output(values[node.body.outputs[0]], "y")
    try:
        infer_graph(graph)
    except GraphError as error:
        return Refusal(f"its body does not take a vector: {error}")
    if graph.outputs[0].shape != (256,):
        return Refusal("its result is not a function of single elements")
    return graph


def _table(node: Node, index: int, context: BindContext) -> np.ndarray:
    """The body's results for every byte, by the reference kernels: whoever wrote those also wrote the table."""
    body = _body_of_all_bytes(node)
    if isinstance(body, Refusal):
        raise KernelError(body.reason)
    (x,) = body.inputs
    values = {x: np.arange(256, dtype=np.uint8).view(x.tensor.dtype)}
    for step in body.nodes:
        operands = [None if v is None else v.const if v.const is not None else values[v] for v in step.inputs]
        values.update(zip(step.outputs, evaluate(context, step, operands), strict=True))
    return values[body.outputs[0]]
