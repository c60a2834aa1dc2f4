"""The lock: which packs a deployment runs, to the byte, with its rule switches and the machine it was planned for.

A lock does not install anything. It says what must be there, and an environment that differs in any way is refused
before the first model is read, with a line for each difference and what to do about it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w
from packaging.utils import canonicalize_name

from autofusion._version import __version__
from autofusion.errors import PluginError, nearest
from autofusion.plugins.digest import content_digest
from autofusion.plugins.discovery import Installed, converter_groups, installed
from autofusion.plugins.records import PluginRecord, Status

VARIABLE = "AUTOFUSION_LOCK"
"""Environment variable: the lock to keep to."""
DEFAULT_NAME = "autofusion.lock"
FORMAT = 1
_HEAD = """\
# Written by 'autofusion lock'. Keep it under version control; 'autofusion --locked' and AUTOFUSION_LOCK keep to it.
# The tables 'fusion' and 'fusion.priorities' may be edited.
"""


@dataclass(frozen=True, slots=True)
class Pin:
    """One distribution. ``provides`` names its plugins (``rules:conv``), ``emits`` and ``implements`` fused kinds."""

    dist: str
    version: str
    digest: str
    provides: tuple[str, ...] = ()
    emits: Mapping[str, str] = field(default_factory=dict)
    implements: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lock:
    """``fusion`` is the table of settings (see ``runtime/config.py``), ``target`` the fields of a ``Target``."""

    core: str
    pins: tuple[Pin, ...]
    fusion: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    path: Path = Path(DEFAULT_NAME)

    @property
    def versions(self) -> dict[str, str]:
        """Distribution -> version."""
        return {pin.dist: pin.version for pin in self.pins}

    def pin(self, dist: str) -> Pin | None:
        """The entry of a distribution."""
        return next((p for p in self.pins if p.dist == canonicalize_name(dist)), None)

    def with_pin(self, pin: Pin) -> Lock:
        """The lock with another entry for that distribution."""
        others = [p for p in self.pins if p.dist != pin.dist]
        return replace(self, pins=tuple(sorted((*others, pin), key=lambda p: p.dist)))

    def differences(self) -> list[str]:
        """How this environment differs from the lock, each with what to do; empty if it does not."""
        found = []
        have = __version__
        if have != self.core:
            found.append(f"autofusion is {have}, the lock says {self.core}; pip install 'autofusion=={self.core}'")
        there: dict[str, list[Installed]] = {}
        for point in (*installed(), *installed(converter_groups())):
            there.setdefault(point.dist, []).append(point)
        for pin in self.pins:
            want = f"{pin.dist}=={pin.version}"
            points = there.get(pin.dist)
            accept = f"or accept what is installed: autofusion lock --upgrade {pin.dist} -o {self.path}"
            if not points:
                found.append(f"{pin.dist} {pin.version} is locked, but not installed; pip install '{want}'")
            elif points[0].version != pin.version:
                found.append(
                    f"{pin.dist} is {points[0].version}, the lock says {pin.version}; pip install '{want}', {accept}"
                )
            else:
                digest = content_digest(pin.dist)
                if digest != pin.digest:
                    found.append(
                        f"{pin.dist} {pin.version} has other content than was locked ({digest[:19]}, the lock says "
                        f"{pin.digest[:19]}): it was edited, or built again; pip install --force-reinstall --no-deps "
                        f"'{want}', {accept}"
                    )
        return found

    def require(self) -> None:
        """Raise PluginError, with all differences, unless this environment is what the lock says."""
        self._refuse(self.differences())

    def require_loaded(self, records: Iterable[PluginRecord]) -> None:
        """Raise PluginError if a plugin of a locked distribution is not loaded."""
        names = self.versions
        bad = [r for r in records if r.dist in names and r.status is not Status.LOADED]
        self._refuse([f"{r}" for r in bad])

    def _refuse(self, differences: list[str]) -> None:
        if differences:
            lines = "".join(f"\n  {line}" for line in differences)
            raise PluginError(f"this environment is not the one that '{self.path}' locks:{lines}")


# ---- files --------------------------------------------------------------------------------------------------------


def read(path: Path) -> Lock:
    """The lock at ``path``; raise PluginError (naming the file and the entry) if it is none."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"cannot read the lock '{path}': {error}; 'autofusion lock -o {path}' writes one") from error
    except tomllib.TOMLDecodeError as error:
        raise PluginError(f"the lock '{path}' is not a TOML file: {error}") from error
    known = ("format", "core", "pack", "fusion", "target")
    for key in data:
        if key not in known:
            raise PluginError(f"the lock '{path}' has an unknown entry '{key}'{nearest(key, known)}")
    if data.get("format") != FORMAT:
        raise PluginError(f"the lock '{path}' has format {data.get('format')!r}, expected {FORMAT}; write it again")
    try:
        pins = tuple(sorted((_pin(entry) for entry in data.get("pack", ())), key=lambda p: p.dist))
        core = data["core"]["version"]
    except (KeyError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise PluginError(f"the lock '{path}' is incomplete ({said}); write it again") from error
    return Lock(core, pins, data.get("fusion", {}), data.get("target", {}), path)


def _pin(entry: Mapping[str, Any]) -> Pin:
    return Pin(
        canonicalize_name(entry["dist"]),
        str(entry["version"]),
        str(entry["digest"]),
        tuple(entry.get("provides", ())),
        dict(entry.get("emits", {})),
        dict(entry.get("implements", {})),
    )


def to_text(lock: Lock) -> str:
    """The lock as TOML, in an order that depends on its content only."""
    packs = []
    for pin in sorted(lock.pins, key=lambda p: p.dist):
        entry: dict[str, Any] = {"dist": pin.dist, "version": pin.version, "digest": pin.digest}
        entry["provides"] = sorted(pin.provides)
        kinds = {"emits": _ordered(pin.emits), "implements": _ordered(pin.implements)}
        packs.append(entry | {name: table for name, table in kinds.items() if table})
    data: dict[str, Any] = {"format": FORMAT, "core": {"version": lock.core}, "pack": packs}
    data |= {name: _ordered(table) for name, table in (("fusion", lock.fusion), ("target", lock.target)) if table}
    return _HEAD + tomli_w.dumps(data)


def _ordered(table: Mapping[str, Any]) -> dict[str, Any]:
    """By name, plain values before tables, as TOML has them."""
    names = sorted(table, key=lambda name: (isinstance(table[name], Mapping), name))
    return {name: _ordered(table[name]) if isinstance(table[name], Mapping) else table[name] for name in names}
