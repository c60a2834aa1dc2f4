"""``autofusion inspect``: what a model file holds, without compiling it."""

from __future__ import annotations

from pathlib import Path

import click

from autofusion.cli.options import echo_json, json_option, model_argument


@click.command("inspect")
@model_argument
@click.option("--input", "inputs", multiple=True, metavar="NAME", help="Value to be a model input. Repeatable.")
@click.option("--output", "outputs", multiple=True, metavar="NAME", help="Value to be a model output. Repeatable.")
@click.option("--signature", metavar="NAME", help="The signature of a SavedModel to load. Default: for serving.")
@json_option
def command(
    model: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], signature: str | None, as_json: bool
) -> None:
    """Say what MODEL holds: inputs, outputs, operators, operator sets, size. Nothing is compiled."""
    from autofusion.tools import inspect as tool

    found = tool.inspect(model, inputs=inputs, outputs=outputs, signature=signature)
    if as_json:
        from autofusion.tools.provenance import report

        echo_json(report(found, model, {}))
    else:
        click.echo("\n".join(tool.lines(found)))
