"""What a user may say about a compilation: one frozen class, whose fields carry all that is known of an option.

A field of ``Options`` is an argument of ``autofusion.compile``, a key of the table ``[fusion]`` of a settings file and
of a lock, an option of the command line and an environment variable; its metadata says how each is read and what it
means. Statements come in layers (lock, settings file, environment, arguments), each a mapping of what it states only;
``merge`` puts them together and ``Options.of`` fills in the defaults.

Imports nothing heavy: the command line lists the options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from autofusion.errors import OptionError, nearest
from autofusion.numerics import Numerics
from autofusion.rules.level import Level
from autofusion.rules.priority import parse_priority

MOST_THREADS = 1024
"""More than any machine has cores; each of them costs a stack and an entry in every table."""
PREFIX = "AUTOFUSION_"
"""Of the environment variables: ``AUTOFUSION_LEVEL``."""

Stated = dict[str, Any]
"""Option name -> value, in the type of its field; what is not stated is not there."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of an option besides its name, type and default.

    ``parse`` takes a value from Python or TOML to the field's type, and raises ValueError ("expected ...") for anything
    else; ``text`` makes such a value of what the command line or the environment says. ``add`` puts a layer's value
    onto a lower layer's; by default it replaces it. ``plain`` makes a value of TOML of it.
    """

    help: str
    parse: Callable[[Any], Any]
    flag: str = ""
    metavar: str = ""
    repeatable: bool = False
    text: Callable[[str], Any] = lambda text: text
    add: Callable[[Any, Any], Any] = lambda below, above: above
    plain: Callable[[Any], Any] = lambda value: value
    default_text: str = ""


def _setting(help: str, parse: Callable[[Any], Any], **more: Any) -> dict[str, Setting]:
    return {"setting": Setting(help, parse, **more)}


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, Iterable) or isinstance(value, str | Mapping):
        raise ValueError("expected a list of strings")
    found = list(value)
    if not all(isinstance(item, str) for item in found):
        raise ValueError("expected a list of strings")
    return frozenset(found)


def _level(value: Any) -> Level:
    if isinstance(value, Level):
        return value
    names = [each.name.lower() for each in Level]
    if value not in names:
        raise ValueError(f"expected one of {', '.join(names)}{nearest(str(value), names)}")
    return Level[value.upper()]


def _numerics(value: Any) -> Numerics:
    if isinstance(value, Numerics):
        return value
    names = [each.value for each in Numerics]
    if value not in names:
        raise ValueError(f"expected one of {', '.join(names)}{nearest(str(value), names)}")
    return Numerics(value)


def _threads(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_THREADS:
        raise ValueError(f"expected a whole number of at least 1 and at most {MOST_THREADS}")
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _truth(text: str) -> bool | str:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("expected a whole number of at least 1")
    return value


def _whole(text: str) -> int | str:
    return int(text) if text.strip().isdigit() else text


def _bytes(value: Any) -> int:
    number: Any = value
    if isinstance(value, str):
        factor = {"k": 1000, "m": 1000**2, "g": 1000**3}.get(value[-1:].lower(), 1)
        try:
            number = int(float(value[:-1] if factor > 1 else value) * factor)
        except ValueError:
            number = None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError("expected a number of bytes, as in 64M")
    return number


def _seconds(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not number >= 0:
        raise ValueError("expected a number of seconds")
    return number


def _priorities(value: Any) -> dict[str, int | str]:
    """``{"conv.fold": "early"}``, or texts of the form ``conv.fold=early``."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError("expected a table of rules and bands")
    if not isinstance(value, Mapping):
        found = {}
        for text in value:
            rule, equals, band = str(text).partition("=")
            if not equals:
                raise ValueError(f"expected RULE=BAND (for example conv.epilogue=early), found '{text}'")
            found[rule] = band
        value = found
    for band in value.values():
        parse_priority(band)
    return dict(value)


def _sorted(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _union(below: frozenset[str], above: frozenset[str]) -> frozenset[str]:
    return below | above


@dataclass(frozen=True, slots=True)
class Options:
    """All options of a compilation. Every place that takes options takes these names."""

    level: Level = field(
        default=Level.FULL,
        metadata=_setting(
            "off, basic (folds, activations) or full.",
            _level,
            plain=lambda level: level.name.lower(),
            default_text="full",
        ),
    )
    threads: int | None = field(
        default=None,
        metadata=_setting(
            "Threads to run on. Default: all cores this process may use.", _threads, metavar="NUMBER", text=_whole
        ),
    )
    only: frozenset[str] = field(
        default=frozenset(),
        metadata=_setting("Use this rule (or pack) only.", _names, metavar="RULE", repeatable=True, plain=_sorted),
    )
    disable: frozenset[str] = field(
        default=frozenset(),
        metadata=_setting(
            "Do without this rule (or pack).",
            _names,
            metavar="RULE",
            repeatable=True,
            add=_union,
            plain=_sorted,
        ),
    )
    disable_sites: frozenset[str] = field(
        default=frozenset(),
        metadata=_setting(
            "Leave this source node alone; RULE:NODE only keeps that rule off it.",
            _names,
            flag="--disable-site",
            metavar="[RULE:]NODE",
            repeatable=True,
            add=_union,
            plain=_sorted,
        ),
    )
    only_sites: frozenset[str] | None = field(
        default=None,
        metadata=_setting(
            "Fuse at this source node only.",
            _names,
            flag="--only-site",
            metavar="[RULE:]NODE",
            repeatable=True,
            plain=_sorted,
        ),
    )
    disable_kernels: frozenset[str] = field(
        default=frozenset(),
        metadata=_setting(
            "Do without this kernel, everywhere or at that source node.",
            _names,
            flag="--disable-kernel",
            metavar="PACK[:KERNEL][@NODE]",
            repeatable=True,
            add=_union,
            plain=_sorted,
        ),
    )
    priorities: Mapping[str, int | str] = field(
        default_factory=dict,
        metadata=_setting(
            "When this rule has its turn: first, early, normal, late or last, early+5, or a number.",
            _priorities,
            flag="--priority",
            metavar="RULE=BAND",
            repeatable=True,
            add=lambda below, above: {**below, **above},
            plain=dict,
        ),
    )
    memory_budget: int | None = field(
        default=None,
        metadata=_setting(
            "Refuse fusions that lift the peak of live activations above it. Suffixes k, M, G.",
            _bytes,
            metavar="BYTES",
        ),
    )
    numerics: Numerics = field(
        default=Numerics.APPROXIMATE,
        metadata=_setting(
            "How far kernels may be from the reference kernels: not at all (exact), by the order of additions "
            "(reassociated), or by the bounded error of another algorithm.",
            _numerics,
            metavar="CLASS",
            plain=lambda numerics: numerics.value,
            default_text="approximate",
        ),
    )
    flush_denormals: bool = field(
        default=False,
        metadata=_setting(
            "Take floats below the smallest normal one for zero in native kernels (true or false): some processors "
            "take a hundred times as long for them.",
            _switch,
            metavar="BOOLEAN",
            text=_truth,
            default_text="false",
        ),
    )
    plan_limit: int = field(
        default=256,
        metadata=_setting(
            "Plans to keep, one for each set of input shapes; those used longest ago are made again when needed.",
            _count,
            metavar="NUMBER",
            text=_whole,
            default_text="256",
        ),
    )
    plan_memory: int = field(
        default=1 << 28,
        metadata=_setting(
            "Bytes that the plans may take together, activations not counted. Suffixes k, M, G.",
            _bytes,
            metavar="BYTES",
            default_text="268M",
        ),
    )
    time_budget: float = field(
        default=60.0,
        metadata=_setting("Seconds that each stage of rules may take.", _seconds, metavar="SECONDS", default_text="60"),
    )

    @classmethod
    def of(cls, *layers: Stated) -> Options:
        """The options that the layers state, the lowest first, and the defaults of all others."""
        return cls(**merge(*layers))


SETTINGS: Mapping[str, Setting] = {each.name: each.metadata["setting"] for each in fields(Options)}
"""What is known of every option, by name."""


def state(values: Mapping[str, Any], where: str = "option '{}'") -> Stated:
    """``values`` as a layer: names and values checked, None left out.

    ``where`` names an option in messages. Raises OptionError for an unknown name or a wrong value.
    """
    stated: Stated = {}
    for name, value in values.items():
        if name not in SETTINGS:
            raise OptionError(f"{where.format(name)} is unknown{nearest(name, SETTINGS)}")
        if value is None:
            continue
        try:
            stated[name] = SETTINGS[name].parse(value)
        except ValueError as error:
            raise OptionError(f"{where.format(name)} is {value!r}, {error}") from error
    return stated


def merge(*layers: Stated) -> Stated:
    """Layers on top of each other, the lowest first: switches add up, anything else that is stated wins."""
    merged: Stated = {}
    for layer in layers:
        for name, value in layer.items():
            merged[name] = SETTINGS[name].add(merged[name], value) if name in merged else value
    return merged


def from_environment(environ: Mapping[str, str]) -> Stated:
    """What environment variables state: ``AUTOFUSION_LEVEL``, ``AUTOFUSION_DISABLE=conv,layout`` and so on."""
    stated: Stated = {}
    for name in SETTINGS:
        text = environ.get(variable(name))
        if text:
            values = [part.strip() for part in text.split(",")] if SETTINGS[name].repeatable else [text]
            stated |= from_texts(name, values, f"environment variable {variable(name)}")
    return stated


def from_texts(name: str, texts: Sequence[str], where: str = "option '{}'") -> Stated:
    """What the command line or the environment states of one option: several texts if it is repeatable, else one."""
    setting = SETTINGS[name]
    return state({name: list(texts) if setting.repeatable else setting.text(texts[-1])}, where)


def variable(name: str) -> str:
    """The environment variable of an option."""
    return PREFIX + name.upper()


def plain(stated: Mapping[str, Any]) -> dict[str, Any]:
    """A layer in values of TOML and JSON; ``state`` reads them back."""
    return {name: SETTINGS[name].plain(value) for name, value in stated.items()}
