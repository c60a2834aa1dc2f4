"""Run a node on given arrays by the reference kernels: what it means, for constants, tables and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autofusion.errors import KernelError, PluginError
from autofusion.ir.graph import FUSED, Node, Value
from autofusion.kernels.contract import BindContext, KernelPack, constant_view
from autofusion.refusal import Refusal


def reference_pack(packs: Iterable[KernelPack], why_missing: str = "") -> KernelPack:
    """The first of ``packs`` that runs any operator by itself, one by one; raise PluginError if there is none."""
    for pack in packs:
        if pack.is_reference:
            return pack
    raise PluginError(
        "no reference kernel pack is installed, and constants cannot be folded without one; "
        f"install autofusion-kernels-reference{why_missing}"
    )


def run_by_reference(pack: KernelPack, node: Node, operands: Sequence[Any], context: BindContext) -> Sequence[Any]:
    """The results of ``node``, run by the reference pack ``pack``; raise KernelError if it does not run it."""
    offers = pack.offer(node, context.target)
    if isinstance(offers, Refusal):
        raise KernelError(f"pack '{pack.name}' cannot run {node.label} ({node.op}): {offers.reason}")
    views = [constant_view(x) if isinstance(x, np.ndarray) else None for x in operands]
    kernel = offers[0].bind(context, views, [])
    results: Sequence[Any] = kernel(operands)
    return results


def evaluate(context: BindContext, node: Node, operands: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The results of ``node`` for ``operands`` (one each, None where absent); a fused node's body runs node by node.

    ``context`` is the one that ``bind`` was given. Raises KernelError if no reference kernel runs an operator.
    """
    if node.op != FUSED:
        return list(context.reference(node, operands))
    values: dict[Value, np.ndarray | None] = dict(zip(node.body.inputs, operands, strict=True))
    for step in node.body.nodes:
        arrays = [None if v is None else v.const if v.const is not None else values[v] for v in step.inputs]
        values.update(zip(step.outputs, context.reference(step, arrays), strict=True))
    results = [v.const if v.const is not None else values[v] for v in node.body.outputs]
    return [result for result in results if result is not None]
