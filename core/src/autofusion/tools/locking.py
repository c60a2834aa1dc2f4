"""Make locks from what is installed, renew them, and say what changed."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata as metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autofusion.cost.store import current
from autofusion.errors import OptionError, PluginError, nearest
from autofusion.files import write_text
from autofusion.fusion.rule_switches import Switches
from autofusion.options import SETTINGS, Options, merge, plain, state
from autofusion.plugins.digest import content_digest
from autofusion.plugins.discovery import canonical_name
from autofusion.plugins.lock import CORE, Lock, Pin, provided, read, requirements, to_text
from autofusion.plugins.records import Status
from autofusion.plugins.registry import Registry
from autofusion.runtime.config import read_settings


def write(
    path: Path,
    upgrade: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    remove: Sequence[str] = (),
) -> tuple[Lock, list[str]]:
    """Write the lock at ``path``; return it, and what changed in it, as sentences.

    ``upgrade`` names distributions to take over alone (``autofusion`` is the core), ``remove`` some to take out.
    ``settings`` are those of ``autofusion.compile``; where they say
    nothing, an existing lock's stay. Raises PluginError if an installed pack does not load: a lock of a broken
    environment would be one that nobody can keep to.
    """
    old = read(path) if path.exists() else None
    if (upgrade or remove) and old is None:
        raise PluginError(f"there is no lock '{path}' to change; 'autofusion lock -o {path}' writes one")
    registry = Registry()
    found = {pin.dist: pin for pin in _pins(registry)}
    if upgrade or remove:
        assert old is not None
        lock = old
        for name in remove:
            lock = lock.without(name)
        for name in upgrade:
            dist = canonical_name(name)
            if dist not in found:
                raise OptionError(f"no pack '{name}' is installed{nearest(name, found)}")
            lock = lock.with_pin(found[dist])
        lock = dataclasses.replace(lock, path=path)
    else:
        pins = tuple(found[dist] for dist in sorted(found))
        fusion = _fusion(registry, settings or {}, old)
        lock = Lock(pins, fusion, dataclasses.asdict(current()), path)
    text = to_text(lock)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return lock, changes(old, lock)


def _pins(registry: Registry) -> list[Pin]:
    bad = [str(r) for r in registry.records if r.status is not Status.LOADED]
    if bad:
        lines = "".join(f"\n  {line}" for line in bad)
        raise PluginError(f"packs that do not load cannot be locked; repair or uninstall them:{lines}")
    pins = {CORE: _pin(CORE)}
    for record in registry.records:
        pin = pins.get(record.dist) or _pin(record.dist)
        provides = (*pin.provides, provided(record))
        emits, implements = dict(pin.emits), dict(pin.implements)
        for item in registry.provided(record.group, record.name):
            if record.group == "autofusion.rules":
                emits |= {kind.name: kind.version for kind in item.kinds}
            if record.group == "autofusion.kernels":
                implements |= {kind.name: kind.version for kind in item.kinds}
        pins[record.dist] = dataclasses.replace(pin, provides=provides, emits=emits, implements=implements)
    return list(pins.values())


def _pin(dist: str) -> Pin:
    return Pin(dist, metadata.version(dist), content_digest(dist), requires=requirements(dist))


def _fusion(registry: Registry, settings: Mapping[str, Any], old: Lock | None) -> dict[str, Any]:
    """The table of settings, checked against the rules that there are."""
    stated = state({k: v for k, v in settings.items() if k in SETTINGS})
    made = plain(merge(read_settings(settings.get("config"), registry.rule_packs), stated))
    table: dict[str, Any] = {**(old.fusion if old is not None else {}), **made}
    Switches(registry.rule_packs, Options.of(state(table, "'fusion.{}' in the lock"))).rules()
    return table


def changes(old: Lock | None, new: Lock) -> list[str]:
    """What is in the new lock and was not in the old one, as sentences."""
    if old is None:
        return [f"{pin.dist} {pin.version}" for pin in new.pins]
    before, after = {p.dist: p for p in old.pins}, {p.dist: p for p in new.pins}
    told = []
    for dist in sorted(before.keys() | after.keys()):
        was, now = before.get(dist), after.get(dist)
        if was is None or now is None:
            told.append(f"{dist} {now.version} added" if now is not None else f"{dist} {was.version} removed")  # type: ignore[union-attr]
        elif was.version != now.version:
            told.append(f"{dist} {was.version} -> {now.version}")
        elif was.digest != now.digest:
            told.append(f"{dist} {now.version}: other content ({was.digest[:19]} -> {now.digest[:19]})")
        if was is not None and now is not None:
            moved = [n for n in now.requires if was.requires.get(n) != now.requires[n]]
            told += [f"{n}, for {dist}: {was.requires.get(n, 'nothing')} -> {now.requires[n]}" for n in sorted(moved)]
    if dict(old.fusion) != dict(new.fusion):
        told.append("rule switches and priorities changed")
    if dict(old.target) != dict(new.target):
        told.append("the machine changed")
    return told


def requirements_file(lock: Lock, wheels: Path) -> str:
    """A requirements file with hashes of everything that ``lock`` pins, for ``pip install --require-hashes -r``.

    ``wheels`` is a folder with the archives to install (as ``pip download`` and ``uv build`` fill it); their hashes are
    taken. Raises OptionError, naming all that lack, if it does not have every distribution in its locked version.
    """
    wanted: dict[str, str] = {}
    for pin in lock.pins:
        wanted |= {pin.dist: pin.version, **pin.requires}
    found: dict[str, list[str]] = {}
    for file in sorted(wheels.iterdir()) if wheels.is_dir() else ():
        parts = file.name.removesuffix(".tar.gz").removesuffix(".whl").split("-")
        if len(parts) >= 2 and file.suffix in (".whl", ".gz"):
            key = f"{canonical_name(parts[0])}=={parts[1]}"
            found.setdefault(key, []).append(hashlib.sha256(file.read_bytes()).hexdigest())
    missing = [f"{name}=={version}" for name, version in wanted.items() if f"{name}=={version}" not in found]
    if missing:
        raise OptionError(
            f"folder '{wheels}' lacks {', '.join(sorted(missing))}; 'pip download -d {wheels} NAME==VERSION' fills it"
        )
    lines = []
    for name, version in sorted(wanted.items()):
        hashes = "".join(f" \\\n    --hash=sha256:{each}" for each in found[f"{name}=={version}"])
        lines.append(f"{name}=={version}{hashes}")
    return "\n".join(lines) + "\n"
