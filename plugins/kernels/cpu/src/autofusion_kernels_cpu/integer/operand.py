"""A prepared: rows of whole vectors in the form of the product, zero past their ends, and the sums of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I16, I32, Value
from autofusion_kernels_cpu.integer.form import Form, multiply
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text


@dataclass(frozen=True, slots=True)
class Structure:
    """The form, whether A's elements are signed, and whether the sums of rows are wanted (bytes only)."""

    form: Form
    signed: bool
    sums: bool


PARAMETERS = ("rows", "cycle", "k", "padded", "zero_row", "workers")
"""``rows`` of all matrices, ``cycle`` of one; ``padded``: elements of a prepared row; ``zero_row``: elements between
the zero points of two rows."""


def build(structure: Structure, isa: Isa) -> Kernel:
    """Buffers: A dense, its zero points (read for words only), the prepared rows, their sums in i32."""
    return Kernel(
        "integer.operand",
        isa,
        structure_text(structure),
        ("a", "zero", "rows", "sums"),
        PARAMETERS,
        partial(_emit, s=structure),
    )


def unsigned_byte(f: Function, byte: Value, signed: bool) -> Value:
    """An 8-bit element as an i32 in 0..255: signed ones are moved up by 128."""
    return f.convert(byte, I32) + 128 if signed else f.extend_unsigned(byte, I32)


def _emit(f: Function, s: Structure) -> None:
    p = f.param
    lanes = f.lanes * s.form.group
    first, last = nest.share(f, p["rows"], p["workers"])
    with f.loop(first, last) as row:
        source = f.at(f.buffer["a"], row.index * p["k"], I8)
        target = f.at(f.buffer["rows"], row.index * p["padded"], s.form.element)
        at = f.urem(row.index, p["cycle"]) * p["zero_row"]
        zero = _extended(f, f.load(f.buffer["zero"], at, I8), s.signed) if s.form is Form.WORDS else None
        ones = f.const(0x01010101, f.i32)

        def vector(at: Value, total: Value, mask: Value | None) -> Value:
            """Prepare one vector; returns the sums so far, of each lane's elements."""
            x = f.load(source, at, I8.of(lanes), mask=mask)
            if zero is not None:
                x = _extended(f, x, s.signed) - f.splat(zero, lanes)
            elif s.signed:
                x = x ^ -128
            if mask is not None:
                x = f.select(mask, x, f.const(0, x.type))
            f.store(x, target, at)
            return multiply(f, s.form, f.bitcast(x, f.i32), ones, total) if s.sums else total

        # A masked load of bytes is slow on some machines: for the end only.
        whole = p["k"] & -lanes
        with f.loop(0, whole, step=lanes, carry=[f.const(0, f.i32)]) as loop:
            loop.next(vector(loop.index, loop.carried[0], None))
        with f.loop(whole, p["k"], step=lanes, carry=[loop.results[0]]) as rest:
            rest.next(vector(rest.index, rest.carried[0], f.tail_mask(p["k"] - rest.index, lanes)))
        if s.sums:
            f.store(f.reduce("add", rest.results[0]), f.buffer["sums"], row.index)


def _extended(f: Function, x: Value, signed: bool) -> Value:
    return f.convert(x, I16) if signed else f.extend_unsigned(x, I16)
