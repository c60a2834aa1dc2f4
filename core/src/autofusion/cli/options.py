"""Options that several commands share."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from autofusion.cli import complete
from autofusion.options import SETTINGS, from_texts, merge, plain

F = TypeVar("F", bound=Callable[..., Any])

CONFIG = "autofusion.toml"
"""The settings file that is read without being named."""
VARIABLE = "AUTOFUSION_CONFIG"
model_argument = click.argument("model", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
shape_option = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME:DIMS",
    shell_complete=complete.inputs(":"),
    help="Shape of an input, as in x:1,3,48,192. Repeatable.",
)

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="An .npz file with an array for each input, or a .py file whose load_data() returns or yields such mappings.",
)


class Stated:
    """What the command line says of a model's inputs: their ``shapes``, and what made-up ones are to be."""

    def __init__(self, shapes: tuple[str, ...], values: tuple[str, ...], ranges: tuple[str, ...]) -> None:
        from autofusion.tools import inputs

        self.shapes = inputs.parse_shapes(shapes)
        self.wanted = inputs.parse_wanted(values, ranges)

    def feeds(self, session: Any, data: Path | None, seed: int = 0) -> dict[str, Any]:
        """The arrays of ``data``, or made-up ones."""
        from autofusion.tools import inputs

        return inputs.load_data(data) if data is not None else self.made(session.graph, seed)

    def run(self, session: Any, feeds: dict[str, Any], data: Path | None) -> dict[str, Any]:
        """Run; an error of a model that was given made-up inputs says which integers it was given."""
        from autofusion.errors import AutofusionError, InputError

        try:
            results: dict[str, Any] = session.run(feeds)
            return results
        except AutofusionError as error:
            made = [
                f"{name}={array.reshape(-1)[0]}"
                for name, array in feeds.items()
                if data is None and array.dtype.kind in "iub" and array.size and name not in self.wanted.names
            ]
            if not made:
                raise
            raise InputError(
                f"{error}; inputs were made up ({', '.join(made)}): state others with --value, --range or --data"
            ) from error

    def made(self, graph: Any, seed: int = 0) -> dict[str, Any]:
        """Made-up inputs."""
        from autofusion.tools import inputs

        return inputs.random_inputs(graph, self.shapes, seed, self.wanted)


def input_options(function: F) -> F:
    """``--shape``, ``--value`` and ``--range``, passed on as ``stated``."""

    @functools.wraps(function)
    def wrapped(*, shapes: Any, values: Any, ranges: Any, **others: Any) -> Any:
        return function(stated=Stated(shapes, values, ranges), **others)

    wrapped = click.option(
        "--range",
        "ranges",
        multiple=True,
        metavar="NAME:LOW,HIGH",
        shell_complete=complete.inputs(":"),
        help="Draw a made-up input from this range, as in ids:0,30521. Repeatable.",
    )(wrapped)
    wrapped = click.option(
        "--value",
        "values",
        multiple=True,
        metavar="NAME=NUMBER[,...]",
        shell_complete=complete.inputs("="),
        help="Value of a made-up input: one for all elements, or one for each, as in sr=16000. Repeatable.",
    )(wrapped)
    return shape_option(wrapped)  # type: ignore[return-value]


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
            shell_complete=complete.OF_OPTIONS.get(name),
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

    click.echo(dumps(data, indent=2), file=_json_stream)


_json_stream: TextIO | None = None


@contextlib.contextmanager
def json_apart() -> Iterator[None]:
    """What prints inside, native code included, goes to the error stream; JSON alone is left for the output."""
    global _json_stream
    out = sys.stdout
    out.flush()
    real = os.dup(1) if out is sys.__stdout__ else -1  # a stream that someone put in its place has no descriptor
    _json_stream, sys.stdout = out, sys.stderr
    if real >= 0:
        _json_stream = os.fdopen(os.dup(real), "w", encoding="utf-8", errors="backslashreplace")
        os.dup2(2, 1)
    try:
        yield
        _json_stream.flush()
    finally:
        sys.stdout, _json_stream = out, None
        if real >= 0:
            os.dup2(real, 1)
            os.close(real)
