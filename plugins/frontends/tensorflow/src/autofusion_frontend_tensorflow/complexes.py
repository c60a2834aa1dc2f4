"""Complex numbers as what they are in the IR: two real tensors.

Models of speech have them between a Fourier transform and a magnitude. Operators that move elements, and linear ones,
work on both parts alike; a few others have converters of their own (``converters.fourier``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from autofusion.frontends import ModelError
from autofusion.ir.graph import Value

if TYPE_CHECKING:
    from autofusion_frontend_tensorflow.call import Call

Converter = Callable[["Call"], "Value | Sequence[Value | None]"]

AWARE: set[str] = set()
"""Operators whose own converters take a Complex."""
_OWN: dict[str, Converter] = {}
"""Converters of those that mean something else for complex numbers."""

_EACH_PART = frozenset(
    "Add AddN AddV2 BatchToSpaceND BroadcastTo Concat ConcatV2 Cumsum ExpandDims Fill Gather GatherNd GatherV2 "
    "MatrixBandPart MatrixDiag MatrixDiagPart Mean MirrorPad Neg Pack Pad PadV2 Reshape ReverseV2 Roll ScatterNd "
    "SegmentSum Select SelectV2 Slice SpaceToBatchND Split SplitV Squeeze StridedSlice Sub Sum "
    "TensorScatterUpdate Tile Transpose Unpack UnsortedSegmentSum ZerosLike".split()
)
_SHAPE_ONLY = frozenset("Rank Shape ShapeN Size".split())


class Complex(Value):
    """A tensor of complex numbers. It never becomes an operand of an IR node."""

    __slots__ = ("imag", "real")

    def __init__(self, name: str, real: Value, imag: Value) -> None:
        super().__init__(name, real.type)
        self.real = real
        self.imag = imag


def on_complex(*ops: str) -> Callable[[Converter], Converter]:
    """Register the decorated converter for operators with Complex operands."""

    def decorate(function: Converter) -> Converter:
        _OWN.update(dict.fromkeys(ops, function))
        return function

    return decorate


def convert(call: Call, function: Converter) -> list[Value | None]:
    """The results of a node, some of whose operands may be Complex: ``function`` is the converter for real ones."""
    operands = list(call.inputs)
    if call.op in AWARE or not any(isinstance(v, Complex) for v in operands):
        return _listed(function(call))
    if call.op in _OWN:
        return _listed(_OWN[call.op](call))
    if call.op not in _EACH_PART and call.op not in _SHAPE_ONLY:
        names = ", ".join(f"'{v.name}'" for v in operands if isinstance(v, Complex))
        call.fail(f"it is not supported for complex numbers ({names})")
    parts = []
    for part in ("real", "imag"):
        call.inputs = [getattr(v, part) if isinstance(v, Complex) else v for v in operands]
        parts.append(_listed(function(call)))
        if call.op in _SHAPE_ONLY:
            return parts[0]
    return [None if a is None or b is None else Complex(call.name, a, b) for a, b in zip(*parts, strict=True)]


def refuse(value: Value, what: str) -> None:
    """Raise ModelError if ``value`` is Complex: it cannot be ``what``."""
    if isinstance(value, Complex):
        raise ModelError(
            f"'{value.name}' is a tensor of complex numbers, which cannot be {what}; take its real and imaginary part, "
            "or its magnitude"
        )


def _listed(results: Value | Sequence[Value | None]) -> list[Value | None]:
    return [results] if isinstance(results, Value) else list(results)
