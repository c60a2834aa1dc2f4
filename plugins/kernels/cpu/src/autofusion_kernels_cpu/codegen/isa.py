"""What a generator must know about an instruction set: vector width, registers, and how to name it to LLVM.

A kernel's register tile follows from `registers` and its channel block from `lanes`, so one generator serves every
instruction set and none of them is named in a kernel.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from autofusion.kernels import KernelError, Target


class UnsupportedIsaError(KernelError):
    """The machine, or the instruction set asked for, is not one that the generators write code for."""


@dataclass(frozen=True, slots=True)
class Isa:
    """An instruction set with float32 vectors of `lanes` elements in `registers` registers.

    `lanes` is also the channel block of blocked layouts. `cpu` and `features` are LLVM's names; `triple` is empty for
    the triple of this process.
    """

    name: str
    lanes: int
    registers: int
    triple: str
    cpu: str
    features: str

    def __hash__(self) -> int:
        """By the name alone: instruction sets are parts of the keys of most look-ups."""
        return hash(self.name)

    @property
    def bytes(self) -> int:
        """Size of a vector in bytes."""
        return self.lanes * 4

    @property
    def is_x86(self) -> bool:
        return self.name != "neon"


# Fixed feature sets, for cross assembly and for running a narrower instruction set on a wider host.
AVX512 = Isa("avx512", 16, 32, "x86_64-unknown-linux-gnu", "skylake-avx512", "-prefer-256-bit")
AVX2 = Isa("avx2", 8, 16, "x86_64-unknown-linux-gnu", "haswell", "")
NEON = Isa("neon", 4, 32, "aarch64-unknown-linux-gnu", "generic", "+neon")
ISAS = {isa.name: isa for isa in (AVX512, AVX2, NEON)}


@functools.cache
def host_isas() -> tuple[Isa, ...]:
    """Instruction sets that this machine can run, widest first; empty when there is none."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    cpu = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    listed = features.flatten()
    if triple.startswith(("x86_64", "amd64")):
        found = []
        if features.get("avx512f") and features.get("avx512vl") and features.get("avx512dq"):
            # LLVM prefers 256-bit vectors on some AVX-512 machines; the kernels ask for 512 bits explicitly.
            found.append(Isa("avx512", 16, 32, triple, cpu, listed + ",-prefer-256-bit"))
        if features.get("avx2") and features.get("fma"):
            # Without the host's name when it is wider, so that this runs and caches as on a machine that has only AVX2.
            own = (cpu, listed) if not found else ("haswell", "")
            found.append(Isa("avx2", 8, 16, triple, *own))
        return tuple(found)
    if triple.startswith(("aarch64", "arm64")):
        return (Isa("neon", 4, 32, triple, cpu, listed),)
    return ()


def host_isa(name: str | None = None) -> Isa:
    """The widest instruction set of this machine, or the one called `name`.

    Raises UnsupportedIsaError when this machine cannot run it.
    """
    isas = host_isas()
    if not isas:
        raise UnsupportedIsaError(
            "this machine has none of the instruction sets of 'autofusion-kernels-cpu': expected one "
            f"of {', '.join(ISAS)} (x86-64 needs AVX2 and FMA); use another kernel pack"
        )
    if name is None:
        return isas[0]
    for isa in isas:
        if isa.name == name:
            return isa
    raise UnsupportedIsaError(
        f"instruction set '{name}' cannot run here: expected one of {', '.join(isa.name for isa in isas)}"
    )


def isa_of(target: Target) -> Isa:
    """The instruction set that kernels for ``target`` are generated for; raises as ``host_isa``."""
    return host_isa(target.isa)
