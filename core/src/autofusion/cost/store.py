"""A calibrated target on disk: a small TOML file, tied to the machine that it was measured on."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from autofusion.cost.detect import LANES, cpu_name, detect
from autofusion.errors import OptionError, nearest
from autofusion.files import write_text
from autofusion.kernels.target import Target

_RUNS = {"avx512": ("avx512", "avx2", "generic"), "avx2": ("avx2", "generic"), "neon": ("neon", "generic")}
"""Instruction set of a machine -> those that it runs."""
_TYPES = {"isa": str, "lanes": int, "threads": int, "l1_bytes": int, "l2_bytes": int, "l3_bytes": int}
"""Types of the fields that are not floats."""


MEASURED = tuple(field.name for field in dataclasses.fields(Target) if field.default is dataclasses.MISSING)
"""What a file says of a machine; how it is set for a session is an option."""


def default_path() -> Path:
    """Where the calibrated target is kept: ``$AUTOFUSION_TARGET``, or in the user's configuration folder."""
    stated = os.environ.get("AUTOFUSION_TARGET")
    if stated:
        return Path(stated)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path(os.path.expanduser("~")) / ".config") / "autofusion" / "target.toml"


def save(target: Target, path: Path, *, cpu: str | None = None) -> None:
    """Write ``target`` to ``path``; ``cpu`` is the machine's name (this machine's by default)."""
    head = "# Measured by `autofusion calibrate`. Bytes, seconds, flop/s; one core unless said otherwise.\n\n"
    text = tomli_w.dumps(
        {"cpu": cpu_name() if cpu is None else cpu, **{name: getattr(target, name) for name in MEASURED}}
    )
    if path.parts[:1] == ("~",):
        raise OptionError("this user has no home: state the target file to write, or set AUTOFUSION_TARGET")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, head + text)


def load(path: Path) -> tuple[Target, str]:
    """The target in ``path`` and the name of the machine it was measured on; raise OptionError if it is not one."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"target file '{path}' cannot be read: {error}; run `autofusion calibrate` again") from error
    cpu = data.pop("cpu", "")
    for name in data:
        if name not in MEASURED:
            raise OptionError(f"target file '{path}' has an unknown entry '{name}'{nearest(name, MEASURED)}")
    values: dict[str, Any] = {name: _checked(path, name, data) for name in MEASURED}
    return _consistent(path, Target(**values)), str(cpu)


def current(threads: int | None = None, path: Path | None = None) -> Target:
    """The calibrated target of this machine, or the detected one if there is none or it is another machine's."""
    detected = detect(threads)
    place = path or default_path()
    if not place.exists():
        return detected
    stored, cpu = load(place)
    if cpu != cpu_name() or (stored.isa, stored.lanes) != (detected.isa, detected.lanes):
        return detected
    return dataclasses.replace(stored, threads=detected.threads)


def locked_target(lock: Mapping[str, Any], path: Path, threads: int | None = None) -> Target:
    """The target in the table of a lock, for ``threads`` threads (by default those of the lock, if there are so many).

    Raises OptionError if the table is wrong, or this machine cannot run code for that instruction set.
    """
    target = _consistent(path, Target(**{name: _checked(path, name, dict(lock)) for name in MEASURED}))
    have = detect()
    if target.isa not in _RUNS.get(have.isa, (have.isa,)):
        raise OptionError(
            f"'{path}' locks plans for {target.isa}, and this machine has {have.isa}; lock on this machine"
        )
    return dataclasses.replace(target, threads=threads or min(target.threads, have.threads))


def _consistent(path: Path, target: Target) -> Target:
    """``target``, if its vector lanes are those of its instruction set: code for others would run past its buffers."""
    if target.isa not in LANES:
        raise OptionError(f"target file '{path}' has isa = '{target.isa}', expected one of {', '.join(LANES)}")
    if target.lanes != LANES[target.isa]:
        raise OptionError(
            f"target file '{path}' has lanes = {target.lanes} with isa = '{target.isa}', which has "
            f"{LANES[target.isa]}; was it merged by hand? Write it again"
        )
    return target


def _checked(path: Path, name: str, data: dict[str, Any]) -> Any:
    expected = _TYPES.get(name, float)
    value = data.get(name)
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, expected) or isinstance(value, bool):
        raise OptionError(f"target file '{path}' has {name} = {value!r}, expected {expected.__name__}")
    if isinstance(value, (int, float)) and value <= 0:
        raise OptionError(f"target file '{path}' has {name} = {value!r}, expected more than 0")
    return value
