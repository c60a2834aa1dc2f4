"""Two kernels make a recurrent layer: all steps' inputs times the input weights, then one call a step for the rest.

Both are products of a few rows with packed weights `[block of units][k][gate][lanes]`: the gates of a unit come out
side by side in registers, so a step ends with its activations in place and a step is one pass over the weights.
Rows of states and results may be shorter than a whole number of vectors; the last block is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import I32, I64, Value
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text
from autofusion_kernels_cpu.recurrent.activation import Activation

PROJECT_BUFFERS = ("x", "weights", "bias", "gates")
PROJECT_PARAMS = ("rows", "depth", "blocks", "parts", "chunk", "x_row")
STEP_BUFFERS = ("gates", "weights", "bias", "x", "h", "c", "h_out", "c_out", "y", "lengths", "peepholes", "side")
STEP_PARAMS = (
    "time", "batch", "hidden", "blocks", "depth", "gates_row", "gates_first", "x_row", "h_row",
    "c_row", "h_out_row", "c_out_row", "y_row", "side_row", "backwards",
)  # fmt: skip
"""`x` are the rows that the weights multiply: `h`, the hidden state before, unless the cell scales it. Rows are in
elements. `gates_first` is where the first gate of this step lies within a block of projected gates. `side` is a second
state that the two halves of a GRU's step share: [batch, 2, units] with z and r * h."""


_LATENCY = 8
"""Independent multiply-adds that keep both units busy."""


def tiles(isa: Isa, gates: int) -> tuple[int, ...]:
    """Numbers of rows that are multiplied at once, largest first: their gates fit into registers beside the weights.

    The more rows, the fewer times the weights are read; few sizes keep the code short.
    """
    return tuple(rows for rows in (6, 4, 2, 1) if rows == 1 or rows * gates + gates + 1 <= isa.registers)


def project(isa: Isa, gates: int) -> Kernel:
    """gates[row][block] = bias[block] + x[row] . weights[block]."""
    emit = partial(_project, gates=gates)
    return Kernel(f"recurrent_project{gates}", isa, "", PROJECT_BUFFERS, PROJECT_PARAMS, emit)


def _project(f: Function, gates: int) -> None:
    p = f.param
    first, last = f.share(p["blocks"] * p["parts"])
    width = gates * f.lanes
    with f.loop(first, last) as unit:
        block = f.udiv(unit.index, p["parts"])
        start = (unit.index - block * p["parts"]) * p["chunk"]
        rows = f.max(f.min(start + p["chunk"], p["rows"]) - start, 0)
        weights = f.at(f.buffer["weights"], block * p["depth"] * width)
        bias = [f.load(f.buffer["bias"], block * width + g * f.lanes) for g in range(gates)]

        def part(row: Value, count: int) -> None:
            x = f.at(f.buffer["x"], row * p["x_row"])
            totals = _product(f, [bias] * count, x, p["x_row"], weights, p["depth"])
            for i, total in enumerate(totals):
                for g, vector in enumerate(total):
                    f.store(vector, f.buffer["gates"], ((row + i) * p["blocks"] + block) * width + g * f.lanes)

        for tile in tiles(f.isa, gates):
            whole = f.udiv(rows, tile) * tile
            with f.loop(start, start + whole, step=tile) as several:
                part(several.index, tile)
            start, rows = start + whole, rows - whole


def _product(
    f: Function, initial: Sequence[Sequence[Value]], x: Value, x_row: Value, weights: Value, depth: Value
) -> list[list[Value]]:
    """initial[row][gate] + sum over k of x[row][k] * weights[k][gate], all rows and gates in registers."""
    rows, gates = len(initial), len(initial[0])
    # Few sums cannot hide the latency of a multiply-add: then several positions of k go at a time.
    ways = -(-_LATENCY // (rows * gates))
    flat = [v for row in initial for v in row]
    start = flat + [f.zero] * (len(flat) * (ways - 1))
    pointers = [f.at(x, x_row * i) for i in range(rows)]

    def advance(sums: Sequence[Value], k: Value, way: int) -> list[Value]:
        at = k + way
        vectors = [f.load(weights, (at * gates + g) * f.lanes) for g in range(gates)]
        made = []
        for i, pointer in enumerate(pointers):
            element = f.broadcast(pointer, at)
            made += [f.fma(element, vectors[g], sums[i * gates + g]) for g in range(gates)]
        return made

    even = f.udiv(depth, ways) * ways
    with f.loop(0, even, step=ways, carry=start) as loop:
        size = len(flat)
        parts = [advance(loop.carried[w * size : (w + 1) * size], loop.index, w) for w in range(ways)]
        loop.next(*(v for part in parts for v in part))
    sums = list(loop.results)
    if ways > 1:
        size = len(flat)
        for way in range(1, ways):
            sums[:size] = [a + b for a, b in zip(sums[:size], sums[way * size : (way + 1) * size], strict=True)]
        sums = sums[:size]
        with f.loop(even, depth, carry=sums) as rest:
            rest.next(*advance(rest.carried, rest.index, 0))
        sums = list(rest.results)
    return [sums[i * gates : (i + 1) * gates] for i in range(rows)]


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of step. `gates` recurrent gates are multiplied out of `projected` gates that the input has.

    `separate` gates do not start from the projected ones but from `bias`; the cell adds them itself.
    """

    name: str
    gates: int
    projected: int
    finish: Callable[[Unit, Sequence[Activation]], None]
    separate: tuple[int, ...] = ()


class Unit:
    """A vector of hidden units of one row, after the product: what a cell finishes."""

    def __init__(self, f: Function, sums: Sequence[Value], row: Value, block: Value, mask: Value, base: Value) -> None:
        self.f, self.sums, self.row, self.mask = f, sums, row, mask
        self._at = block * f.lanes
        self._base = base
        self.active = f.gt(f.load(f.buffer["lengths"], row, I32), f.convert(f.param["time"], I32))

    def projected(self, gate: int) -> Value:
        """The input's part of a gate, counted from this step's first one."""
        return self.f.load(self.f.buffer["gates"], self._base + gate * self.f.lanes)

    def read(self, buffer: str) -> Value:
        """A state at this row and these units."""
        return self.f.load(self.f.buffer[buffer], self._place(buffer), mask=self.mask)

    def peephole(self, gate: int) -> Value:
        """The weights from the cell state to a gate."""
        return self.f.load(
            self.f.buffer["peepholes"], self.f.param["blocks"] * self.f.lanes * gate + self._at, self.f.f32
        )

    def _place(self, buffer: str) -> Value:
        return self.row * self.f.param[f"{buffer}_row"] + self._at

    def write(self, buffer: str, value: Value, kept: Value) -> None:
        """Store a new state, or the one that was there if the sequence has ended."""
        chosen = self.f.select(self.active, value, kept)
        self.f.store(chosen, self.f.buffer[buffer], self._place(buffer), mask=self.mask)

    def side(self, half: int) -> tuple[Value, Value]:
        """Where z (0) or r * h (1) is kept between the halves of a step."""
        width = self.f.param["blocks"] * self.f.lanes
        return self.f.buffer["side"], self.row * self.f.param["side_row"] + width * half + self._at

    def result(self, hidden: Value) -> None:
        """The layer's result at this time: zero once the sequence has ended."""
        chosen = self.f.select(self.active, hidden, 0.0)
        self.f.store(chosen, self.f.buffer["y"], self._place("y"), mask=self.mask)


def step(isa: Isa, cell: Cell, functions: tuple[Activation, ...]) -> Kernel:
    """One step of all rows: `h` and `c` are the states before, `h_out` and `c_out` after."""
    emit = partial(_step, cell=cell, functions=functions)
    return Kernel(f"recurrent_{cell.name}", isa, structure_text(functions), STEP_BUFFERS, STEP_PARAMS, emit)


def _step(f: Function, cell: Cell, functions: Sequence[Activation]) -> None:
    gates, projected = cell.gates, cell.projected
    p = f.param
    sizes = tiles(f.isa, gates)
    sums = f.stack(sizes[0] * gates * f.lanes)
    first, last = f.share(p["blocks"])
    # Weights that do not fit into the cache would push each other out if every step walked them the same way:
    # going back where the last step ended finds its latest ones still there.
    back = f.ne(p["backwards"], 0)
    with f.loop(first, last) as unit:
        block = f.select(back, first + last - 1 - unit.index, unit.index)
        weights = f.at(f.buffer["weights"], block * p["depth"] * (gates * f.lanes))
        mask = f.tail_mask(p["hidden"] - block * f.lanes)

        def base(row: Value) -> Value:
            return row * p["gates_row"] + block * (projected * f.lanes) + p["gates_first"] * f.lanes

        def product(row: Value, count: int) -> None:
            initial = []
            for i in range(count):
                start = base(row + i)
                initial.append(
                    [
                        f.load(f.buffer["bias"], (block * gates + g) * f.lanes)
                        if g in cell.separate
                        else f.load(f.buffer["gates"], start + g * f.lanes)
                        for g in range(gates)
                    ]
                )
            rows = f.at(f.buffer["x"], row * p["x_row"])
            for i, total in enumerate(_product(f, initial, rows, p["x_row"], weights, p["depth"])):
                for g, vector in enumerate(total):
                    f.store(vector, sums, (i * gates + g) * f.lanes)

        # The sums go through memory so that the activations are in the code once, whatever the tile: the row after
        # the last of a tile starts the next one, as large as the rows that are left allow.
        with f.loop(0, p["batch"], carry=[f.as_value(0, I64), f.as_value(0, I64)]) as each:
            first_row, end = each.carried
            row = each.index

            def fill(remaining: tuple[int, ...]) -> list[Value]:
                size, *smaller = remaining
                if not smaller:
                    product(row, size)
                    return [row, row + size]
                fits = f.ge(p["batch"] - row, size)

                def now() -> list[Value]:
                    product(row, size)
                    return [row, row + size]

                return f.branch(fits, now, lambda: fill(tuple(smaller)))

            first_row, end = f.branch(f.eq(row, end), lambda: fill(sizes), lambda: [first_row, end])
            place = (row - first_row) * (gates * f.lanes)
            loaded = [f.load(sums, place + g * f.lanes) for g in range(gates)]
            cell.finish(Unit(f, loaded, row, block, mask, base(row)), functions)
            each.next(first_row, end)
