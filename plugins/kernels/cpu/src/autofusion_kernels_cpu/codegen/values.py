"""Types and values of the IR under construction, with Python operators, so that a kernel reads like the formula it
computes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autofusion_kernels_cpu.codegen.builder import Function

_SIZES = {"float": 4, "double": 8, "half": 2, "bfloat": 2, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "ptr": 8}
_MANGLED = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar type of LLVM, or with ``lanes > 0`` a vector of it."""

    name: str
    lanes: int = 0

    def __str__(self) -> str:
        return f"<{self.lanes} x {self.name}>" if self.lanes else self.name

    @property
    def element(self) -> Type:
        return Type(self.name)

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return _SIZES[self.name] * max(self.lanes, 1)

    @property
    def is_float(self) -> bool:
        return self.name in _MANGLED

    @property
    def is_pointer(self) -> bool:
        return self.name == "ptr"

    @property
    def bits(self) -> int:
        """Width of an element."""
        return 1 if self.name == "i1" else _SIZES[self.name] * 8

    @property
    def mangled(self) -> str:
        """The type's part of an intrinsic's name."""
        name = "p0" if self.is_pointer else _MANGLED.get(self.name, self.name)
        return f"v{self.lanes}{name}" if self.lanes else name

    def of(self, lanes: int) -> Type:
        """The vector of `lanes` elements of this type's element."""
        return Type(self.name, lanes)

    def with_element(self, element: Type) -> Type:
        """As many lanes of another element type."""
        return Type(element.name, self.lanes)


F32, F64, F16, BF16 = Type("float"), Type("double"), Type("half"), Type("bfloat")
I1, I8, I16, I32, I64, PTR = Type("i1"), Type("i8"), Type("i16"), Type("i32"), Type("i64"), Type("ptr")

Number = bool | int | float


def literal(number: Number, type_: Type) -> str:
    """LLVM text of a constant, splat over the lanes of a vector."""
    element = type_.element
    if element.is_pointer:
        text = "null"
    elif element.is_float:
        if element == F64:
            text = "0x" + struct.pack(">d", float(number)).hex().upper()
        elif element == F32:
            with np.errstate(over="ignore"):
                rounded = float(np.float32(number))
            text = "0x" + struct.pack(">d", rounded).hex().upper()
        elif element == F16:
            text = "0xH" + struct.pack(">e", float(number)).hex().upper()
        else:
            # A float32 constant whose lower half is dropped; constants that need rounding to nearest are not asked for.
            text = "0xR" + struct.pack(">f", float(number)).hex().upper()[:4]
    elif element == I1:
        text = "true" if number else "false"
    else:
        text = str(int(number))
    return f"splat ({element} {text})" if type_.lanes else text


class Value:
    """An SSA value (or constant) of a function under construction.

    `+ - * /`, unary `-`, `& | ^ ~ << >>` and the comparisons `< <= > >=` build instructions in the value's function; a
    Python number on either side becomes a constant of the other's type. Integer `<`, `>>` and `/` are signed. Use
    `Function.eq` and `Function.ne` for equality.
    """

    __slots__ = ("constant", "f", "text", "type")

    def __init__(self, f: Function, text: str, type_: Type, constant: Number | None = None) -> None:
        self.f, self.text, self.type, self.constant = f, text, type_, constant

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"

    def __add__(self, other: Operandish) -> Value:
        return self.f.add(self, other)

    def __radd__(self, other: Number) -> Value:
        return self.f.add(other, self)

    def __sub__(self, other: Operandish) -> Value:
        return self.f.sub(self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.f.sub(other, self)

    def __mul__(self, other: Operandish) -> Value:
        return self.f.mul(self, other)

    def __rmul__(self, other: Number) -> Value:
        return self.f.mul(other, self)

    def __truediv__(self, other: Operandish) -> Value:
        return self.f.div(self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.f.div(other, self)

    def __neg__(self) -> Value:
        return self.f.neg(self)

    def __and__(self, other: Operandish) -> Value:
        return self.f.and_(self, other)

    def __or__(self, other: Operandish) -> Value:
        return self.f.or_(self, other)

    def __xor__(self, other: Operandish) -> Value:
        return self.f.xor(self, other)

    def __invert__(self) -> Value:
        return self.f.xor(self, True if self.type.element == I1 else -1)

    def __lshift__(self, other: Operandish) -> Value:
        return self.f.shl(self, other)

    def __rshift__(self, other: Operandish) -> Value:
        return self.f.ashr(self, other)

    def __lt__(self, other: Operandish) -> Value:
        return self.f.lt(self, other)

    def __le__(self, other: Operandish) -> Value:
        return self.f.le(self, other)

    def __gt__(self, other: Operandish) -> Value:
        return self.f.gt(self, other)

    def __ge__(self, other: Operandish) -> Value:
        return self.f.ge(self, other)

    def __bool__(self) -> bool:
        raise TypeError(
            "a Value is only known when the kernel runs: use Function.when, Function.branch or Function.select"
        )


Operandish = Value | Number
Vec = Value
"""A Value whose type is a vector (for signatures)."""


def numeric(x: Any) -> bool:
    """True for a Python or NumPy number."""
    return isinstance(x, (bool, int, float, np.integer, np.floating))
