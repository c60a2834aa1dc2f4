"""Value types: tensors with partly known shapes, and the sequences and optionals that wrap them.

A dim is an ``int``, a symbol (``str``: equal symbols are equal sizes) or ``None`` (unknown). A shape of ``None``
is an unknown rank. Everything is immutable and compared by value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from autofusion.ir.dtypes import dtype_name

Dim = int | str | None
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape of a tensor; ``shape is None`` means that not even the rank is known."""

    dtype: np.dtype
    shape: Shape | None
    is_static: bool = field(init=False, repr=False, compare=False)
    """True if every dim is an integer."""

    def __post_init__(self) -> None:
        shape = self.shape
        static = shape is not None
        for dim in shape or ():
            if not isinstance(dim, int):
                static = False
                break
        object.__setattr__(self, "is_static", static)

    @property
    def rank(self) -> int | None:
        """Number of axes, or None."""
        return None if self.shape is None else len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as integers; raise ValueError if a dim is not known."""
        if self.is_static:
            return cast("tuple[int, ...]", self.shape)
        raise ValueError(f"{self} is not static")

    @property
    def numel(self) -> int:
        """Number of elements of a static type."""
        return math.prod(self.static_shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a static type, one element after the other."""
        return self.numel * self.dtype.itemsize

    def with_shape(self, shape: Shape | None) -> TensorType:
        """The same element type with another shape."""
        return TensorType(self.dtype, shape)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, TensorType) and self.dtype == other.dtype and self.shape == other.shape

    def __str__(self) -> str:
        if self.shape is None:
            return f"{dtype_name(self.dtype)}[*]"
        return f"{dtype_name(self.dtype)}[{', '.join('?' if d is None else str(d) for d in self.shape)}]"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence of values of one type."""

    element: Type

    @property
    def is_static(self) -> bool:
        """A sequence's length is only known at run time."""
        return False

    def __str__(self) -> str:
        return f"seq({self.element})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value that may be absent."""

    element: Type

    @property
    def is_static(self) -> bool:
        """Presence is only known at run time."""
        return False

    def __str__(self) -> str:
        return f"optional({self.element})"


Type = TensorType | SequenceType | OptionalType


def of_array(array: np.ndarray) -> TensorType:
    """The static type of ``array``."""
    return TensorType(array.dtype, array.shape)
