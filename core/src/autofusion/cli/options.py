"""Options that several commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from autofusion.fusion.numerics import DEFAULT, NUMERICS

F = TypeVar("F", bound=Callable[..., Any])

CONFIG = "autofusion.toml"
"""The settings file that is read without being named."""
VARIABLE = "AUTOFUSION_CONFIG"
_KEYWORDS = (
    "level", "threads", "only", "disable", "disable_sites", "only_sites", "disable_kernels", "memory_budget",
    "numerics", "config", "priorities", "signature",
)  # fmt: skip

model_argument = click.argument("model", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
shape_option = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME:DIMS", help="Shape of an input, as in x:1,3,48,192. Repeatable."
)

tolerance_option = click.option(
    "--tolerance", "tolerances", multiple=True, metavar="TYPE:NUMBER", help="As in f32:1e-5. Repeatable."
)


class _Bytes(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes: ``64M``, ``1.5G`` or plain."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        factor = {"k": 1000, "m": 1000**2, "g": 1000**3}.get(value[-1:].lower(), 1)
        try:
            return int(float(value[:-1] if factor > 1 else value) * factor)
        except ValueError:
            self.fail(f"'{value}' is no number of bytes (as in 64M)", param, ctx)


def compile_options(function: F) -> F:
    """``--level``, ``--threads``, switches for rules, sites and kernels, a settings file, ``--input`` and ``--output``;
    passed on as keywords of ``autofusion.compile``.
    """
    options = [
        click.option("--level", show_default="full", help="off, basic (folds, activations) or full."),
        click.option("--threads", type=int, help="Threads to run on. Default: all cores this process may use."),
        click.option("--only", multiple=True, metavar="RULE", help="Use this rule (or pack) only. Repeatable."),
        click.option("--disable", multiple=True, metavar="RULE", help="Do without this rule (or pack). Repeatable."),
        click.option(
            "--disable-site",
            "disable_sites",
            multiple=True,
            metavar="NODE",
            help="Leave this source node alone; RULE:NODE only keeps that rule off it. Repeatable.",
        ),
        click.option(
            "--only-site",
            "only_sites",
            multiple=True,
            metavar="[RULE:]NODE",
            help="Fuse at this source node only. Repeatable.",
        ),
        click.option(
            "--disable-kernel",
            "disable_kernels",
            multiple=True,
            metavar="PACK[:KERNEL][@NODE]",
            help="Do without this kernel, everywhere or at that source node. Repeatable.",
        ),
        click.option(
            "--priority",
            "priorities",
            multiple=True,
            metavar="RULE=BAND",
            help="When this rule has its turn: first, early, normal, late or last, early+5, or a number. Repeatable.",
        ),
        click.option(
            "--memory-budget",
            type=_Bytes(),
            metavar="BYTES",
            help="Refuse fusions that lift the peak of live activations above it. Suffixes k, M, G.",
        ),
        click.option(
            "--numerics",
            type=click.Choice(NUMERICS),
            show_default=DEFAULT,
            help="How far kernels may be from the reference kernels: not at all, by the order of additions, or by the "
            "bounded error of another algorithm.",
        ),
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            help=f"TOML file with a table [fusion], or a fusion_switch.cfg. Default: {CONFIG}, if there is one.",
        ),
        click.option(
            "--input",
            "input_names",
            multiple=True,
            metavar="NAME",
            help="Value to be a model input, where the file does not say or the graph is to be cut there. Repeatable.",
        ),
        click.option(
            "--output",
            "output_names",
            multiple=True,
            metavar="NAME",
            help="Name of a model output, where the file does not say. Repeatable.",
        ),
        click.option(
            "--signature", metavar="NAME", help="The signature of a SavedModel to load. Default: for serving."
        ),
    ]

    @functools.wraps(function)
    def wrapped(**values: Any) -> Any:
        keywords = {name: values.pop(name) for name in _KEYWORDS}
        keywords["only_sites"] = keywords["only_sites"] or None
        keywords["priorities"] = _priorities(keywords["priorities"])
        if keywords["config"] is None and not os.environ.get(VARIABLE) and Path(CONFIG).is_file():
            keywords["config"] = Path(CONFIG)
        keywords["inputs"], keywords["outputs"] = values.pop("input_names"), values.pop("output_names")
        return function(settings=keywords, **values)

    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def _priorities(stated: tuple[str, ...]) -> dict[str, int | str]:
    """``("conv.fold=early",)`` as ``{"conv.fold": "early"}``, checked."""
    from autofusion.errors import OptionError
    from autofusion.fusion.priority import parse_priority

    found: dict[str, int | str] = {}
    for text in stated:
        rule, equals, band = text.partition("=")
        if not equals:
            raise OptionError(f"priority '{text}' is not of the form RULE=BAND (for example conv.epilogue=early)")
        parse_priority(band)
        found[rule] = band
    return found


def parse_tolerances(stated: tuple[str, ...]) -> dict[str, float]:
    """``("f32:1e-5",)`` as ``{"f32": 1e-5}``, checked."""
    from autofusion.errors import OptionError
    from autofusion.ir.dtypes import dtype_from_name

    found: dict[str, float] = {}
    for text in stated:
        name, _, number = text.partition(":")
        try:
            found[name] = float(number)
        except ValueError:
            raise OptionError(f"tolerance '{text}' is not of the form TYPE:NUMBER (for example f32:1e-5)") from None
        dtype_from_name(name)
    return found


def echo_json(data: Any) -> None:
    """Print data as JSON, numbers of NumPy included."""
    import json

    click.echo(json.dumps(data, indent=2, default=lambda x: x.item() if hasattr(x, "item") else str(x)))
