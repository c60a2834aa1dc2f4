"""Run a node on given arrays by the reference kernels: what it means, for constants, tables and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autofusion.errors import KernelError, PluginError
from autofusion.ir.graph import FUSED, Node, Value
from autofusion.kernels.contract import BindContext, BoundStep, KernelPack, Memory, Offer, Segment, constant_view
from autofusion.kernels.target import Target
from autofusion.refusal import Refusal

REFERENCE = "reference"
"""The name of this project's reference kernels, which are asked before those of others."""


def reference_first(pack: KernelPack) -> tuple[bool, bool]:
    """Sort key of packs: tuned ones first, then the project's reference kernels, then those of others."""
    return pack.is_reference, pack.name != REFERENCE


def reference_pack(packs: Iterable[KernelPack], why_missing: str = "") -> KernelPack:
    """What runs any operator by itself, one by one: the reference packs among ``packs``, asked operator by operator.

    This project's is asked first, so that others add operators and replace none. Raises PluginError if there is none.
    """
    found = sorted((pack for pack in packs if pack.is_reference), key=reference_first)
    if not found:
        raise PluginError(
            "no reference kernel pack is installed, and constants cannot be folded without one; "
            f"install autofusion-kernels-reference{why_missing}"
        )
    return found[0] if len(found) == 1 else _Joined(found)


class _Joined:
    """Several reference packs as one; a node belongs to the first that runs it."""

    is_reference = True
    blocks: Sequence[int] = ()

    def __init__(self, packs: Sequence[KernelPack]) -> None:
        self._packs = packs
        self.name, self.version = packs[0].name, packs[0].version
        self.kinds, self.launch_seconds = packs[0].kinds, packs[0].launch_seconds

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """The offers of the first pack that does not refuse, or all refusals."""
        said: list[str] = []
        for pack in self._packs:
            answer = pack.offer(node, target)
            if not isinstance(answer, Refusal):
                return answer
            said.append(f"{answer.reason} ('{pack.name}')")
        return Refusal("; ".join(said), node)

    def reorder(self, *_: Any) -> None:
        """None: reference kernels know one layout."""

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment | None:
        """None: reference kernels are functions."""
        return None


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
