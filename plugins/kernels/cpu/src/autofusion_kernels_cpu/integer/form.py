"""How small integers are multiplied, and in which form the operands of a product lie for that.

``BYTES``: unsigned bytes of A times signed bytes of B, four at a time (``vpdpbusd``). What an operand's own type and
zero points differ from that is made up for by sums of rows and columns. ``WORDS``: both operands less their zero
points in 16 bits, two at a time. Neither saturates on the way: a pair of bytes in 16 bits (``vpmaddubsw``) would.
"""

from __future__ import annotations

import enum

from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I16, I32, Type, Value


class Form(enum.Enum):
    """Elements of a 32-bit group, and how groups are multiplied."""

    BYTES = 4
    WORDS = 2

    @property
    def group(self) -> int:
        """Elements of k in one group."""
        return self.value

    @property
    def element(self) -> Type:
        """The element of A and B in memory."""
        return I8 if self is Form.BYTES else I16


def form_for(isa: Isa) -> Form:
    """The fastest form on a machine: bytes where it has AVX512-VNNI or AVX-VNNI."""
    wanted = {"avx512": "+avx512vnni", "avx2": "+avxvnni"}.get(isa.name, "none")
    return Form.BYTES if wanted in isa.features.split(",") else Form.WORDS


def padded(form: Form, isa: Isa, k: int) -> int:
    """Elements of a prepared row of A: whole vectors."""
    lanes = form.group * isa.lanes
    return -(-k // lanes) * lanes


def multiply(f: Function, form: Form, a: Value, b: Value, total: Value) -> Value:
    """``total`` plus the products of the groups of A and B; all are vectors of i32. Wraps around as 32 bits do."""
    lanes = f.lanes * form.group
    x, y = (f.bitcast(v, form.element.of(lanes)) for v in (a, b))
    bits = f.isa.bytes * 8
    if form is Form.BYTES:
        return _call(f, f"x86.avx512.vpdpbusd.{bits}", total, x, y)
    if f.isa.is_x86:
        name = "x86.avx512.pmaddw.d.512" if bits == 512 else "x86.avx2.pmadd.wd"
        return total + _call(f, name, x, y, result=f.i32)
    for start in range(2):
        picks = range(start, lanes, 2)
        total = total + f.convert(f.shuffle(x, None, picks), I32) * f.convert(f.shuffle(y, None, picks), I32)
    return total


def _call(f: Function, name: str, *args: Value, result: Type | None = None) -> Value:
    type_ = result or args[0].type
    f.declare(f"{type_} @llvm.{name}({', '.join(str(a.type) for a in args)})")
    return f.emit(f"call {type_} @llvm.{name}({', '.join(map(repr, args))})", type_)
