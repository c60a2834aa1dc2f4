"""Find out what machine this is: cores, instruction set and caches from the system, rates from what such cores do.

The rates are those measured for generated kernels on current server cores, scaled by clock and vector width: good
enough to choose by until ``calibrate`` measures them.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autofusion.errors import OptionError, nearest
from autofusion.kernels.isa import instruction_sets
from autofusion.kernels.target import Target

ISA_VARIABLE = "AUTOFUSION_ISA"
"""Environment variable: a narrower instruction set than the widest of this machine, to try what others have."""
_PROC = Path("/proc")
_CPU0 = Path("/sys/devices/system/cpu/cpu0")
_CGROUP = Path("/sys/fs/cgroup")

DEFAULT_HERTZ = 3.0e9
L3_SHARE = 16 << 20
"""Most of a shared last-level cache to count on for each thread: in a virtual machine the reported one is the socket's,
and its neighbours use it too."""


@dataclass(frozen=True, slots=True)
class _Core:
    """What one core of an instruction set does in each cycle: vector lanes, multiply-adds, bytes to and from L2."""

    lanes: int
    fma_units: int
    l2_bytes: float
    l3_bytes: float
    exp_lanes: float


_CORES = {
    "avx512": _Core(16, 2, 28.0, 14.0, 1.0),
    "avx2": _Core(8, 2, 20.0, 10.0, 0.5),
    "neon": _Core(4, 2, 16.0, 10.0, 0.25),
    "generic": _Core(4, 1, 8.0, 6.0, 0.1),
}
LANES = {isa: core.lanes for isa, core in _CORES.items()}
"""Instruction set -> float32 in a vector register."""
_MEMORY_PER_CORE = 25.0e9
_MEMORY_LIMIT = 100.0e9


def detect(threads: int | None = None) -> Target:
    """The machine that this process runs on; ``threads`` defaults to the cores that it may use."""
    count = threads or usable_cores()
    isa = instruction_set()
    core, hertz = _CORES[isa], clock_hertz()
    caches = cache_bytes()
    return Target(
        isa=isa,
        lanes=core.lanes,
        threads=count,
        peak_flops=2.0 * core.fma_units * core.lanes * hertz,
        l1_bytes=caches.get(1, 32 << 10),
        l2_bytes=caches.get(2, 512 << 10),
        l3_bytes=min(caches.get(3, 8 << 20), L3_SHARE * count),
        bandwidth_l2=core.l2_bytes * hertz,
        bandwidth_l3=core.l3_bytes * hertz,
        bandwidth_memory=min(_MEMORY_PER_CORE * count, _MEMORY_LIMIT),
        transcendentals=core.exp_lanes * hertz,
    )


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and no more than a container's quota pays for."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([count, *(int(quota) for quota in _quotas())]))


def _quotas() -> Iterator[float]:
    """Cores that each control group around this process may use, of those that have a limit.

    Version 2 has one hierarchy; version 1 mounts one for each controller. A container sees its own group as the root
    of the mount, whatever the path says; outside of one the groups above it count as well.
    """
    groups = {tuple(line.split(":", 2)[1:]) for line in _text(_PROC / "self" / "cgroup").splitlines()}
    groups |= {("", "/"), ("cpu", "/"), ("cpu,cpuacct", "/")}
    for controllers, path in groups:
        if controllers and "cpu" not in controllers.split(","):
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            folder = _CGROUP.joinpath(controllers, *parts[:depth])
            if controllers:
                limit = [_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
            else:
                limit = _text(folder / "cpu.max").split()
            if len(limit) == 2 and all(number.isdigit() for number in limit) and int(limit[1]):
                yield int(limit[0]) / int(limit[1])


def instruction_set() -> str:
    """The widest instruction set of this machine, or the one that ``AUTOFUSION_ISA`` names.

    Raises OptionError if this machine does not have that one.
    """
    have = instruction_sets()
    wanted = os.environ.get(ISA_VARIABLE)
    if not wanted:
        return have[0]
    if wanted not in have:
        raise OptionError(
            f"{ISA_VARIABLE} is '{wanted}', expected one of what this machine has: {', '.join(have)}"
            f"{nearest(wanted, have)}"
        )
    return wanted


def cpu_name() -> str:
    """The model name that the system gives, to recognise the machine by."""
    for line in _text(_PROC / "cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in ("model name", "cpu part", "hardware"):
            return " ".join(value.split())
    return platform.processor() or platform.machine()


def clock_hertz() -> float:
    """The highest clock that the system tells of, or a usual one."""
    highest = _text(_CPU0 / "cpufreq" / "cpuinfo_max_freq").strip()
    if highest.isdigit():
        return float(highest) * 1e3
    for line in _text(_PROC / "cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() == "cpu mhz":
            # What a virtual machine reports is the base clock; cores run faster than that.
            return max(float(value) * 1e6, DEFAULT_HERTZ)
    return DEFAULT_HERTZ


def cache_bytes() -> dict[int, int]:
    """Cache level -> bytes, of the caches that hold data."""
    found: dict[int, int] = {}
    for index in sorted((_CPU0 / "cache").glob("index*")):
        if _text(index / "type").strip() in ("Data", "Unified"):
            level, size = _text(index / "level").strip(), _text(index / "size").strip()
            if level.isdigit() and size[:-1].isdigit() and size[-1] in "KMG":
                found[int(level)] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
    return found


def _text(path: Path) -> str:
    """The content of a system file, or an empty string: what the system does not tell is not an error."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
