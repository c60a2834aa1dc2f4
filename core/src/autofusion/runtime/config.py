"""Settings in files: the ``[fusion]`` table of a TOML file, or a switch file as CANN users have it.

    [fusion]
    level = "full"
    threads = 2
    disable = ["conv.epilogue"]
    disable_sites = ["conv1", "pointwise.region:relu7"]
    disable_kernels = ["cpu:conv.winograd@conv1"]
    memory_budget = 64_000_000
    numerics = "reassociated"
    switch_file = "fusion_switch.cfg"

    [fusion.priorities]
    "conv.activation" = "early"         # a band (first, early, normal, late, last), early+5, or a number

    [switch_names]
    OurOwnFusionPass = ["pointwise.region"]

Other tables belong to other tools and are left alone; a key of these two that is not known is an error. Environment
variables state the level, threads and numerics of every compilation whose arguments state none (``OVERRIDES``).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from autofusion.errors import OptionError, nearest
from autofusion.plugins.registry import Registry
from autofusion.rules.rule import RulePack
from autofusion.runtime.cann import PassNames, pass_names, read_switches

VARIABLE = "AUTOFUSION_CONFIG"
"""Environment variable: the settings file of every compilation that states none."""
OVERRIDES = {"level": "AUTOFUSION_LEVEL", "threads": "AUTOFUSION_THREADS", "numerics": "AUTOFUSION_NUMERICS"}
"""Environment variables, each in the place of one setting: they win over files, and arguments win over them."""
_KINDS: dict[str, tuple[type, ...]] = {
    "level": (str,),
    "threads": (int,),
    "only": (list,),
    "disable": (list,),
    "disable_sites": (list,),
    "disable_kernels": (list,),
    "only_sites": (list,),
    "priorities": (dict,),
    "memory_budget": (int,),
    "numerics": (str,),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a settings file, or the arguments of ``compile``, say; None and empty leave the default."""

    level: Any = None
    threads: int | None = None
    only: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    disable_sites: tuple[str, ...] = ()
    disable_kernels: tuple[str, ...] = ()
    priorities: Mapping[str, int | str] = field(default_factory=dict)
    memory_budget: int | None = None
    numerics: str | None = None
    only_sites: tuple[str, ...] | None = None

    def over(self, base: Settings) -> Settings:
        """These settings on top of ``base``: what is switched off adds up, anything else that is stated wins."""
        return Settings(
            self.level if self.level is not None else base.level,
            self.threads if self.threads is not None else base.threads,
            self.only or base.only,
            (*base.disable, *self.disable),
            (*base.disable_sites, *self.disable_sites),
            (*base.disable_kernels, *self.disable_kernels),
            {**base.priorities, **self.priorities},
            self.memory_budget if self.memory_budget is not None else base.memory_budget,
            self.numerics if self.numerics is not None else base.numerics,
            self.only_sites if self.only_sites is not None else base.only_sites,
        )


def read_settings(path: str | os.PathLike[str] | None, packs: Sequence[RulePack]) -> Settings:
    """The settings in the file at ``path``, by default the one that ``AUTOFUSION_CONFIG`` names, if it is set.

    Raises OptionError (naming the file, the key, what was expected and found) for whatever is wrong with it.
    """
    stated = path if path is not None else os.environ.get(VARIABLE)
    if not stated:
        return Settings()
    file = Path(stated)
    if file.suffix.lower() != ".toml":
        return Settings(disable=tuple(read_switches(_text(file), packs, origin=f"'{file}'")))
    try:
        data = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"'{file}' is no TOML file: {error}") from error
    return _settings(data, file, packs)


def environment_settings() -> Settings:
    """What the environment variables of ``OVERRIDES`` say; raise OptionError (naming the variable) for a bad number."""
    stated = {key: os.environ.get(name) or None for key, name in OVERRIDES.items()}
    try:
        threads = None if stated["threads"] is None else int(stated["threads"])
    except ValueError as error:
        what = f"{OVERRIDES['threads']} is '{stated['threads']}', expected a whole number of at least 1"
        raise OptionError(what) from error
    return Settings(level=stated["level"], threads=threads, numerics=stated["numerics"])


def locked_settings(registry: Registry) -> Settings:
    """What the lock that ``registry`` keeps to says in its table ``fusion``; nothing without a lock."""
    lock = registry.lock_file
    return Settings() if lock is None else _settings({"fusion": lock.fusion}, lock.path, registry.rule_packs)


def names_of(path: str | os.PathLike[str] | None, packs: Sequence[RulePack]) -> PassNames:
    """The table of CANN's pass names, with what the file at ``path`` adds to it."""
    if path is None or Path(path).suffix.lower() != ".toml":
        return pass_names()
    try:
        data = tomllib.loads(_text(Path(path)))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"'{path}' is no TOML file: {error}") from error
    return pass_names().extended(_own_names(data, Path(path)), packs)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read the settings file '{file}': {error}") from error


def _own_names(data: Mapping[str, Any], file: Path) -> Mapping[str, Sequence[str]]:
    own = data.get("switch_names", {})
    if not isinstance(own, dict) or not all(_strings(rules) for rules in own.values()):
        raise OptionError(f"'switch_names' in '{file}' is no table of pass names with lists of rules")
    return own


def _settings(data: Mapping[str, Any], file: Path, packs: Sequence[RulePack]) -> Settings:
    table = dict(data.get("fusion", {}))
    switch_file = table.pop("switch_file", None)
    for key, value in table.items():
        if key not in _KINDS:
            raise OptionError(f"unknown key 'fusion.{key}' in '{file}'{nearest(key, [*_KINDS, 'switch_file'])}")
        wanted = _KINDS[key][0]
        if not isinstance(value, wanted) or isinstance(value, bool) or (wanted is list and not _strings(value)):
            what = "a list of strings" if wanted is list else f"of type {wanted.__name__}"
            raise OptionError(f"'fusion.{key}' in '{file}' is {value!r}, expected {what}")
    lists: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    settings = Settings(**lists)
    if switch_file is not None:
        names = pass_names().extended(_own_names(data, file), packs)
        named = file.parent / str(switch_file)
        off = read_switches(_text(named), packs, names, f"'{named}'")
        settings = replace(settings, disable=(*settings.disable, *off))
    return settings


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def write_settings(settings: Settings) -> str:
    """The ``[fusion]`` table that says what ``settings`` say, as TOML."""
    import json

    lines = ["[fusion]"]
    for each in fields(Settings):
        value = getattr(settings, each.name)
        if value is None or (value == () and each.name != "only_sites") or each.name == "priorities":
            continue
        # Strings of JSON are strings of TOML.
        shown = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
        lines.append(f"{each.name} = {shown}")
    if settings.priorities:
        lines += ["", "[fusion.priorities]"]
        lines += [f"{json.dumps(rule)} = {json.dumps(priority)}" for rule, priority in settings.priorities.items()]
    return "\n".join(lines) + "\n"
