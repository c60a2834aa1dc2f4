"""The lock: which packs a deployment runs, to the byte, with its rule switches and the machine it was planned for.

A lock does not install anything. It says what must be there, and an environment that differs in any way is refused
before the first model is read, with a line for each difference and what to do about it.
"""

from __future__ import annotations

import importlib.metadata as metadata
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autofusion.errors import OptionError, PluginError, nearest
from autofusion.plugins.digest import content_digest
from autofusion.plugins.discovery import canonical_name, converter_groups, installed
from autofusion.plugins.records import PluginRecord, Status

VARIABLE = "AUTOFUSION_LOCK"
"""Environment variable: the lock to keep to."""
DEFAULT_NAME = "autofusion.lock"
FORMAT = 2
CORE = "autofusion"
"""The core's own distribution, which is locked like a pack."""
_HEAD = """\
# Written by 'autofusion lock'. Keep it under version control; 'autofusion --locked' and AUTOFUSION_LOCK keep to it.
# The tables 'fusion' and 'fusion.priorities' may be edited.
"""


@dataclass(frozen=True, slots=True)
class Pin:
    """One distribution, the core among them.

    ``provides`` names its plugins (``rules:conv``), ``emits`` and ``implements`` fused kinds, ``requires`` the versions
    of the other projects' distributions that it stands on (numpy, llvmlite), which shape its results as well.
    """

    dist: str
    version: str
    digest: str
    provides: tuple[str, ...] = ()
    emits: Mapping[str, str] = field(default_factory=dict)
    implements: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lock:
    """``fusion`` is the table of settings (see ``autofusion.Options``), ``target`` the fields of a ``Target``."""

    pins: tuple[Pin, ...]
    fusion: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    path: Path = Path(DEFAULT_NAME)

    @property
    def versions(self) -> dict[str, str]:
        """Distribution -> version, of the packs."""
        return {pin.dist: pin.version for pin in self.pins if pin.dist != CORE}

    def pin(self, dist: str) -> Pin | None:
        """The entry of a distribution."""
        return next((p for p in self.pins if p.dist == canonical_name(dist)), None)

    def with_pin(self, pin: Pin) -> Lock:
        """The lock with another entry for that distribution."""
        others = [p for p in self.pins if p.dist != pin.dist]
        return replace(self, pins=tuple(sorted((*others, pin), key=lambda p: p.dist)))

    def without(self, dist: str) -> Lock:
        """The lock without a distribution; raise OptionError if it does not name it."""
        if self.pin(dist) is None or canonical_name(dist) == CORE:
            raise OptionError(f"the lock '{self.path}' has no pack '{dist}' to remove{nearest(dist, self.versions)}")
        return replace(self, pins=tuple(p for p in self.pins if p.dist != canonical_name(dist)))

    def differences(self) -> list[str]:
        """How this environment differs from the lock, each with what to do; empty if it does not."""
        plugins: dict[str, list[str]] = {}
        for point in (*installed(), *installed(converter_groups())):
            plugins.setdefault(point.dist, []).append(provided(point.record))
        return [said for pin in self.pins for said in self._differs(pin, sorted(plugins.get(pin.dist, ())))]

    def _differs(self, pin: Pin, plugins: list[str]) -> Iterator[str]:
        want = f"{pin.dist}=={pin.version}"
        accept = f"or accept what is installed: autofusion lock --upgrade {pin.dist} -o {self.path}"
        try:
            have = metadata.version(pin.dist)
        except metadata.PackageNotFoundError:
            remove = "" if pin.dist == CORE else f", or take it out: autofusion lock --remove {pin.dist} -o {self.path}"
            yield f"{pin.dist} {pin.version} is locked, but not installed; pip install '{want}'{remove}"
            return
        if have != pin.version:
            yield f"{pin.dist} is {have}, the lock says {pin.version}; pip install '{want}', {accept}"
            return
        digest = content_digest(pin.dist)
        if digest != pin.digest:
            yield (
                f"{pin.dist} {pin.version} has other content than was locked ({digest[:19]}, the lock says "
                f"{pin.digest[:19]}): it was edited, or built again; pip install --force-reinstall --no-deps "
                f"'{want}', {accept}"
            )
        elif plugins != sorted(pin.provides):
            there, said = ", ".join(plugins) or "nothing", ", ".join(sorted(pin.provides)) or "nothing"
            yield f"{pin.dist} provides {there}, the lock says {said}: write it again, {accept}"
        for name, version in pin.requires.items():
            found = _version(name)
            if found != version:
                is_ = f"is {found}" if found else "is not installed"
                said = f"{name}, which {pin.dist} stands on, {is_}, the lock says {version}"
                yield f"{said}; pip install '{name}=={version}', {accept}"

    def require_kinds(self, dist: str, emits: Mapping[str, str], implements: Mapping[str, str]) -> None:
        """Raise PluginError unless a locked distribution's plugin states the fused kinds that the lock says."""
        pin = self.pin(dist)
        if pin is None:
            return
        wrong = []
        for what, have, said in (("emits", emits, pin.emits), ("implements", implements, pin.implements)):
            wrong += [
                f"{dist} {what} kind '{kind}' in version {have[kind]}, the lock says {said.get(kind, 'nothing of it')}"
                for kind in have
                if said.get(kind) != have[kind]
            ]
        self._refuse([f"{each}; write it again: autofusion lock --upgrade {dist} -o {self.path}" for each in wrong])

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


def provided(record: PluginRecord) -> str:
    """How a lock names a plugin: ``rules:conv``."""
    return f"{record.group.removeprefix('autofusion.')}:{record.name}"


def requirements(dist: str) -> dict[str, str]:
    """Versions of what the distribution requires outright (no extras) of other projects, as installed."""
    from packaging.requirements import Requirement

    found = {}
    for text in metadata.requires(dist) or ():
        requirement = Requirement(text)
        name = canonical_name(requirement.name)
        extra = requirement.marker is not None and "extra" in str(requirement.marker)
        if extra or name == CORE or name.startswith(f"{CORE}-"):
            continue
        version = _version(name)
        if version:
            found[name] = version
    return dict(sorted(found.items()))


def _version(dist: str) -> str:
    try:
        return metadata.version(dist)
    except metadata.PackageNotFoundError:
        return ""


# ---- files --------------------------------------------------------------------------------------------------------


def read(path: Path) -> Lock:
    """The lock at ``path``; raise PluginError (naming the file and the entry) if it is none."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"cannot read the lock '{path}': {error}; 'autofusion lock -o {path}' writes one") from error
    except tomllib.TOMLDecodeError as error:
        raise PluginError(f"the lock '{path}' is not a TOML file: {error}") from error
    known = ("format", "pack", "fusion", "target")
    for key in data:
        if key not in known:
            raise PluginError(f"the lock '{path}' has an unknown entry '{key}'{nearest(key, known)}")
    if data.get("format") != FORMAT:
        raise PluginError(f"the lock '{path}' has format {data.get('format')!r}, expected {FORMAT}; write it again")
    try:
        pins = tuple(sorted((_pin(entry) for entry in data.get("pack", ())), key=lambda p: p.dist))
    except (KeyError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise PluginError(f"the lock '{path}' is incomplete ({said}); write it again") from error
    return Lock(pins, data.get("fusion", {}), data.get("target", {}), path)


def _pin(entry: Mapping[str, Any]) -> Pin:
    return Pin(
        canonical_name(entry["dist"]),
        str(entry["version"]),
        str(entry["digest"]),
        tuple(entry.get("provides", ())),
        dict(entry.get("emits", {})),
        dict(entry.get("implements", {})),
        dict(entry.get("requires", {})),
    )


def to_text(lock: Lock) -> str:
    """The lock as TOML, in an order that depends on its content only."""
    import tomli_w

    packs = []
    for pin in sorted(lock.pins, key=lambda p: p.dist):
        entry: dict[str, Any] = {"dist": pin.dist, "version": pin.version, "digest": pin.digest}
        entry["provides"] = sorted(pin.provides)
        tables = {name: _ordered(getattr(pin, name)) for name in ("emits", "implements", "requires")}
        packs.append(entry | {name: table for name, table in tables.items() if table})
    data: dict[str, Any] = {"format": FORMAT, "pack": packs}
    data |= {name: _ordered(table) for name, table in (("fusion", lock.fusion), ("target", lock.target)) if table}
    return _HEAD + tomli_w.dumps(data)


def _ordered(table: Mapping[str, Any]) -> dict[str, Any]:
    """By name, plain values before tables, as TOML has them."""
    names = sorted(table, key=lambda name: (isinstance(table[name], Mapping), name))
    return {name: _ordered(table[name]) if isinstance(table[name], Mapping) else table[name] for name in names}
