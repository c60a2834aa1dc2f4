"""Pointwise operators: each result element depends on the operand elements at its broadcast position only.

The class is strict, because pointwise regions are built on it: the result shape is the trailing broadcast of all
operand shapes. Operators whose parameters lie along the channel or another axis (BatchNormalization, QuantizeLinear
with an axis) are therefore not in it, although they do no more arithmetic than these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autofusion.ir.dtypes import BOOL
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, Work, register, single, traffic
from autofusion.ir.types import Type


@dataclass(frozen=True, slots=True)
class Cost:
    """Arithmetic for one result element; approximate counts of the usual vector implementation."""

    flops: float = 1.0
    transcendentals: float = 0.0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    commutative: bool = False


_EITHER_WAY = Cost(commutative=True)
_ALPHA = single(1.0)

_UNARY: dict[str, Cost] = {
    "Abs": Cost(),
    "Acos": Cost(0, 1),
    "Acosh": Cost(0, 1),
    "Asin": Cost(0, 1),
    "Asinh": Cost(0, 1),
    "Atan": Cost(0, 1),
    "Atanh": Cost(0, 1),
    "BitwiseNot": Cost(),
    "Ceil": Cost(),
    "Celu": Cost(4, 1, {"alpha": _ALPHA}),
    "Cos": Cost(0, 1),
    "Cosh": Cost(0, 1),
    "Elu": Cost(3, 1, {"alpha": _ALPHA}),
    "Erf": Cost(0, 1),
    "Exp": Cost(0, 1),
    "Floor": Cost(),
    "Gelu": Cost(4, 1, {"approximate": "none"}),
    "HardSigmoid": Cost(4, 0, {"alpha": single(0.2), "beta": single(0.5)}),
    "HardSwish": Cost(5),
    "LeakyRelu": Cost(2, 0, {"alpha": single(0.01)}),
    "Log": Cost(0, 1),
    "Mish": Cost(3, 2),
    "Neg": Cost(),
    "Not": Cost(),
    "Reciprocal": Cost(),
    "Relu": Cost(),
    "Round": Cost(),
    "Selu": Cost(4, 1, {"alpha": single(1.67326319217681884765625), "gamma": single(1.05070102214813232421875)}),
    "Shrink": Cost(4, 0, {"bias": 0.0, "lambd": single(0.5)}),
    "Sigmoid": Cost(2, 1),
    "Sign": Cost(),
    "Sin": Cost(0, 1),
    "Sinh": Cost(0, 1),
    "Softplus": Cost(2, 2),
    "Softsign": Cost(3),
    "Sqrt": Cost(),
    "Swish": Cost(3, 1, {"alpha": _ALPHA}),
    "Tan": Cost(0, 1),
    "Tanh": Cost(0, 1),
    "ThresholdedRelu": Cost(1, 0, {"alpha": _ALPHA}),
}
_TESTS: dict[str, Cost] = {
    "IsInf": Cost(1, 0, {"detect_negative": 1, "detect_positive": 1}),
    "IsNaN": Cost(),
}
_BINARY: dict[str, Cost] = {
    "Add": _EITHER_WAY,
    "BitShift": Cost(1, 0, {"direction": REQUIRED}),
    "BitwiseAnd": _EITHER_WAY,
    "BitwiseOr": _EITHER_WAY,
    "BitwiseXor": _EITHER_WAY,
    "Div": Cost(),
    "Mod": Cost(3, 0, {"fmod": 0}),
    "Mul": _EITHER_WAY,
    "PRelu": Cost(2),
    "Pow": Cost(0, 1),
    "Sub": Cost(),
    "SwiGLU": Cost(4, 1, {"alpha": _ALPHA}),
}
_COMPARE: dict[str, Cost] = {
    **dict.fromkeys(("And", "Equal", "Or", "Xor"), _EITHER_WAY),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual"), Cost()),
}

UNARY = frozenset(_UNARY) | frozenset(_TESTS) | {"BitCast", "Cast", "Identity"}
"""Pointwise operators with one operand."""
BINARY = frozenset(_BINARY) | frozenset(_COMPARE)
"""Pointwise operators with two operands."""
VARIADIC = frozenset({"Max", "Mean", "Min", "Sum"})
"""Pointwise operators with one or more operands of equal standing."""
TERNARY = frozenset({"Clip", "Where"})
"""Pointwise operators with three operands (those of Clip after the first may be absent)."""
POINTWISE = UNARY | BINARY | VARIADIC | TERNARY
"""All pointwise operators of the default domain."""


def _infer_unary(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.tensor(node, 0))


def _infer_test(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(BOOL, shapes.shape(node, 0)))


def _infer_identity(node: Node) -> Sequence[Type | None]:
    value = node.operand(0)
    return shapes.only(None if value is None else value.type)


def _infer_broadcast(node: Node) -> Sequence[Type | None]:
    operands = range(len(node.inputs))
    dims = shapes.broadcast(node, *(shapes.shape(node, i) for i in operands))
    return shapes.only(shapes.of(shapes.same_dtype(node, operands), dims))


def _infer_compare(node: Node) -> Sequence[Type | None]:
    shapes.same_dtype(node, (0, 1))
    return shapes.only(shapes.of(BOOL, shapes.broadcast(node, shapes.shape(node, 0), shapes.shape(node, 1))))


def _infer_first_dtype(node: Node) -> Sequence[Type | None]:
    dims = shapes.broadcast(node, shapes.shape(node, 0), shapes.shape(node, 1))
    return shapes.only(shapes.of(shapes.dtype(node, 0), dims))


def _infer_prelu(node: Node) -> Sequence[Type | None]:
    x, slope = shapes.shape(node, 0), shapes.shape(node, 1)
    result = shapes.broadcast(node, x, slope)
    if x is not None and result is not None and len(result) > len(x):
        shapes.fail(node, f"the slope {shapes.show(slope)} must broadcast to the operand {shapes.show(x)}")
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 1)), x))


def _infer_swiglu(node: Node) -> Sequence[Type | None]:
    dims = shapes.agree_shapes(node, shapes.shape(node, 0), shapes.shape(node, 1), "shapes of gate and value")
    return shapes.only(shapes.of(shapes.same_dtype(node, (0, 1)), dims))


def _infer_clip(node: Node) -> Sequence[Type | None]:
    shapes.same_dtype(node, (0, 1, 2))
    for index in (1, 2):
        bound = shapes.shape(node, index)
        size = None if bound is None else shapes.product(bound)
        if isinstance(size, int) and size != 1:
            shapes.fail(node, f"operand {index} must be a scalar, found {shapes.show(bound)}")
    return shapes.only(shapes.tensor(node, 0))


def _infer_where(node: Node) -> Sequence[Type | None]:
    condition = shapes.dtype(node, 0)
    if condition is not None and condition != BOOL:
        shapes.fail(node, f"the condition must be bool, found {shapes.name_of(condition)}")
    dims = shapes.broadcast(node, *(shapes.shape(node, i) for i in range(3)))
    return shapes.only(shapes.of(shapes.same_dtype(node, (1, 2)), dims))


def _infer_cast(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.dtype_attribute(node, "to"), shapes.shape(node, 0)))


def _work_of(cost: Cost) -> Any:
    def work(node: Node) -> Work:
        elements = node.output.tensor.numel
        # n operands of a variadic operator take n - 1 steps; the table counts one.
        steps = max(1, len(node.inputs) - 1) if node.op in VARIADIC else 1
        return Work(cost.flops * steps * elements, *traffic(node), cost.transcendentals * elements)

    return work


def _register(
    name: str, cost: Cost, infer: Any, inputs: int, *, least: int | None = None, most: int | None = 0
) -> None:
    register(
        Operator(
            name,
            OpClass.POINTWISE,
            infer,
            min_inputs=inputs if least is None else least,
            max_inputs=inputs if most == 0 else most,
            attributes=cost.attributes,
            work=_work_of(cost),
            commutative=cost.commutative,
        )
    )


for _name, _cost in _UNARY.items():
    _register(_name, _cost, _infer_unary, 1)
for _name, _cost in _TESTS.items():
    _register(_name, _cost, _infer_test, 1)
for _name, _cost in _BINARY.items():
    _special = {"Pow": _infer_first_dtype, "PRelu": _infer_prelu, "SwiGLU": _infer_swiglu}
    _register(_name, _cost, _special.get(_name, _infer_broadcast), 2)
for _name, _cost in _COMPARE.items():
    _register(_name, _cost, _infer_compare, 2)
for _name in VARIADIC:
    _register(_name, _EITHER_WAY, _infer_broadcast, 1, most=None)
_register("Clip", Cost(2), _infer_clip, 3, least=1)
_register("Where", Cost(), _infer_where, 3)
_register("Cast", Cost(1, 0, {"to": REQUIRED, "saturate": 1}), _infer_cast, 1)
_register("BitCast", Cost(0, 0, {"to": REQUIRED}), _infer_cast, 1)
register(Operator("Identity", OpClass.POINTWISE, _infer_identity, work=lambda node: Work(), view=True))
