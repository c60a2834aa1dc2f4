"""What the offer functions of all families share: reading a node's operands and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels import Offer, Operand, Refusal, Target

P = TypeVar("P")


def again(
    problem: Callable[[], P | Refusal], offer: Callable[..., Offer | Refusal | None], *more: object
) -> Offer | None:
    """`offer(problem, *more)` for the sizes of now: what `Offer.resize` is bound to."""
    found = problem()
    answer = found if isinstance(found, Refusal) else offer(found, *more)
    return answer if isinstance(answer, Offer) else None


def anew(offers: Callable[[Node, Target], Sequence[Offer] | Refusal], node: Node, target: Target) -> Offer | None:
    """The only one of `offers` for the sizes of now: what `Offer.resize` is bound to."""
    answer = offers(node, target)
    return None if isinstance(answer, Refusal) else answer[0]


def static(node: Node, index: int) -> TensorType | None:
    """The type of operand `index`, or None if it is absent or not a tensor of static shape."""
    value = node.operand(index)
    if value is None or not isinstance(value.type, TensorType) or not value.type.is_static:
        return None
    return value.type


def result(node: Node, index: int = 0) -> TensorType | None:
    """The type of result `index`, or None if it is not a tensor of static shape."""
    type_ = node.outputs[index].type
    return type_ if isinstance(type_, TensorType) and type_.is_static else None


def constant(node: Node, index: int) -> np.ndarray | None:
    """The data of operand `index` if it is a constant."""
    value = node.operand(index)
    return None if value is None else value.const


def constant_ints(node: Node, index: int) -> list[int] | None:
    """The data of a constant operand as a list of integers, or None."""
    data = constant(node, index)
    return None if data is None else [int(x) for x in data.ravel()]


def used_results(node: Node) -> int:
    """How many results, from the first, anyone looks at."""
    return max((i + 1 for i, v in enumerate(node.outputs) if v.use_count), default=1)


def operands(node: Node, wanted: Mapping[int, Operand]) -> tuple[Operand | None, ...]:
    """One entry for each operand of the node: those given, plain for the others, None where it is absent."""
    return tuple(None if v is None else wanted.get(i, Operand()) for i, v in enumerate(node.inputs))
