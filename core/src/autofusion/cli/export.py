"""``autofusion export``: the optimised graph as a standard model file, for other runtimes and converters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options, model_argument, shape_option


@click.command("export")
@model_argument
@click.option("--save", "-o", type=click.Path(path_type=Path), required=True, help="File to write, as in out.onnx.")
@click.option("--inline", is_flag=True, help="Write fused regions as plain nodes instead of functions.")
@shape_option
@compile_options
def command(model: Path, save: Path, inline: bool, shapes: tuple[str, ...], settings: dict[str, Any]) -> None:
    """Write MODEL with folds and recompositions applied to a standard file.

    Every fused region becomes a function of the file with its body, or plain nodes with --inline. With --shape the
    file is specialised for these shapes; without, dims that the model leaves open stay open, and nothing is fused
    into regions.
    """
    import autofusion
    from autofusion.tools import inputs
    from autofusion.tools.export import export

    session = autofusion.compile(model, shapes=inputs.parse_shapes(shapes) or None, **settings)
    count = export(session, save, inline=inline)
    click.echo(f"{save}: {count} nodes, from {len(session.source)} of {model}")
