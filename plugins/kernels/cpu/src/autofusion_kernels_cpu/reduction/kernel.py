"""The reduction kernel: a program run for every row of a loop nest.

In the code are the program, the form (see ``sweep``), how many vectors of results are made together, and how each
operand moves. Sizes, strides and the numbers of axes are parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from autofusion_kernels_cpu.codegen import elements, nest
from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import Value
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.reduction.programs import Program, emit
from autofusion_kernels_cpu.reduction.sweep import SCALAR, Operand, Sweep


@dataclass(frozen=True, slots=True)
class Form:
    """Reduced elements ``along`` vectors or across them; vectors of results made together; accumulators in turn.

    ``whole`` says that every lane of a result exists (channel blocks).
    """

    along: bool
    parts: int = 1
    unroll: int = 4
    whole: bool = False


PARAMETERS = ("outer", "length", "columns")
"""Pieces of a row, elements of a piece, results along the innermost axis.

Then a step for each full operand, and the rows.
"""

_addresses: dict[tuple[object, ...], int] = {}


def address(signature: str, program: Program, form: Form, isa: Isa) -> int:
    """The compiled kernel, made at the first call for this structure."""
    operands = tuple((o.dtype.str, o.kind) for o in (*program.full, *program.row))
    key = (isa.name, signature, operands, len(program.full), form)
    if key not in _addresses:
        _addresses[key] = jit().kernel(build(program, form, isa))
    return _addresses[key]


def build(program: Program, form: Form, isa: Isa) -> Module:
    """Buffers: table of pieces [outer][full operands], full operands, row operands."""
    module = Module(isa)
    operands = [*program.full, *program.row]
    names = [f"x{i}" for i in range(len(operands))]
    steps = [f"step{i}" for i in range(len(program.full))]
    with module.kernel("reduction", ["table", *names], [*PARAMETERS, *steps]) as f:
        pointers = [f.buffer[n] for n in names]
        kinds = [elements.memory_type(o.dtype) for o in operands]
        with nest.rows(f, pointers, kinds, len(PARAMETERS) + len(steps)) as row:
            masks: list[Value | None] = [None] * form.parts
            if not form.along and not form.whole:
                left = f.param["columns"] - row.index * (form.parts * f.lanes)
                masks = [f.tail_mask(left - part * f.lanes) for part in range(form.parts)]
            sweep = Sweep(
                f,
                program.full,
                row.pointers[: len(program.full)],
                f.buffer["table"],
                f.param["outer"],
                f.param["length"],
                [f.param[s] for s in steps],
                masks,
                form.along,
                form.unroll,
            )
            own = list(zip(program.row, row.pointers[len(program.full) :], strict=True))
            environments = []
            for part, mask in enumerate(masks):
                environments.append(
                    {
                        o.value: _load(f, o, pointer, part, mask)
                        for i, (o, pointer) in enumerate(own)
                        if i not in program.row_results
                    }
                )
            emit(program, sweep, environments)
            for part, mask in enumerate(masks):
                for i in program.row_results:
                    operand, pointer = own[i]
                    value = environments[part][operand.value]
                    if form.along:
                        elements.store(f, operand.dtype, f.extract(value, 0), pointer, 0)
                    else:
                        elements.store(f, operand.dtype, value, pointer, part * f.lanes, mask)
    return module


def _load(f, operand: Operand, pointer: Value, part: int, mask: Value | None) -> Value:
    if operand.kind == SCALAR:
        return elements.broadcast(f, operand.dtype, pointer, 0, f.lanes)
    return elements.load(f, operand.dtype, pointer, part * f.lanes, f.lanes, mask)
