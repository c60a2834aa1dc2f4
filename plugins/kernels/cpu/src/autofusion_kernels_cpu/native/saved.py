"""Programs saved to a file and restored from it: tables with places instead of addresses, and one image of code.

Restoring imports neither generators nor LLVM. See ``autofusion.kernels.saving`` for what core asks of a pack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.kernels import BufferKind, KernelError, Saved, Storage, cpu_flags, instruction_sets
from autofusion_kernels_cpu.native import context
from autofusion_kernels_cpu.native.checks import Check, FiniteCheck, IndexCheck
from autofusion_kernels_cpu.native.image import link, map_code
from autofusion_kernels_cpu.native.pool import Pool, pool, provide
from autofusion_kernels_cpu.native.program import Program, Ref

FORMAT = 1
_ARENA, _STORED, _EXTERNAL = range(3)
"""What a buffer lies in; a slot of the caller's is its number above ``_EXTERNAL``."""
_INSTRUCTIONS = re.compile(
    r"(s?sse|avx|amx|bmi|fma|v?aes|v?pclmul|vpopcnt|gfni|sha|movbe|adx|abm|f16c|popcnt|lahf|xsave|cx16|asimd|sve|fphp)"
)
_INTERPRETER = ("run", "release", "worker", "clock")


def instruction_flags() -> list[str]:
    """The flags of this processor that say which instructions it has."""
    return sorted(flag for flag in cpu_flags() if _INSTRUCTIONS.match(flag))


# ---- saving ------------------------------------------------------------------------------------------------


def save(segments: Sequence[Any], storage: Storage) -> Saved:
    """``segments``, which are programs of this process, with the code that they and the interpreter need."""
    from autofusion_kernels_cpu.codegen.isa import host_isa
    from autofusion_kernels_cpu.native.interpreter import InterpreterModule
    from autofusion_kernels_cpu.native.jit import jit
    from autofusion_kernels_cpu.native.pool import USES_FUTEX

    interpreter = jit().load(InterpreterModule(host_isa(), USES_FUTEX))
    symbols: dict[int, str] = {}
    objects: dict[bytes, None] = {}
    for function in [*interpreter.values(), *(step.function for program in segments for step in program.steps)]:
        if function not in symbols:
            symbols[function], code = jit().saved(function)
            objects[code] = None
    image, places = link(list(objects))
    functions = {function: places[symbol] for function, symbol in symbols.items()}
    data = {
        "format": FORMAT,
        "layout": context.LAYOUT,
        "isa": host_isa().name,
        "flags": instruction_flags(),
        "interpreter": {name: functions[interpreter[name]] for name in _INTERPRETER},
        "programs": [_program(program, functions, storage) for program in segments],
    }
    return Saved(data, image)


def _program(program: Program, functions: Mapping[int, int], storage: Storage) -> dict[str, Any]:
    steps = program.steps
    table = np.zeros((len(steps), 4), np.int64)
    places: list[tuple[int, int]] = []
    count = 0
    for row, step, native in zip(table, steps, program.table, strict=True):
        row[:] = functions[step.function], len(places), count, native[3]
        places += [_place(ref, storage) for ref in step.buffers]
        count += -(-len(step.params) // 8) * 8
    params = np.zeros(count, np.int64)
    for row, step in zip(table, steps, strict=True):
        params[row[2] : row[2] + len(step.params)] = step.params
    return {
        "threads": program.pool.threads,
        "flush_denormals": program.flush_denormals,
        "steps": len(steps),
        "buffers": len(places),
        "params": count,
        "table_at": storage.put(table),
        "places_at": storage.put(np.array(places, np.int64).reshape(-1, 2)),
        "params_at": storage.put(params),
        "names": [step.name for step in steps],
        "owners": program.owners.tolist(),
        "kernels": program.kernel_count,
        "checks": [_check(check, storage) for check in program.checks],
    }


def _place(ref: Ref, storage: Storage) -> tuple[int, int]:
    if isinstance(ref.source, np.ndarray):
        return _STORED, storage.put(ref.source) + ref.offset
    view = ref.source
    offset = view.offset * view.type.dtype.itemsize + ref.offset
    if view.buffer.kind is BufferKind.EXTERNAL:
        return _EXTERNAL + view.buffer.slot, offset
    if view.buffer.kind is BufferKind.ARENA:
        return _ARENA, view.buffer.offset + offset
    assert view.buffer.array is not None
    return _STORED, storage.put(view.buffer.array) + offset


def _check(check: Check, storage: Storage) -> dict[str, Any]:
    if isinstance(check, FiniteCheck):
        return {"kind": "finite", "at": storage.put(check.note), "size": check.note.size}
    told = [list(each) for each in check.told]
    return {"kind": "index", "at": storage.put(check.note), "nothing": check.nothing, "told": told}


# ---- restoring ---------------------------------------------------------------------------------------------


def restore(data: Mapping[str, Any], code: np.ndarray, stored: np.ndarray, arenas: Sequence[int]) -> list[Program]:
    """The programs of ``data``; ``arenas`` has the address of each one's arena, ``stored`` what ``save`` stored.

    Raises KernelError if they were made for another format or for instructions that this machine does not have.
    """
    if (data.get("format"), data.get("layout")) != (FORMAT, context.LAYOUT):
        raise KernelError("its code was made by another version of pack 'cpu'")
    missing = sorted(set(data["flags"]) - set(instruction_flags()))
    if data["isa"] not in instruction_sets() or missing:
        lacking = f", which lacks {', '.join(missing[:8])}" if missing else ""
        raise KernelError(f"its code was made for {data['isa']}, not for this machine{lacking}")
    base = map_code(code)
    provide({name: base + place for name, place in data["interpreter"].items()})
    return [RestoredProgram(each, base, stored, arena) for each, arena in zip(data["programs"], arenas, strict=True)]


class RestoredProgram(Program):
    """A program whose tables come from a file."""

    def __init__(self, data: Mapping[str, Any], code: int, stored: np.ndarray, arena: int) -> None:
        def numbers(name: str, count: int) -> np.ndarray:
            start = data[f"{name}_at"]
            return stored[start : start + 8 * count].view(np.int64).copy()

        base = int(stored.ctypes.data)
        table = numbers("table", 4 * data["steps"]).reshape(-1, 4)
        places = numbers("places", 2 * data["buffers"]).reshape(-1, 2)
        kinds, offsets = places[:, 0], places[:, 1]
        self._keep = stored
        buffers = np.where(kinds == _ARENA, arena, np.where(kinds == _STORED, base, 0)) + offsets
        external = np.flatnonzero(kinds >= _EXTERNAL)
        patches = [(int(i), int(kinds[i]) - _EXTERNAL, int(offsets[i])) for i in external]
        table[:, 0] += code
        params = np.zeros(data["params"] + 8, np.int64)
        start = -(params.ctypes.data // 8) % 8
        params[start : start + data["params"]] = numbers("params", data["params"])
        table[:, 2] = params.ctypes.data + 8 * (start + table[:, 2])
        self.steps = []
        self.owners, self.kernel_count = np.array(data["owners"], np.int64), data["kernels"]
        self.checks = [_restored_check(check, stored) for check in data["checks"]]
        self._params = params
        threads = data["threads"]
        self._finish(table, buffers, patches, Pool(1) if threads == 1 else pool(threads), data["flush_denormals"])


def _restored_check(data: Mapping[str, Any], stored: np.ndarray) -> Check:
    start = data["at"]
    if data["kind"] == "finite":
        return FiniteCheck(stored[start : start + 4 * data["size"]].view(np.float32))
    told = tuple((before, after) for before, after in data["told"])
    return IndexCheck(stored[start : start + 8 * len(told)].view(np.int64), data["nothing"], told)
