"""Convolutions with the pointwise operators behind them: one pass over the result instead of many.

``conv.activation`` is the well-known short form (a residual or bias Add and one activation); ``conv.epilogue`` is any
other chain, however long, also one that branches and meets again. Together they propose each region once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autofusion.fusion.facts import FLOATS, arrow
from autofusion.fusion.growth import Growth, forward
from autofusion.fusion.rule import FuseRule, Level, Refusal, Region
from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, op_class
from autofusion.ir.types import TensorType

ANCHORS = frozenset({"Conv", "ConvTranspose"})
_NOT_ARITHMETIC = frozenset({"Cast", "Identity"})


def joins(anchor: Node) -> Callable[[Node], bool]:
    """Which nodes may follow: pointwise, with a result of the anchor's type, and operands that a convolution can index.

    Those are tensors of the same shape, one number for each channel (of each image), and single numbers.
    """
    wanted = anchor.output.type

    def accept(node: Node) -> bool:
        return (
            len(node.outputs) == 1
            and node.output.type == wanted
            and op_class(node) is OpClass.POINTWISE
            and node.op not in _NOT_ARITHMETIC
            and all(v is None or _indexable(v, wanted) for v in node.inputs)
        )

    return accept


def _indexable(value: Value, wanted: TensorType) -> bool:
    type_ = value.type
    if type_ == wanted:
        return True
    if not isinstance(type_, TensorType) or type_.dtype != wanted.dtype or type_.shape is None:
        return False
    shape, full = type_.shape, wanted.shape
    assert full is not None
    if all(d == 1 for d in shape) and len(shape) <= len(full):
        return True
    lead = len(full) - len(shape)
    return lead >= 0 and all(d == 1 or (lead + i < 2 and d == full[lead + i]) for i, d in enumerate(shape))


def _grown(anchor: Node) -> tuple[Callable[[Node], bool], Growth] | None:
    type_ = anchor.output.type
    if not isinstance(type_, TensorType) or not type_.is_static or type_.dtype.name not in FLOATS:
        return None
    accept = joins(anchor)
    return accept, forward(anchor, accept)


def _is_short(chain: tuple[Node, ...]) -> bool:
    """At most one Add of another tensor and one function of the result alone, in either order."""
    adds = sum(node.op in ("Add", "Sub") for node in chain)
    return len(chain) <= 2 and adds <= 1 and all(node.op in ("Add", "Sub") or _is_activation(node) for node in chain)


def _is_activation(node: Node) -> bool:
    computed = {v for v in node.inputs if v is not None and v.const is None}
    return len(computed) == 1 and node.op not in ("Mul", "Div", "Pow")


def _activation(anchor: Node) -> Iterator[Region | Refusal]:
    grown = _grown(anchor)
    if grown is None:
        return
    accept, growth = grown
    for chain in reversed(growth.chains):
        if _is_short(chain):
            yield Region((anchor, *chain), anchor)
    if not growth.chains:
        yield from why_stopped(anchor, growth.result, accept)


def _epilogue(anchor: Node) -> Iterator[Region | Refusal]:
    grown = _grown(anchor)
    if grown is None:
        return
    _, growth = grown
    for chain in reversed(growth.chains):
        if not _is_short(chain):
            yield Region((anchor, *chain), anchor)


def why_stopped(anchor: Node, result: Value, accept: Callable[[Node], bool]) -> Iterator[Refusal]:
    """Tell why nothing joined, if there is a pointwise operator behind that a user may have expected to."""
    consumers = result.consumers
    near = [c for c in consumers if op_class(c) is OpClass.POINTWISE and c.op not in _NOT_ARITHMETIC]
    if not near:
        return
    site = arrow(anchor, near[0])
    willing = [c for c in consumers if accept(c)]
    if result.is_output:
        yield Refusal(f"{site}: '{result.name}' is also a graph output", result)
    elif willing and len(willing) < len(consumers):
        other = next(c for c in consumers if c not in willing)
        yield Refusal(f"{site}: '{result.name}' is also used by {other.label}", other)
    elif willing:
        yield Refusal(f"{site}: '{result.name}' has {len(consumers)} consumers that do not meet again", result)
    else:
        yield Refusal(f"{site}: an operand or the result has another type or shape than '{result.name}'", near[0])


ACTIVATION = FuseRule(
    "conv.activation",
    "conv",
    _activation,
    ANCHORS,
    level=Level.BASIC,
    doc="""Run a convolution with its residual Add and its activation.

    Before: %y = Relu(Add(Conv(%x, %w, %b), %residual))
    After:  %y = Fused(%x, %w, %b, %residual) {kind = "conv"}
    Any activation; with or without the Add, which may come before or after.
    Refuses when: an intermediate is used elsewhere or is a graph output; an operand is broadcast along other axes than
    batch and channel, or enlarges the result.
    """,
)

EPILOGUE = FuseRule(
    "conv.epilogue",
    "conv",
    _epilogue,
    ANCHORS,
    doc="""Run a convolution with all pointwise operators behind it.

    Before: %y = Mul(%c, Sigmoid(%c)) with %c = Conv(%x, %w, %b), and whatever pointwise operators follow
    After:  %y = Fused(%x, %w, %b) {kind = "conv"}
    Chains of any length; branches that meet again; residual tensors, channel vectors and gates, numbers.
    Refuses when: as conv.activation.
    """,
)

RULES = (ACTIVATION, EPILOGUE)
