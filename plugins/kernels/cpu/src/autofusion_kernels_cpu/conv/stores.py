"""What becomes of the sums of a register tile: epilogue and store, into a blocked tensor or into a plain one.

Both go from registers where the epilogue is light, and through a small array on the stack where it is heavy, or where a
tile was moved left and only its last pixels are wanted.
"""

from __future__ import annotations

from typing import Protocol

from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.values import F32, I64, PTR, Value
from autofusion_kernels_cpu.conv.products import Interleave, Structure


class Store(Protocol):
    """Stores tiles and finishes rows. Pointers are at the tile's first pixel, or at the row's."""

    def resumed(self, output: Value, width: int) -> list[Value]:
        """The sums that earlier chunks of the table have left."""
        ...

    def tile(
        self, sums: list[Value], width: int, output: Value, operands: list[Value], skip: Value, last: Value
    ) -> None:
        """Store a tile from pixel `skip` on; `last` is true where the sums are complete."""
        ...

    def row(self, output: Value, operands: list[Value], begin: Value, end: Value) -> None:
        """Called when pixels `begin` to `end` of a row are stored."""
        ...


def operand_vector(f: Function, kind: OperandKind, pointer: Value, offset: Value) -> Value:
    """The vector of an epilogue's operand for the pixel at `offset`; `pointer` is at its channel block."""
    if kind is OperandKind.SCALAR:
        return f.broadcast(pointer, 0, F32)
    return f.load(pointer, offset if kind is OperandKind.TENSOR else 0)


def names(kinds: tuple[OperandKind, ...]) -> list[str]:
    """Names of the epilogue's operands."""
    return [f"operand{i}" for i in range(len(kinds))]


class BlockedStore:
    """Into channel blocks: every accumulator is one vector of the result."""

    def __init__(self, f: Function, structure: Structure, epilogue: Epilogue) -> None:
        self.f, self.s, self.epilogue = f, structure, epilogue
        self.lanes = structure.isa.lanes
        self.spill = f.stack(max(structure.widths) * structure.vectors * self.lanes)
        self.blocks = [f.param[f"{name}.block"] for name in names(epilogue.kinds)]
        self.pixels = self._pixels(f.module)

    def resumed(self, output: Value, width: int) -> list[Value]:
        f, block = self.f, self.f.param["output_block"]
        return [
            f.load(f.at(output, block * o), x * self.s.output_pixel)
            for x in range(width)
            for o in range(self.s.vectors)
        ]

    def tile(
        self, sums: list[Value], width: int, output: Value, operands: list[Value], skip: Value, last: Value
    ) -> None:
        f = self.f
        elements = [(x, o) for x in range(width) for o in range(self.s.vectors)]

        def through_memory() -> None:
            for value, (x, o) in zip(sums, elements, strict=True):
                f.store(value, self.spill, (x * self.s.vectors + o) * self.lanes)
            complete = f.select(last, f.const(1, I64), 0)
            numbers = [skip, f.const(width, I64), complete, f.param["output_block"], *self.blocks]
            f.call(self.pixels, self.spill, output, *operands, *numbers)

        def in_registers() -> None:
            places = [(o, f.const(x * self.s.output_pixel, I64)) for x, o in elements]
            self._vectors(f, sums, places, last, output, f.param["output_block"], operands, self.blocks)

        if self.epilogue.is_light:
            f.branch(f.eq(skip, 0), in_registers, through_memory)
        else:
            through_memory()

    def row(self, output: Value, operands: list[Value], begin: Value, end: Value) -> None:
        pass

    def _pixels(self, module: Module) -> Function:
        """A function that stores the pixels of a tile in memory from `skip` on: one copy serves all widths."""
        operands = names(self.epilogue.kinds)
        blocks = [f"block{i}" for i in range(len(operands))]
        numbers = ["skip", "width", "last", "output_block", *blocks]
        g = module.function(
            "store_pixels", [(n, PTR) for n in ("tile", "output", *operands)] + [(n, I64) for n in numbers]
        )
        vectors = range(self.s.vectors)
        with g, g.loop(g.args["skip"], g.args["width"]) as loop:
            here = g.at(g.args["tile"], loop.index * (self.s.vectors * self.lanes))
            place = loop.index * self.s.output_pixel
            self._vectors(
                g,
                [g.load(here, o * self.lanes) for o in vectors],
                [(o, place) for o in vectors],
                g.ne(g.args["last"], 0),
                g.args["output"],
                g.args["output_block"],
                [g.args[n] for n in operands],
                [g.args[n] for n in blocks],
            )
        return g

    def _vectors(
        self,
        f: Function,
        values: list[Value],
        places: list[tuple[int, Value]],
        last: Value,
        output: Value,
        output_block: Value,
        operands: list[Value],
        blocks: list[Value],
    ) -> None:
        """Store sums at (vector, offset from the tile's first pixel), through the epilogue if they are complete."""
        epilogue = self.epilogue

        def operand(index: int, vector: int, offset: Value) -> Value:
            kind, pointer = epilogue.kinds[index], operands[index]
            if kind is not OperandKind.SCALAR:
                pointer = f.at(pointer, blocks[index] * vector)
            return operand_vector(f, kind, pointer, offset)

        def finished() -> list[Value]:
            return [
                epilogue.emit(f, value, lambda i, o=o, offset=offset: operand(i, o, offset))  # type: ignore[misc]
                for value, (o, offset) in zip(values, places, strict=True)
            ]

        if epilogue.nodes:
            values = f.branch(last, finished, lambda: values)
        for value, (o, offset) in zip(values, places, strict=True):
            f.store(value, f.at(output, output_block * o), offset)


class PlainStore:
    """Into a plain tensor with few channels: the lanes of a sum are (channel, row, column) of the result, which has
    `rows` x `columns` pixels for each of the tile's.

    The epilogue would waste most lanes of such sums: it runs over finished rows, whose vectors are full of pixels.
    """

    def __init__(self, f: Function, structure: Structure, epilogue: Epilogue) -> None:
        assert structure.interleave is not None and structure.vectors == 1
        self.f, self.s, self.epilogue = f, structure, epilogue
        self.parts: Interleave = structure.interleave
        self.lanes = structure.isa.lanes
        self.spill = f.stack(max(structure.widths) * self.lanes)
        self.pixels = self._pixels(f.module)
        self.finish = self._finish(f.module)

    def resumed(self, output: Value, width: int) -> list[Value]:
        # Sums are never cut in chunks here.
        return [self.f.zero] * width

    def tile(
        self, sums: list[Value], width: int, output: Value, operands: list[Value], skip: Value, last: Value
    ) -> None:
        f = self.f

        def through_memory() -> None:
            for x, value in enumerate(sums):
                f.store(value, self.spill, x * self.lanes)
            strides = [f.param["output_block"], f.param["output_line"]]
            f.call(self.pixels, self.spill, output, skip, f.const(width, I64), *strides)

        def from_registers() -> None:
            lines = self._lines(f, output, f.param["output_block"], f.param["output_line"])
            for x, value in enumerate(sums):
                self._spread(f, value, lines, f.const(x * self.parts.columns, I64))

        f.branch(f.eq(skip, 0), from_registers, through_memory)

    def row(self, output: Value, operands: list[Value], begin: Value, end: Value) -> None:
        if not self.epilogue.nodes:
            return
        f = self.f
        strides = [f.param["output_block"], f.param["output_line"]]
        f.call(self.finish, output, *operands, begin * self.parts.columns, end * self.parts.columns, *strides)

    def _lines(self, f: Function, output: Value, block: Value, line: Value) -> list[Value]:
        """Pointers to every channel's rows."""
        return [f.at(output, block * c + line * r) for c in range(self.parts.channels) for r in range(self.parts.rows)]

    def _spread(self, f: Function, value: Value, lines: list[Value], offset: Value) -> None:
        """Store the lanes of one sum."""
        columns = self.parts.columns
        for i, pointer in enumerate(lines):
            own = range(i * columns, (i + 1) * columns)
            f.store(f.shuffle(value, None, own) if columns > 1 else f.extract(value, i), pointer, offset)

    def _pixels(self, module: Module) -> Function:
        """A function that stores the pixels of a tile in memory from `skip` on: one copy serves all widths."""
        numbers = ["skip", "width", "output_block", "output_line"]
        g = module.function("store_pixels", [(n, PTR) for n in ("tile", "output")] + [(n, I64) for n in numbers])
        with g:
            lines = self._lines(g, g.args["output"], g.args["output_block"], g.args["output_line"])
            with g.loop(g.args["skip"], g.args["width"]) as loop:
                value = g.load(g.args["tile"], loop.index * self.lanes)
                self._spread(g, value, lines, loop.index * self.parts.columns)
        return g

    def _finish(self, module: Module) -> Function:
        """A function that runs the epilogue over columns `begin` to `end` of the rows that sums have been spread to.

        Operands of the result's shape lie in memory as the result does, those of a channel one number after the other.
        """
        kinds, operands = self.epilogue.kinds, names(self.epilogue.kinds)
        numbers = ["begin", "end", "output_block", "output_line"]
        g = module.function("finish", [(n, PTR) for n in ("output", *operands)] + [(n, I64) for n in numbers])
        with g:
            for c in range(self.parts.channels):
                for r in range(self.parts.rows):
                    shift = g.args["output_block"] * c + g.args["output_line"] * r
                    with g.vector_loop(g.args["begin"], g.args["end"]) as loop:
                        place = shift + loop.index
                        mask = loop.mask

                        def operand(i: int, c: int = c, place: Value = place, mask: Value | None = mask) -> Value:
                            pointer = g.args[operands[i]]
                            if kinds[i] is OperandKind.TENSOR:
                                return g.load(pointer, place, mask=mask)
                            return g.broadcast(pointer, c if kinds[i] is OperandKind.CHANNEL else 0, F32)

                        value = g.load(g.args["output"], place, mask=mask)
                        g.store(self.epilogue.emit(g, value, operand), g.args["output"], place, mask=mask)
        return g
