"""The reduction kernel: a program run for every row of a loop nest.

In the code are the program, the form (see ``sweep``), how many vectors of results are made together, and how each
operand moves. Sizes, strides and the numbers of axes are parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from autofusion_kernels_cpu.codegen import elements, nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import Value
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text
from autofusion_kernels_cpu.reduction.programs import Program, emit
from autofusion_kernels_cpu.reduction.sweep import SCALAR, Operand, Sweep


@dataclass(frozen=True, slots=True)
class Structure:
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


def build(signature: str, program: Program, structure: Structure, isa: Isa) -> Kernel:
    """Buffers: table of pieces [outer][full operands], full operands, row operands. ``signature`` is equal for programs
    that make the same code, apart from how their operands move.
    """
    operands = tuple((o.dtype, o.kind) for o in (*program.full, *program.row))
    return Kernel(
        "reduction",
        isa,
        structure_text(signature, operands, len(program.full), len(program.full_results), structure),
        ("table", *operand_names(program)),
        (*PARAMETERS, *step_names(program)),
        partial(_emit, program=program, structure=structure),
    )


def operand_names(program: Program) -> list[str]:
    """Buffers of the full operands, then the row operands."""
    return [f"x{i}" for i in range(len(program.full) + len(program.row))]


def step_names(program: Program) -> list[str]:
    """Parameters for the steps of the full operands."""
    return [f"step{i}" for i in range(len(program.full))]


def _emit(f: Function, program: Program, structure: Structure) -> None:
    operands, names = [*program.full, *program.row], operand_names(program)
    pointers = [f.buffer[n] for n in names]
    kinds = [elements.memory_type(o.dtype) for o in operands]
    with nest.rows(f, pointers, kinds) as row:
        masks: list[Value | None] = [None] * structure.parts
        if not structure.along and not structure.whole:
            left = f.param["columns"] - row.index * (structure.parts * f.lanes)
            masks = [f.tail_mask(left - part * f.lanes) for part in range(structure.parts)]
        sweep = Sweep(
            f,
            program.full,
            row.pointers[: len(program.full)],
            f.buffer["table"],
            f.param["outer"],
            f.param["length"],
            [f.param[step] for step in step_names(program)],
            masks,
            structure.along,
            structure.unroll,
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
                if structure.along:
                    elements.store(f, operand.dtype, f.extract(value, 0), pointer, 0)
                else:
                    elements.store(f, operand.dtype, value, pointer, part * f.lanes, mask)


def _load(f: Function, operand: Operand, pointer: Value, part: int, mask: Value | None) -> Value:
    if operand.kind == SCALAR:
        return elements.broadcast(f, operand.dtype, pointer, 0, f.lanes)
    return elements.load(f, operand.dtype, pointer, part * f.lanes, f.lanes, mask)
