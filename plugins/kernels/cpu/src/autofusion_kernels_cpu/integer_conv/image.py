"""The image prepared: copied into memory with its border around it, in the form that the product multiplies.

Bytes become unsigned, or words less their zero point; the border has the zero point itself, so that every sum is over
all taps and one number for each filter makes up for the zero point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I8, I16, I32, I64, Value
from autofusion_kernels_cpu.integer.form import Form
from autofusion_kernels_cpu.integer.operand import unsigned_byte
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text


@dataclass(frozen=True, slots=True)
class Structure:
    """The form, and whether the image's elements are signed."""

    form: Form
    signed: bool


PARAMETERS = (
    "planes", "blocks", "depth", "height", "width", "low_depth", "low_height", "low_width",
    "whole_depth", "whole_height", "whole_width", "image", "block", "plane", "row", "workers",
)  # fmt: skip
"""``planes`` are images times channel ``blocks``. Sizes in pixels, of the image, of what lies before it, and of all.
``image``, ``block``, ``plane`` and ``row``: elements between two of the source."""


def build(structure: Structure, isa: Isa) -> Kernel:
    """Buffers: the image in channel blocks, its zero point, and where it goes: dense, its border around it."""
    return Kernel(
        "integer_conv.image",
        isa,
        structure_text(structure),
        ("source", "zero", "target"),
        PARAMETERS,
        partial(_emit, s=structure),
    )


def build_planar(structure: Structure, isa: Isa) -> Kernel:
    """The same for a plain image of as many channels as one group has at most: a pixel is one group of bytes."""
    return Kernel(
        "integer_conv.planar",
        isa,
        structure_text(structure),
        ("source", "zero", "target"),
        PARAMETERS,
        partial(_emit_planar, s=structure),
    )


def _emit_planar(f: Function, s: Structure) -> None:
    """``blocks`` are channels here, ``block`` is from one to the next."""
    p = f.param
    filling = unsigned_byte(f, f.load(f.buffer["zero"], 0, I8), s.signed)
    # The same byte for all channels.
    border = f.splat(filling * 0x01010101, f.lanes)
    first, last = nest.share(f, p["planes"] * p["whole_depth"] * p["whole_height"], p["workers"])
    with f.loop(first, last) as line:
        target = f.at(f.buffer["target"], line.index * p["whole_width"], I32)
        rest = f.udiv(line.index, p["whole_height"])
        y = f.urem(line.index, p["whole_height"]) - p["low_height"]
        z = f.urem(rest, p["whole_depth"]) - p["low_depth"]
        inside = f.ult(y, p["height"]) & f.ult(z, p["depth"])
        offset = f.udiv(rest, p["whole_depth"]) * p["image"] + z * p["plane"] + y * p["row"]

        def fill(begin: Value, end: Value) -> None:
            with f.vector_loop(begin, end) as loop:
                f.store(border, target, loop.index, mask=loop.mask)

        def pixels(at: Value, mask: Value | None) -> None:
            with f.loop(0, p["blocks"], carry=[f.const(0, f.i32)]) as channel:
                source = f.at(f.buffer["source"], offset + channel.index * p["block"], I8)
                x = f.load(source, at, I8.of(f.lanes), mask=mask)
                if s.signed:
                    x = x ^ -128
                shift = f.splat(f.convert(channel.index, I32) << 3, f.lanes)
                channel.next(channel.carried[0] | (f.extend_unsigned(x, I32) << shift))
            f.store(channel.results[0], target, p["low_width"] + at, mask=mask)

        def row() -> None:
            fill(f.const(0, I64), p["low_width"])
            whole = p["width"] & -f.lanes
            with f.loop(0, whole, step=f.lanes) as loop:
                pixels(loop.index, None)
            with f.loop(whole, p["width"], step=f.lanes) as loop:
                pixels(loop.index, f.tail_mask(p["width"] - loop.index))
            fill(p["low_width"] + p["width"], p["whole_width"])

        f.branch(inside, row, lambda: fill(f.const(0, I64), p["whole_width"]))  # type: ignore[arg-type, func-returns-value]


def _emit(f: Function, s: Structure) -> None:
    p, lanes = f.param, f.lanes
    element = s.form.element
    zero = f.load(f.buffer["zero"], 0, I8)
    lines = p["planes"] * p["whole_depth"] * p["whole_height"]
    filling = unsigned_byte(f, zero, s.signed) if s.form is Form.BYTES else f.const(0, I32)

    def fill(target: Value, first: Value, last: Value) -> None:
        """Pixels of the border."""
        vector = f.splat(f.convert(filling, element), lanes)
        with f.loop(first, last) as loop:
            f.store(vector, target, loop.index * lanes)

    def copy(source: Value, target: Value, start: Value, at: Value, count: int) -> None:
        x = f.load(source, at, I8.of(count))
        if s.form is Form.WORDS:
            x = f.convert(x, I16) if s.signed else f.extend_unsigned(x, I16)
            x = x - f.splat(f.convert(zero, I16) if s.signed else f.extend_unsigned(zero, I16), count)
        elif s.signed:
            x = x ^ -128
        f.store(x, target, start + at)

    first, last = nest.share(f, lines, p["workers"])
    with f.loop(first, last) as line:
        target = f.at(f.buffer["target"], line.index * p["whole_width"] * lanes, element)
        rest = f.udiv(line.index, p["whole_height"])
        y = f.urem(line.index, p["whole_height"]) - p["low_height"]
        z = f.urem(rest, p["whole_depth"]) - p["low_depth"]
        plane = f.udiv(rest, p["whole_depth"])
        inside = f.ult(y, p["height"]) & f.ult(z, p["depth"])

        def whole() -> None:
            fill(target, f.const(0, I64), p["whole_width"])

        def row() -> None:
            fill(target, f.const(0, I64), p["low_width"])
            image, block = f.udiv(plane, p["blocks"]), f.urem(plane, p["blocks"])
            offset = image * p["image"] + block * p["block"] + z * p["plane"] + y * p["row"]
            source, start = f.at(f.buffer["source"], offset, I8), p["low_width"] * lanes
            long = lanes * s.form.group
            length = p["width"] * lanes
            bulk = length - f.urem(length, long)
            with f.loop(0, bulk, step=long) as loop:
                copy(source, target, start, loop.index, long)
            with f.loop(bulk, length, step=lanes) as loop:
                copy(source, target, start, loop.index, lanes)
            fill(target, p["low_width"] + p["width"], p["whole_width"])

        f.branch(inside, row, whole)  # type: ignore[arg-type]
