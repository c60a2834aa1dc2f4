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

Other tables belong to other tools and are left alone; a key of these two that is not known is an error.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from autofusion.errors import OptionError
from autofusion.options import Stated, merge, plain, state
from autofusion.plugins.registry import Registry
from autofusion.rules.rule import RulePack
from autofusion.runtime.cann import PassNames, pass_names, read_switches

VARIABLE = "AUTOFUSION_CONFIG"
"""Environment variable: the settings file of every compilation that states none."""


def read_settings(path: str | os.PathLike[str] | None, packs: Sequence[RulePack]) -> Stated:
    """The settings in the file at ``path``, by default the one that ``AUTOFUSION_CONFIG`` names, if it is set.

    Raises OptionError (naming the file, the key, what was expected and found) for whatever is wrong with it.
    """
    stated = path if path is not None else os.environ.get(VARIABLE)
    if not stated:
        return {}
    file = Path(stated)
    if file.suffix.lower() != ".toml":
        return {"disable": frozenset(read_switches(_text(file), packs, origin=f"'{file}'"))}
    try:
        data = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"'{file}' is not a TOML file: {error}") from error
    return _settings(data, file, packs)


def locked_settings(registry: Registry) -> Stated:
    """What the lock that ``registry`` keeps to says in its table ``fusion``; nothing without a lock."""
    lock = registry.lock_file
    return {} if lock is None else _settings({"fusion": lock.fusion}, lock.path, registry.rule_packs)


def names_of(path: str | os.PathLike[str] | None, packs: Sequence[RulePack]) -> PassNames:
    """The table of CANN's pass names, with what the file at ``path`` adds to it."""
    if path is None or Path(path).suffix.lower() != ".toml":
        return pass_names()
    try:
        data = tomllib.loads(_text(Path(path)))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"'{path}' is not a TOML file: {error}") from error
    return pass_names().extended(_own_names(data, Path(path)), packs)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read the settings file '{file}': {error}") from error


def _own_names(data: Mapping[str, Any], file: Path) -> Mapping[str, Sequence[str]]:
    own = data.get("switch_names", {})
    if not isinstance(own, dict) or not all(_strings(rules) for rules in own.values()):
        raise OptionError(f"'switch_names' in '{file}' is not a table of pass names with lists of rules")
    return own


def _settings(data: Mapping[str, Any], file: Path, packs: Sequence[RulePack]) -> Stated:
    table = dict(data.get("fusion", {}))
    switch_file = table.pop("switch_file", None)
    settings = state(table, f"'fusion.{{}}' in '{file}'")
    if switch_file is not None:
        names = pass_names().extended(_own_names(data, file), packs)
        named = file.parent / str(switch_file)
        off = read_switches(_text(named), packs, names, f"'{named}'")
        settings = merge(settings, {"disable": frozenset(off)})
    return settings


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def write_settings(stated: Mapping[str, Any]) -> str:
    """The ``[fusion]`` table that states what the layer ``stated`` does, as TOML."""
    table = plain(stated)
    # Tables come last in TOML.
    return tomli_w.dumps(
        {"fusion": {key: table[key] for key in sorted(table, key=lambda k: isinstance(table[k], dict))}}
    )
