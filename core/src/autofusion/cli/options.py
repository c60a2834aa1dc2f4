"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

model_argument = click.argument("model", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
shape_option = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME:DIMS", help="Shape of an input, as in x:1,3,48,192. Repeatable."
)


def compile_options(function: F) -> F:
    """``--level``, ``--threads``, switches for rules and sites, ``--inputs`` and ``--outputs``; passed on as
    keywords.
    """
    options = [
        click.option("--level", default="full", show_default=True, help="off, basic (folds, activations) or full."),
        click.option("--threads", type=int, help="Threads to run on. Default: all cores this process may use."),
        click.option("--only", multiple=True, metavar="RULE", help="Use this rule (or pack) only. Repeatable."),
        click.option("--disable", multiple=True, metavar="RULE", help="Do without this rule (or pack). Repeatable."),
        click.option(
            "--disable-site",
            "disable_sites",
            multiple=True,
            metavar="NODE",
            help="Leave this source node alone. Repeatable.",
        ),
        click.option(
            "--input",
            "input_names",
            multiple=True,
            metavar="NAME",
            help="Name of a model input, where the file does not say. Repeatable.",
        ),
        click.option(
            "--output",
            "output_names",
            multiple=True,
            metavar="NAME",
            help="Name of a model output, where the file does not say. Repeatable.",
        ),
    ]

    @functools.wraps(function)
    def wrapped(**values: Any) -> Any:
        keywords = {name: values.pop(name) for name in ("level", "threads", "only", "disable", "disable_sites")}
        keywords["inputs"], keywords["outputs"] = values.pop("input_names"), values.pop("output_names")
        return function(settings=keywords, **values)

    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def echo_json(data: Any) -> None:
    """Print data as JSON, numbers of NumPy included."""
    import json

    click.echo(json.dumps(data, indent=2, default=lambda x: x.item() if hasattr(x, "item") else str(x)))
