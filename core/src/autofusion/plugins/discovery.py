"""Find and load plugins, one entry point at a time, so that a broken one never stops the rest.

The order matters. What the lock does not pin is left out first, so that pinning resolves name conflicts. Conflicts come
next, since neither side may load. Requirements are checked from metadata, before anything of the plugin is imported.
Only then the module is imported and its hooks are checked against the specifications.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.metadata as metadata
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pluggy

from autofusion._version import __version__
from autofusion.errors import PluginError, nearest
from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.hooks import CONVERTER_GROUP, PROJECT
from autofusion.plugins import hookspecs
from autofusion.plugins.records import LOG, PluginRecord, Status, describe
from autofusion.plugins.reserved import trespass
from autofusion.plugins.watchdog import limit, within
from autofusion.refusal import Refusal

SUBSET = "AUTOFUSION_PLUGINS"
"""Environment variable: comma-separated plugin or distribution names to load; empty for none."""
STRICT = "AUTOFUSION_STRICT"
"""Environment variable: ``1`` makes any plugin that is not loaded an error."""


@dataclass(frozen=True, slots=True)
class Installed:
    """One entry point as installed: what its metadata says, before anything is imported."""

    group: str
    name: str
    dist: str
    version: str
    requires: tuple[str, ...]
    entry_point: metadata.EntryPoint

    @property
    def record(self) -> PluginRecord:
        """The record that says ``loaded``; ``PluginRecord.ended`` makes the others."""
        return PluginRecord(self.group, self.name, self.dist, self.version, Status.LOADED)


@dataclass(slots=True)
class Discovery:
    """All records, in order of group and name, and a plugin manager for each group with its loaded modules."""

    records: list[PluginRecord] = field(default_factory=list)
    managers: dict[str, pluggy.PluginManager] = field(default_factory=dict)


def installed(groups: Iterable[str] = tuple(hookspecs.GROUPS)) -> list[Installed]:
    """Every plugin entry point of this environment, sorted; nothing is imported."""
    found = []
    points = metadata.entry_points()  # reads every distribution, so once for all groups
    for group in groups:
        for point in points.select(group=group):
            data = point.dist.metadata if point.dist else None  # parsed anew each time that it is asked for
            name, version = (data["Name"], data["Version"]) if data else ("", "")
            requires = tuple(data.get_all("Requires-Dist") or ()) if data else ()
            dist = canonical_name(name or "unknown")
            found.append(Installed(group, point.name, dist, version or "unknown", requires, point))
    return sorted(found, key=lambda p: (p.group, p.name, p.dist))


def converter_groups() -> list[str]:
    """The groups of operator converters that this environment has entry points of, one a frontend."""
    return sorted(group for group in metadata.entry_points().groups if group.startswith(CONVERTER_GROUP))


def discover(pins: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Discovery:
    """Load every plugin that may be loaded.

    ``pins`` (distribution -> version, from a lock) leaves out whatever it does not name. ``environ`` defaults to the
    process's. Raises PluginError only under ``AUTOFUSION_STRICT=1``; otherwise failures are records and log lines.
    """
    environ = os.environ if environ is None else environ
    records: list[PluginRecord] = []
    plugins = selected(installed(), environ.get(SUBSET), records)
    plugins = pinned(plugins, pins, records)
    records += _missing(plugins, pins)
    plugins = without_conflicts(plugins, records)
    result = Discovery(managers={group: _manager() for group in hookspecs.GROUPS})
    for plugin in plugins:
        refusal = incompatible(plugin.requires, __version__)
        if refusal is not None:
            records.append(plugin.record.ended(Status.INCOMPATIBLE, refusal.reason))
            continue
        records.append(_load(plugin, result.managers[plugin.group], limit(environ)))
    result.records = sorted(records, key=lambda r: (r.group, r.name, r.dist))
    report(result.records, environ)
    return result


def report(records: Iterable[PluginRecord], environ: Mapping[str, str] | None = None) -> None:
    """Log one warning for each plugin that is not loaded; raise PluginError instead under ``AUTOFUSION_STRICT=1``."""
    environ = os.environ if environ is None else environ
    bad = [r for r in records if r.status is not Status.LOADED]
    if bad and environ.get(STRICT, "") not in ("", "0"):
        lines = "\n".join(f"  {r}" for r in bad)
        raise PluginError(f"{STRICT} is set and these plugins are not loaded; repair or uninstall them:\n{lines}")
    for record in bad:
        LOG.warning("plugin not loaded: %s", record)


def selected(plugins: list[Installed], subset: str | None, records: list[PluginRecord]) -> list[Installed]:
    """The plugins that AUTOFUSION_PLUGINS names, by plugin or distribution name; all if it is not set.

    A name that no plugin or converter of this environment has is recorded as missing.
    """
    if subset is None:
        return plugins
    names = {n.strip() for n in subset.split(",") if n.strip()}
    known = {n for p in (*plugins, *installed(converter_groups())) for n in (p.name, p.dist)}
    for name in sorted(names - known):
        records.append(PluginRecord("-", name, "-", "-", Status.MISSING, f"named by {SUBSET}, but not installed"))
    return [p for p in plugins if p.name in names or p.dist in names]


def pinned(plugins: list[Installed], pins: Mapping[str, str] | None, records: list[PluginRecord]) -> list[Installed]:
    """The plugins whose distribution ``pins`` names in this version; all if there are none."""
    if pins is None:
        return plugins
    wanted = {canonical_name(dist): version for dist, version in pins.items()}
    kept = []
    for plugin in plugins:
        version = wanted.get(canonical_name(plugin.dist))
        if version == plugin.version:
            kept.append(plugin)
        else:
            detail = f"the lock says {version}" if version else "the lock does not name it"
            records.append(plugin.record.ended(Status.UNPINNED, detail))
    return kept


def _missing(kept: list[Installed], pins: Mapping[str, str] | None) -> list[PluginRecord]:
    """A record for each pinned distribution that provides nothing here, not even a converter."""
    if not pins:
        return []
    wanted: dict[str, str] = {canonical_name(dist): version for dist, version in pins.items()}
    there: set[str] = {canonical_name(p.dist) for p in kept}
    there |= {p.dist for p in installed(converter_groups()) if wanted.get(p.dist) == p.version}
    detail = "pinned by the lock, not installed in that version"
    return [
        PluginRecord("-", "-", dist, version, Status.MISSING, detail)
        for dist, version in sorted(wanted.items())
        if dist not in there
    ]


def without_conflicts(plugins: list[Installed], records: list[PluginRecord]) -> list[Installed]:
    """Leave out every plugin whose name is provided more than once: choosing one would let an intruder take a name.

    Names of this project's distributions are theirs, so that nobody can switch them off by taking one.
    """
    trespassing = {plugin: trespass(plugin.group, plugin.dist, [plugin.name]) for plugin in plugins}
    records += [p.record.ended(Status.CONFLICT, said) for p, said in trespassing.items() if said]
    plugins = [plugin for plugin, said in trespassing.items() if not said]
    providers: defaultdict[tuple[str, str], list[Installed]] = defaultdict(list)
    for plugin in plugins:
        providers[plugin.group, plugin.name].append(plugin)
    kept = []
    for plugin in plugins:
        rivals = providers[plugin.group, plugin.name]
        if len(rivals) == 1:
            kept.append(plugin)
            continue
        names = " and ".join(r.dist for r in rivals)
        detail = f"'{plugin.name}' is provided by {names}; uninstall all but one, or pin one in a lock"
        records.append(plugin.record.ended(Status.CONFLICT, detail))
    return kept


def canonical_name(name: str) -> str:
    """The one spelling of a distribution's name (PEP 503)."""
    return re.sub("[-_.]+", "-", name).lower()


_RANGE = r"(?:>=|<) *\d+(?:\.\d+)*(?:, *(?=[<>])|(?= *;|$))"
_PLAIN = re.compile(rf"([\w.-]+) *((?:{_RANGE})*)( *; *extra == ['\"][\w.-]+['\"])?")


def incompatible(requires: Iterable[str], version: str) -> Refusal | None:
    """Why a distribution with these requirements does not go with core ``version``, or None if it does."""
    requires = list(requires)
    if _plainly_compatible(requires, version):
        return None
    from packaging.requirements import InvalidRequirement, Requirement  # takes as long as reading a small model

    stated = False
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            return Refusal(f"its requirement '{text}' cannot be read: {error}")
        if canonical_name(requirement.name) != "autofusion":
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        stated = True
        if not requirement.specifier.contains(version, prereleases=True):
            return Refusal(f"needs autofusion{requirement.specifier}, found {version}")
    if not stated:
        hint = f"its author should require a range that holds {version}"
        return Refusal(f"does not say which autofusion it needs; {hint}")
    return None


def _plainly_compatible(requires: Iterable[str], version: str) -> bool:
    """True if all requirements are ranges of plain releases, as nearly all are, and that of the core holds."""
    plain = [_PLAIN.fullmatch(text) for text in requires]
    if not re.fullmatch(r"\d+(\.\d+)*", version) or not all(plain):
        return False
    ranges = [match[2] for match in plain if match and not match[3] and canonical_name(match[1]) == "autofusion"]
    limits = [limit for text in ranges for limit in re.findall(r"(>=|<) *([\d.]+)", text)]
    found = _release(version)
    return bool(ranges) and all((found >= _release(limit)) == (sign == ">=") for sign, limit in limits)


def _release(version: str) -> list[int]:
    numbers = [int(number) for number in version.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


@contextlib.contextmanager
def _crash_is_told() -> Iterator[None]:
    """If native code of a plugin ends the process, the interpreter says on the error stream which line it was."""
    ours = not faulthandler.is_enabled()
    with contextlib.suppress(OSError, ValueError, AttributeError):  # an error stream that is not a file
        if ours:
            faulthandler.enable(sys.__stderr__ or 2)
    try:
        yield
    finally:
        if ours:
            faulthandler.disable()


def unread() -> list[PluginRecord]:
    """A record for every entry point in a group that begins with ``autofusion.`` and that nothing reads: a typo."""
    groups = [g for g in metadata.entry_points().groups if g.startswith("autofusion.") and g not in hookspecs.GROUPS]
    return [
        point.record.ended(Status.FAILED, f"nothing reads this group{nearest(point.group, hookspecs.GROUPS)}")
        for point in installed(g for g in groups if not g.startswith(CONVERTER_GROUP))
    ]


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _load(plugin: Installed, manager: pluggy.PluginManager, seconds: float) -> PluginRecord:
    """Import and register one plugin; whatever it does wrong ends in its record."""
    hook = hookspecs.GROUPS[plugin.group]
    try:
        with _crash_is_told():
            module = within(seconds, plugin.entry_point.load)
        manager.register(module, plugin.name)
        manager.check_pending()  # a hook that no specification knows: most likely misspelt
    except PLUGIN_FAULTS as error:
        require_own(error)
        detail = describe(error)
    else:
        if any(impl.plugin_name == plugin.name for impl in getattr(manager.hook, hook).get_hookimpls()):
            return plugin.record
        detail = f"'{plugin.entry_point.value}' implements no hook '{hook}'"
    if manager.has_plugin(plugin.name):  # also after a failed register, which may leave hooks active
        manager.unregister(name=plugin.name)
    return plugin.record.ended(Status.FAILED, detail)
