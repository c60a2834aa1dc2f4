"""Which instruction sets this machine has."""

from __future__ import annotations

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
AVX512_FLAGS = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl"})
AVX2_FLAGS = frozenset({"avx2", "fma"})


def instruction_sets() -> tuple[str, ...]:
    """Those of ``avx512``, ``avx2``, ``neon`` and ``generic`` that this machine has, widest first."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return "neon", "generic"
    flags = cpu_flags()
    names = [name for name, needed in (("avx512", AVX512_FLAGS), ("avx2", AVX2_FLAGS)) if flags >= needed]
    return (*names, "generic")


def cpu_flags() -> frozenset[str]:
    """Feature flags of the first core, lower case; empty where the system does not tell."""
    try:
        lines = CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            return frozenset(value.lower().split())
    return frozenset()
