"""Run functions of 8-bit numbers by table. The table is what the fused node's body makes of all 256 of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from autofusion.cost.target import Target
from autofusion.errors import KernelError
from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType
from autofusion.lowering.contract import (
    BindContext,
    BoundStep,
    Memory,
    Numerics,
    Offer,
    Operand,
    PythonKernel,
    Refused,
    Segment,
    TensorView,
)
from autofusion.plugins.registry import default_registry
from autofusion.runtime.context import constant_view
from autofusion_contrib_byte_tables.rule import KIND, is_byte

_SECONDS = {1: 0.6e-9, 2: 1.2e-9, 4: 1.2e-9, 8: 1.3e-9}
"""Bytes of a result -> seconds for each of them, measured; one thread, since NumPy has no more."""


class TablePack:
    """See ``autofusion.lowering.contract.KernelPack``."""

    name = "byte-tables"
    version = version("autofusion-contrib-byte-tables")
    kinds: Mapping[str, str] = {KIND: "1"}
    oracle = False
    blocks: Sequence[int] = ()
    launch_seconds = 3e-6

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refused:
        """One offer for a fused node of the pack's kind."""
        if node.op != FUSED or node.attrs["kind"] != KIND:
            return Refused(f"it only runs fused nodes of kind '{KIND}'")
        sources = [v for v in node.inputs if v is not None and v.const is None]
        if len(sources) != 1 or not is_byte(sources[0]) or len(node.outputs) != 1:
            return Refused("it is not a function of one 8-bit tensor")
        type_ = node.output.type
        if not isinstance(type_, TensorType) or type_.shape != sources[0].shape or type_.dtype.itemsize not in _SECONDS:
            return Refused("its result has another shape, or elements that have no table")
        table = _table(node, target)
        if isinstance(table, Refused):
            return table
        return [
            Offer(
                kernel="byte-tables.look_up",
                inputs=tuple(None if v is None else Operand() for v in node.inputs),
                outputs=(Operand(strided=True),),
                bind=_binder(node.inputs.index(sources[0]), table),
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
    index: int, table: np.ndarray
) -> Callable[[BindContext, Sequence[TensorView | None], Sequence[TensorView]], PythonKernel]:
    translation = table.tobytes() if table.dtype.itemsize == 1 else None

    def look_up(arrays: Sequence[Any]) -> list[np.ndarray]:
        x = arrays[index]
        if translation is not None:  # four times as fast as NumPy's own indexing
            return [np.frombuffer(x.tobytes().translate(translation), table.dtype).reshape(x.shape)]
        return [np.take(table, x.view(np.uint8), mode="clip")]

    return lambda context, inputs, outputs: look_up


def _table(node: Node, target: Target) -> np.ndarray | Refused:
    """The body's results for every byte, as it is stored."""
    graph, values = Graph("table"), {}
    numbers = np.arange(256, dtype=np.uint8)
    data: dict[Value, np.ndarray] = {}
    for inner, outer in zip(node.body.inputs, node.inputs, strict=True):
        if outer is None or (outer.const is not None and outer.const.size != 1):
            return Refused("its other operands are not all single numbers")
        constant = None if outer.const is None else outer.const.reshape(())
        values[inner] = graph.constant(constant) if constant is not None else graph.add_input("x", None)
        if constant is None:
            data[values[inner]] = numbers.view(inner.tensor.dtype)
            values[inner].type = TensorType(inner.tensor.dtype, (256,))
    for step in node.body.nodes:
        operands: list[Value | None] = []
        for value in step.inputs:
            if value is not None and value not in values:
                if value.const is None or value.const.size != 1:
                    return Refused("its body has constants of several numbers")
                values[value] = graph.constant(value.const.reshape(()))
            operands.append(None if value is None else values[value])
        copy = graph.node(step.op, operands, step.attrs, outputs=len(step.outputs), origin=step.origin or (step.name,))
        try:
            infer_node(copy)
            results = _evaluate(copy, data, target)
        except KernelError as error:
            return Refused(f"its body cannot be evaluated: {error}")
        for old, new, result in zip(step.outputs, copy.outputs, results, strict=True):
            values[old], data[new] = new, result
    table = data[values[node.body.outputs[0]]]
    return table if table.shape == (256,) else Refused("its result is not a function of single elements")


def _evaluate(node: Node, data: Mapping[Value, np.ndarray], target: Target) -> Sequence[np.ndarray]:
    """The node by the book: whoever wrote the operator's reference kernel also wrote the table."""
    pack = default_registry().oracle(target)
    operands = [None if v is None else v.const if v.const is not None else data[v] for v in node.inputs]
    offers = pack.offer(node, target)
    if isinstance(offers, Refused):
        raise KernelError(offers.reason)
    views = [None if x is None else constant_view(x) for x in operands]
    results: Sequence[np.ndarray] = offers[0].bind(BindContext(target, {}), views, [])(operands)
    return results
