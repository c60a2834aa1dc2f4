"""Sequences and optional values."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.dtypes import BOOL, F32, I64
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.control import common_type
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, attribute, register
from autofusion.ir.types import Dim, OptionalType, SequenceType, TensorType, Type


def _operand(node: Node, index: int) -> Type | None:
    value = node.operand(index)
    return None if value is None else value.type


def _sequence(node: Node, index: int) -> SequenceType | None:
    type_ = _operand(node, index)
    if isinstance(type_, OptionalType):
        type_ = type_.element
    if type_ is not None and not isinstance(type_, SequenceType):
        shapes.fail(node, f"operand {index} must be a sequence, found {type_}")
    return type_


def _sequence_of(element: Type | None) -> SequenceType | None:
    return None if element is None else SequenceType(element)


def _infer_construct(node: Node) -> Sequence[Type | None]:
    shapes.same_dtype(node, range(len(node.inputs)))
    element = _operand(node, 0)
    for index in range(1, len(node.inputs)):
        element = common_type(element, _operand(node, index))
    return shapes.only(_sequence_of(element))


def _infer_empty(node: Node) -> Sequence[Type | None]:
    return shapes.only(SequenceType(TensorType(shapes.dtype_attribute(node, "dtype") or F32, None)))


def _infer_at(node: Node) -> Sequence[Type | None]:
    sequence = _sequence(node, 0)
    return shapes.only(None if sequence is None else sequence.element)


def _infer_erase(node: Node) -> Sequence[Type | None]:
    return shapes.only(_sequence(node, 0))


def _infer_insert(node: Node) -> Sequence[Type | None]:
    sequence, element = _sequence(node, 0), _operand(node, 1)
    return shapes.only(None if sequence is None else _sequence_of(common_type(sequence.element, element)))


def _infer_length(node: Node) -> Sequence[Type | None]:
    _sequence(node, 0)
    return shapes.only(TensorType(I64, ()))


def _infer_split(node: Node) -> Sequence[Type | None]:
    dims, dtype = shapes.rank_at_least(node, 0, 1), shapes.dtype(node, 0)
    if dims is None:
        return shapes.only(_sequence_of(shapes.of(dtype, None)))
    axis = shapes.axis_of(node, attribute(node, "axis"), len(dims))
    if not shapes.is_present(node, 1):
        kept = (1,) if attribute(node, "keepdims") else ()
        return shapes.only(_sequence_of(shapes.of(dtype, (*dims[:axis], *kept, *dims[axis + 1 :]))))
    parts, size = shapes.constant(node, 1), dims[axis]
    part: Dim = None
    if parts is not None and parts.ndim == 0:
        part = int(parts) if isinstance(size, int) and size % int(parts) == 0 else None
    elif parts is not None and len(set(parts.tolist())) == 1:
        part = int(parts[0])
    return shapes.only(_sequence_of(shapes.of(dtype, (*dims[:axis], part, *dims[axis + 1 :]))))


def _infer_concat(node: Node) -> Sequence[Type | None]:
    sequence = _sequence(node, 0)
    element = None if sequence is None else sequence.element
    if not isinstance(element, TensorType) or element.shape is None:
        return shapes.only(element if isinstance(element, TensorType) else None)
    new = attribute(node, "new_axis")
    axis = shapes.axis_of(node, attribute(node, "axis"), len(element.shape) + (1 if new else 0))
    rest = element.shape[axis:] if new else element.shape[axis + 1 :]
    return shapes.only(element.with_shape((*element.shape[:axis], None, *rest)))


def _infer_optional(node: Node) -> Sequence[Type | None]:
    type_ = _operand(node, 0) if node.inputs else attribute(node, "type")
    return shapes.only(None if type_ is None else OptionalType(type_))


def _infer_get(node: Node) -> Sequence[Type | None]:
    type_ = _operand(node, 0)
    return shapes.only(type_.element if isinstance(type_, OptionalType) else type_)


def _infer_has(node: Node) -> Sequence[Type | None]:
    return shapes.only(TensorType(BOOL, ()))


def _register() -> None:
    opaque = OpClass.OPAQUE
    for operator in (
        Operator("SequenceConstruct", opaque, _infer_construct, 1, None),
        Operator("SequenceEmpty", opaque, _infer_empty, 0, 0, attributes={"dtype": None}),
        Operator("SequenceAt", opaque, _infer_at, 2, 2),
        Operator("SequenceErase", opaque, _infer_erase, 1, 2),
        Operator("SequenceInsert", opaque, _infer_insert, 2, 3),
        Operator("SequenceLength", opaque, _infer_length),
        Operator("SplitToSequence", opaque, _infer_split, 1, 2, attributes={"axis": 0, "keepdims": 1}),
        Operator("ConcatFromSequence", opaque, _infer_concat, attributes={"axis": REQUIRED, "new_axis": 0}),
        Operator("Optional", opaque, _infer_optional, 0, 1, attributes={"type": None}),
        Operator("OptionalGetElement", opaque, _infer_get),
        Operator("OptionalHasElement", opaque, _infer_has, 0, 1),
    ):
        register(operator)


_register()
