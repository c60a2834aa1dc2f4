"""The registry: what is installed, looked up by name, by file and by machine; built from discovery on first use.

Tests and embedding programs make one from explicit lists with ``Registry.of``, and then no entry point is looked at.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autofusion.errors import ModelError, OptionError, PluginError, nearest
from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.forks import RenewedLock
from autofusion.frontends import filetype
from autofusion.frontends.contract import Adviser, Frontend
from autofusion.hooks import CONVERTER_GROUP
from autofusion.kernels.contract import KernelPack
from autofusion.kernels.evaluation import reference_pack
from autofusion.kernels.target import Target
from autofusion.plugins.contents import faults
from autofusion.plugins.converters import InstalledConverters
from autofusion.plugins.discovery import Discovery, converter_groups, discover, report
from autofusion.plugins.hookspecs import GROUPS
from autofusion.plugins.lock import VARIABLE, Lock, read
from autofusion.plugins.records import LOG, PluginRecord, Status, describe
from autofusion.plugins.reserved import trespass
from autofusion.plugins.watchdog import limit, within
from autofusion.rules.rule import Rule, RulePack

_FRONTENDS, _RULES, _KERNELS = GROUPS

_SAVED_MODEL = "saved_model.pb"


class Registry:
    """Plugins by name, file and machine. Thread-safe; nothing is imported before it is asked for.

    ``pins`` (distribution -> version) leaves out every other plugin; ``lock`` also demands that they are there, with
    the very content that was locked. ``environ`` defaults to the process's environment.
    """

    def __init__(
        self,
        pins: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        lock: Lock | None = None,
    ) -> None:
        self._pins = pins if lock is None else lock.versions
        self._environ = environ
        self.lock_file = lock
        self._lock = RenewedLock()
        self._discovery: Discovery | None = None
        self._given: dict[str, list[Any]] | None = None
        self._made: dict[Any, list[Any]] = {}
        self._provided: dict[tuple[str, str], list[Any]] = {}
        self._groups: list[str] | None = None
        self._converters: dict[str, InstalledConverters] = {}

    @classmethod
    def of(
        cls,
        frontends: Iterable[Frontend] = (),
        rule_packs: Iterable[RulePack] = (),
        kernel_packs: Iterable[KernelPack] = (),
    ) -> Registry:
        """A registry of exactly these; raise PluginError if one breaks its contract or two share a name."""
        registry = cls()
        given: dict[str, list[Any]] = {
            _FRONTENDS: list(frontends),
            _RULES: list(rule_packs),
            _KERNELS: list(kernel_packs),
        }
        for group, items in given.items():
            problems = faults(group, items)
            if not problems:
                twice = [n for n, count in Counter(i.name for i in items).items() if count > 1]
                problems = [f"two of {group} have the name '{name}'" for name in twice]
            if problems:
                raise PluginError("; ".join(problems))
        registry._given = given
        return registry

    @property
    def frontends(self) -> list[Frontend]:
        """The loaded frontends, by name."""
        return self._contents(_FRONTENDS, None)

    @property
    def rule_packs(self) -> list[RulePack]:
        """The loaded rule packs, by name."""
        return self._contents(_RULES, None)

    def kernel_packs(self, target: Target) -> list[KernelPack]:
        """The loaded kernel packs that run on ``target``, by name."""
        return self._contents(_KERNELS, target)

    @property
    def records(self) -> list[PluginRecord]:
        """One record for every plugin, its contents checked; kernel packs are asked about this machine."""
        if self._given is not None:
            return []
        from autofusion.cost.detect import detect

        self._contents(_FRONTENDS, None)
        self._contents(_RULES, None)
        self._contents(_KERNELS, detect())
        return [*self._discovered().records, *self._added()]

    def _added(self) -> list[PluginRecord]:
        """One record for every operator converter that a package adds to a frontend; none is imported."""
        with self._lock:
            if self._groups is None:  # finding them reads the metadata of every distribution
                self._groups = [group.removeprefix(CONVERTER_GROUP) for group in converter_groups()]
            found = [self.converters(name) for name in self._groups]
        return [r for converters in found if converters is not None for r in converters.records]

    def converters(self, frontend: str) -> InstalledConverters | None:
        """What installed packages add to the frontend called ``frontend``; None for a registry of explicit lists."""
        if self._given is not None:
            return None
        with self._lock:
            if frontend not in self._converters:
                self._converters[frontend] = InstalledConverters(frontend, self._environ, self._pins)
            return self._converters[frontend]

    def provided(self, group: str, plugin: str) -> list[Any]:
        """What the plugin (the name of an entry point of ``group``) provides on this machine; empty if not loaded."""
        if self._given is None and not any(r.group == group and r.status is Status.LOADED for r in self.records):
            return []
        return list(self._provided.get((group, plugin), ()))

    def module(self, group: str, plugin: str) -> Any:
        """The module that the entry point ``plugin`` of ``group`` names; None if it is not loaded."""
        return None if self._given is not None else self._discovered().managers[group].get_plugin(plugin)

    def reference_pack(self, target: Target) -> KernelPack:
        """The reference kernels; raise PluginError if there are none."""
        return reference_pack(self.kernel_packs(target), self._not_loaded(_KERNELS))

    def without_fast_kernels(self, target: Target) -> str:
        """Why models would run by the reference kernels alone, as a sentence; empty if there is a fast kernel pack."""
        if self._given is not None or any(not pack.is_reference for pack in self.kernel_packs(target)):
            return ""
        return (
            "no kernel pack but the reference kernels is loaded, so that every model runs a hundred times slower or "
            f"more; install autofusion-kernels-cpu{self._not_loaded(_KERNELS)}"
        )

    def frontend(self, name: str) -> Frontend:
        """The frontend called ``name``; raise PluginError if it is not loaded."""
        for frontend in self.frontends:
            if frontend.name == name:
                return frontend
        raise PluginError(
            f"no frontend '{name}' is loaded; install autofusion-frontend-{name}"
            + nearest(name, [f.name for f in self.frontends])
            + self._not_loaded(_FRONTENDS)
        )

    def frontend_for(self, path: Path) -> Frontend:
        """The frontend that reads the model at ``path``: by what is in it, then by its suffix.

        Raises ModelError if there is no such file, or if no loaded frontend, or more than one, would read it.
        """
        if not path.exists():
            raise ModelError(f"there is no model '{path}'")
        certain = [f for f in self.frontends if _recognises(f, path)]
        likely = [f for f in self.frontends if any(path.name.lower().endswith(s.lower()) for s in f.suffixes)]
        both = [f for f in certain if f in likely]
        for candidates in (certain, both, likely):
            if len(candidates) == 1 and (candidates is not likely or not certain):
                return candidates[0]
        if certain:
            names = " and ".join(f.name for f in certain)
            raise ModelError(f"'{path}' looks like a model of {names}; give it the suffix of one of them")
        raise ModelError(self._unknown_kind(path, likely))

    def rule(self, name: str) -> Rule:
        """The rule called ``name`` (``conv.epilogue``); raise OptionError, with the nearest names, if there is none."""
        rules: dict[str, Rule] = {rule.name: rule for pack in self.rule_packs for rule in pack.rules}
        if name not in rules:
            raise OptionError(f"unknown rule '{name}'{nearest(name, rules)}{self._not_loaded(_RULES)}")
        return rules[name]

    # ---- inside --------------------------------------------------------------------------------------------

    def _discovered(self) -> Discovery:
        with self._lock:
            if self._discovery is None:
                if self.lock_file is not None:
                    self.lock_file.require()
                self._discovery = discover(self._pins, self._environ)
                if self.lock_file is not None:
                    self.lock_file.require_loaded(self._discovery.records)
            return self._discovery

    def _contents(self, group: str, target: Target | None) -> list[Any]:
        if self._given is not None:
            return list(self._given[group])
        with self._lock:
            if (group, target) not in self._made:
                self._made[group, target] = self._call_hooks(group, target)
            return list(self._made[group, target])

    def _call_hooks(self, group: str, target: Target | None) -> list[Any]:
        """What each loaded plugin of ``group`` provides. A plugin that fails here is failed as a whole."""
        discovery = self._discovered()
        manager = discovery.managers[group]
        arguments = {} if target is None else {"target": target}
        provided: dict[str, list[Any]] = {}
        failed: dict[str, tuple[Status, str]] = {}
        dists = {r.name: r.dist for r in discovery.records if r.group == group and r.status is Status.LOADED}
        names = sorted(name for name, module in manager.list_name_plugin() if module is not None)
        for name in names:
            others = [module for n, module in manager.list_name_plugin() if n != name and module is not None]
            try:
                # One plugin at a time, since a hook that raises ends the call for all.
                hook = functools.partial(manager.subset_hook_caller(GROUPS[group], others), **arguments)
                results = within(limit(self._environ), hook)
                returned: Any = results[0] if results else None
                problems = faults(group, returned)
                taken = "" if problems else trespass(group, dists[name], [item.name for item in returned])
                if taken:
                    failed[name] = Status.CONFLICT, taken
                elif problems:
                    failed[name] = Status.FAILED, "; ".join(problems)
                else:
                    provided[name] = list(returned)
            except PLUGIN_FAULTS as error:
                require_own(error)
                failed[name] = Status.FAILED, describe(error)
        failed |= _clashes(provided)
        versions = {r.name: r.version for r in discovery.records if r.group == group and r.status is Status.LOADED}
        for name, items in provided.items():
            for item in items:
                if item.version != versions[name]:
                    said = f"'{item.name}' says that it is version {item.version}, its distribution {versions[name]}"
                    LOG.warning("plugin '%s': %s; ledgers name the first, locks the second", name, said)
        self._provided |= {(group, name): items for name, items in provided.items() if name not in failed}
        self._fail(group, failed)
        self._require_locked_kinds(group)
        return [item for name in names if name not in failed for item in provided[name]]

    def _fail(self, group: str, failed: Mapping[str, tuple[Status, str]]) -> None:
        discovery = self._discovered()
        changed = []
        for index, record in enumerate(discovery.records):
            if record.group == group and record.name in failed and record.status is Status.LOADED:
                discovery.records[index] = record.ended(*failed[record.name])
                changed.append(discovery.records[index])
        for record in changed:
            discovery.managers[group].unregister(name=record.name)
        report(changed, self._environ)
        if self.lock_file is not None:
            self.lock_file.require_loaded(changed)

    def _require_locked_kinds(self, group: str) -> None:
        """What packs say of fused kinds must be what the lock says: kernels are chosen by it."""
        if self.lock_file is None or group == _FRONTENDS:
            return
        for record in self._discovered().records:
            items = self._provided.get((group, record.name), ()) if record.group == group else ()
            kinds = {kind.name: kind.version for item in items for kind in item.kinds}
            emits, implements = (kinds, {}) if group == _RULES else ({}, kinds)
            self.lock_file.require_kinds(record.dist, emits, implements)

    def _not_loaded(self, group: str) -> str:
        """A sentence on installed plugins of ``group`` that are not loaded: the likely cause of whatever is missing."""
        if self._given is not None:
            return ""
        bad = [r for r in self._discovered().records if r.group in (group, "-") and r.status is not Status.LOADED]
        return "".join(f". Not loaded: {record}" for record in bad)

    def _unknown_kind(self, path: Path, likely: Sequence[Frontend]) -> str:
        """The message about a file that no frontend recognises: what it is, and what to do, as far as anyone knows."""
        advice = _advice(self.frontends, path)
        if advice:
            return f"'{path}' cannot be read: it is {advice}"
        if likely:
            names = " nor ".join(f.name for f in likely)
            return f"'{path}' is not recognised, neither by {names}: is the file damaged?"
        if path.is_dir():
            saved = (path / _SAVED_MODEL).exists()
            text = f"no loaded frontend reads the folder '{path}'"
            text += "" if saved else f", which has no '{_SAVED_MODEL}' either"
        else:
            kind = f"{path.suffix!r} file" if path.suffix else "file without a suffix"
            text = f"no loaded frontend reads '{path}' (a {kind})"
            text += f"; it is {filetype.describe(filetype.head(path))}"
        loaded = {f"autofusion-frontend-{f.name}" for f in self.frontends}
        readers = [r for r in filetype.readers(path) if r not in loaded]
        text += f"; install {' or '.join(readers)}" if readers else ""
        found = ", ".join(f"{f.name} ({' '.join(f.suffixes)})" for f in self.frontends) or "none"
        return f"{text}. Loaded frontends: {found}" + self._not_loaded(_FRONTENDS)


def _recognises(frontend: Frontend, path: Path) -> bool:
    try:
        return frontend.recognises(path)
    except PLUGIN_FAULTS as error:  # it must not raise; a file that one frontend chokes on may still be another's
        require_own(error)
        return False


def _advice(frontends: Sequence[Frontend], path: Path) -> str | None:
    for frontend in frontends:
        try:
            advice = frontend.advise(path) if isinstance(frontend, Adviser) else None
        except PLUGIN_FAULTS as error:  # an error about the file is on its way already
            require_own(error)
            continue
        if advice:
            return advice
    return None


def _clashes(provided: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Status, str]]:
    """Plugins that provide a pack name which another one provides too: as with entry points, neither stays."""
    owners: dict[str, list[str]] = {}
    for plugin, items in provided.items():
        for item in items:
            owners.setdefault(item.name, []).append(plugin)
    found: dict[str, tuple[Status, str]] = {}
    for name, plugins in owners.items():
        if len(plugins) > 1:
            detail = f"a pack called '{name}' is provided by the plugins {' and '.join(plugins)}; uninstall all but one"
            found |= {plugin: (Status.CONFLICT, detail) for plugin in plugins}
    return found


def default_registry() -> Registry:
    """The registry of this environment; it keeps to the lock that ``AUTOFUSION_LOCK`` names, if any.

    Raises PluginError if that file is not a lock.
    """
    return registry_for(os.environ.get(VARIABLE))


def registry_for(lock: str | os.PathLike[str] | None) -> Registry:
    """The registry that keeps to the lock at this path (None: to no lock), made once for each content of the file.

    Raises PluginError if the file is not a lock.
    """
    if not lock:
        return _registry("", "")
    path = Path(lock).resolve()
    try:
        return _registry(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return Registry(lock=read(path))  # says what is wrong


@functools.lru_cache(maxsize=8)
def _registry(path: str, content: str) -> Registry:
    return Registry(lock=read(Path(path)) if path else None)
