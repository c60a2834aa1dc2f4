"""Options that several commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from autofusion.options import SETTINGS, from_texts, merge, plain

F = TypeVar("F", bound=Callable[..., Any])

CONFIG = "autofusion.toml"
"""The settings file that is read without being named."""
VARIABLE = "AUTOFUSION_CONFIG"
model_argument = click.argument("model", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
shape_option = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME:DIMS", help="Shape of an input, as in x:1,3,48,192. Repeatable."
)

tolerance_option = click.option(
    "--tolerance", "tolerances", multiple=True, metavar="TYPE:NUMBER", help="As in f32:1e-5. Repeatable."
)


def compile_options(function: F) -> F:
    """Every option of a compilation, a settings file, ``--input`` and ``--output``; passed on as ``settings``, keywords
    of ``autofusion.compile`` that hold what is stated only.
    """
    options = [
        click.option(
            setting.flag or f"--{name.replace('_', '-')}",
            name,
            multiple=setting.repeatable,
            metavar=setting.metavar or None,
            show_default=setting.default_text or False,
            help=setting.help + (" Repeatable." if setting.repeatable else ""),
        )
        for name, setting in SETTINGS.items()
    ]
    options += [
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            help=f"TOML file with a table [fusion], or a fusion_switch.cfg. Default: {CONFIG}, if there is one.",
        ),
        click.option(
            "--input",
            "inputs",
            multiple=True,
            metavar="NAME",
            help="Value to be a model input, where the file does not say or the graph is to be cut there. Repeatable.",
        ),
        click.option(
            "--output",
            "outputs",
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
        given = {name: values.pop(name) for name in SETTINGS}
        stated = [from_texts(n, [v] if isinstance(v, str) else v) for n, v in given.items() if v]
        settings: dict[str, Any] = plain(merge(*stated))
        settings |= {name: values.pop(name) for name in ("config", "inputs", "outputs", "signature")}
        if settings["config"] is None and not os.environ.get(VARIABLE) and Path(CONFIG).is_file():
            settings["config"] = Path(CONFIG)
        return function(settings=settings, **values)

    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


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
    """Print data as JSON, numbers of NumPy included; NaN and infinities as strings."""
    from autofusion.tools.provenance import dumps

    click.echo(dumps(data, indent=2))
