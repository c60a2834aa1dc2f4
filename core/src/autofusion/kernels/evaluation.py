"""Run a node on given arrays by the reference kernels: what a fused node's body means, for tables and the like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import FUSED, Node, Value
from autofusion.kernels.contract import BindContext


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
