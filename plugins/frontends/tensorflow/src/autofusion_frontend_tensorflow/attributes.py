"""AttrValue to Python: numbers, texts, numpy types, shapes, arrays, function names, and lists of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autofusion_frontend_tensorflow.tensors import numpy_type, shape_of, to_array, type_name


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type, as an attribute names it; ``dtype`` is None for resources, variants and the like."""

    number: int

    @property
    def dtype(self) -> Any:
        """The numpy type, or None."""
        return numpy_type(self.number)

    def __str__(self) -> str:
        return f"DT_{type_name(self.number)}"


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A function of the model's library."""

    name: str


@dataclass(frozen=True, slots=True)
class ShapeAttribute:
    """A shape; ``dims`` is None where not even the rank is known."""

    dims: tuple[int | None, ...] | None


def read(attrs: Mapping[str, Any], name: str, where: str) -> Any:
    """The value of attribute ``name``, or None if it is absent or was left open."""
    if name not in attrs:
        return None
    proto = attrs[name]
    field = proto.WhichOneof("value")
    if field == "list":
        for part in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
            values = getattr(proto.list, part)
            if len(values):
                return [_value(part, v, where) for v in values]
        return []
    return None if field in (None, "placeholder") else _value(field, getattr(proto, field), where)


def _value(field: str, value: Any, where: str) -> Any:
    if field == "s":
        return value.decode("utf-8", "surrogateescape")
    if field == "type":
        return ElementType(int(value))
    if field == "shape":
        return ShapeAttribute(shape_of(value))
    if field == "tensor":
        return to_array(value, where)
    if field == "func":
        return FunctionName(value.name)
    return value
