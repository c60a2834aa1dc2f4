"""An anchor with the pointwise operators behind it: what rules about convolutions, products and norms have in common.

Each of them says which operands its kind can index (``Indexable``); the rest is the same: what may join, which regions
count as the well-known short form, and how to tell why nothing joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, op_class
from autofusion.ir.types import TensorType, Type
from autofusion.refusal import Refusal
from autofusion.rules.facts import arrow, is_float_type, private_hint
from autofusion.rules.growth import Growth, Joins, forward
from autofusion.rules.rule import Region

Indexable = Callable[[tuple[int, ...], tuple[int, ...]], bool]
"""``(operand shape, result shape)``: can a kernel of this kind index such an operand while it writes the result?"""

_NOT_ARITHMETIC = frozenset({"Cast", "Identity"})


def any_broadcast(operand: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """For kinds whose kernels index by strides: whatever does not enlarge the result."""
    return all(d in (1, r) for d, r in zip(reversed(operand), reversed(result), strict=False))


def by_channel(operand: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """For kinds whose kernels index by channel: one number for each channel, or for each channel of each image."""
    lead = len(result) - len(operand)
    return all(d == 1 or (lead + i < 2 and d == result[lead + i]) for i, d in enumerate(operand))


_SCALING = frozenset({"Div", "Mul", "Pow"})


class Epilogue(NamedTuple):
    """What may follow an anchor, and what does."""

    anchor: Node
    joins: Joins
    growth: Growth

    def regions(self, wanted: Callable[[tuple[Node, ...]], bool]) -> Iterator[Region]:
        """The regions whose epilogue is ``wanted``, the largest first."""
        for chain in reversed(self.growth.chains):
            if wanted(chain):
                yield Region((self.anchor, *chain), self.anchor)


def joining(type_: TensorType, indexable: Indexable) -> Joins:
    """Which nodes may be in a region whose result is of ``type_``: pointwise, of that type, with indexable operands.

    Single numbers and tensors of the same type always are indexable. Conditions, computed inside or not, are as good.
    """
    shape, dtype = type_.static_shape, type_.dtype
    condition = TensorType(np.dtype(np.bool_), type_.shape)

    def fits(own: Type | None) -> bool:
        if not isinstance(own, TensorType) or own.dtype not in (dtype, condition.dtype):
            return False
        if own.shape == shape:
            return True
        if not own.is_static:
            return False
        dims = own.static_shape
        return len(dims) <= len(shape) and (dims.count(1) == len(dims) or indexable(dims, shape))

    def joins(node: Node) -> bool:
        if op_class(node) is not OpClass.POINTWISE or node.op in _NOT_ARITHMETIC or len(node.outputs) != 1:
            return False
        if node.outputs[0].type not in (type_, condition):
            return False
        for value in node.inputs:
            if value is not None and not fits(value.type):
                return False
        return True

    return joins


def follow(anchor: Node, indexable: Indexable) -> Epilogue | None:
    """Grow forward from ``anchor``; None if its result is not a static floating-point tensor."""
    type_ = anchor.output.type
    if not isinstance(type_, TensorType) or not type_.is_static or not is_float_type(type_.dtype):
        return None
    joins = joining(type_, indexable)
    return Epilogue(anchor, joins, forward(anchor, joins))


def is_short(chain: tuple[Node, ...]) -> bool:
    """The well-known form: at most one Add (bias or residual) and one activation, in either order."""
    if len(chain) > 2:
        return False
    rest = [node for node in chain if node.op not in ("Add", "Sub")]
    return len(chain) - len(rest) <= 1 and all(map(_is_activation, rest))


def _is_activation(node: Node) -> bool:
    """A function of one computed value alone."""
    computed = {v for v in node.inputs if v is not None and v.const is None}
    return len(computed) == 1 and node.op not in _SCALING


def why_alone(epilogue: Epilogue) -> Iterator[Refusal]:
    """Tell why nothing joined, if there is a pointwise operator behind the anchor that a user may have expected to."""
    anchor, result = epilogue.anchor, epilogue.growth.result
    if epilogue.growth.chains:
        return
    consumers = result.consumers
    near = [c for c in consumers if op_class(c) is OpClass.POINTWISE and c.op not in _NOT_ARITHMETIC]
    if not near:
        return
    site = arrow(anchor, near[0])
    willing = [c for c in consumers if epilogue.joins(c)]
    if result.is_output:
        yield Refusal(f"{site}: '{result.name}' is also a graph output", result, private_hint(result))
    elif willing and len(willing) < len(consumers):
        other = next(c for c in consumers if c not in willing)
        hint = f"would fuse if {other.label} did not use '{result.name}', or could join"
        yield Refusal(f"{site}: '{result.name}' is also used by {other.label}", other, hint)
    elif willing:
        yield Refusal(f"{site}: '{result.name}' has {len(consumers)} consumers that do not meet again", result)
    else:
        yield _misfit(near[0], result).at(site)


def _misfit(node: Node, result: Value) -> Refusal:
    """Which operand or result of ``node`` does not go with ``result``, and the sizes that would."""
    type_ = result.tensor
    values = [v for v in (*node.inputs, *node.outputs) if v is not None and isinstance(v.type, TensorType)]
    odd = [v for v in values if v.type != type_]
    value = next((v for v in odd if v.dtype != type_.dtype or _wrong_dim(v, type_)), None)
    value = value or next((v for v in odd if any(d != 1 for d in v.shape or ())), None)
    if value is None:
        return Refusal(f"an operand or the result is not a tensor like '{result.name}' ({type_})", node)
    wrong = _wrong_dim(value, type_)
    if value.dtype != type_.dtype:
        hint = f"would fuse if '{value.name}' were of {type_.dtype}"
    elif wrong is not None:
        axis, wanted = wrong
        hint = f"would fuse if dim {axis} of '{value.name}' were {wanted if wanted == 1 else f'1 or {wanted}'}"
    else:
        hint = f"would fuse if '{value.name}' had one element, or the shape of '{result.name}'"
    return Refusal(f"'{value.name}' is {value.type}, but '{result.name}' is {type_}", value, hint)


def _wrong_dim(value: Value, type_: TensorType) -> tuple[int, int] | None:
    """The first dim of ``value`` that does not broadcast to ``type_``, and the size that would (besides 1)."""
    dims, shape = value.shape or (), type_.static_shape
    if len(dims) > len(shape):
        return None
    wanted = shape[len(shape) - len(dims) :]
    pairs = enumerate(zip(dims, wanted, strict=True))
    return next(((axis, want) for axis, (found, want) in pairs if found not in (1, want)), None)
