"""``autofusion explain``: what was fused, what was not and why, which kernel runs what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options, echo_json, json_option, model_argument, shape_option


@click.command("explain")
@model_argument
@click.argument("node", required=False)
@shape_option
@click.option("--graph", is_flag=True, help="Print the fused graph in the text form of the IR as well.")
@compile_options
@json_option
def command(
    model: Path, node: str | None, shapes: tuple[str, ...], graph: bool, as_json: bool, settings: dict[str, Any]
) -> None:
    """Explain what Autofusion does with MODEL, or with one source NODE of it."""
    import autofusion
    from autofusion.tools import explain, inputs

    session = autofusion.compile(model, shapes=inputs.parse_shapes(shapes) or None, **settings)
    if not session.stages:
        session.run(inputs.random_inputs(session.graph, {}))
    if as_json:
        data = explain.as_data(session)
        if node is not None:
            explain.node(session, node)
            data["records"] = [r for r in data["records"] if node in r["nodes"] or r["site"] == node]
            data["steps"] = [s for s in data["steps"] if node in s["origin"]]
        echo_json(data)
        return
    lines = explain.whole(session) if node is None else explain.node(session, node)
    click.echo("\n".join(lines))
    if graph:
        from autofusion.ir.text import to_text

        for plan in explain.plans(session):
            click.echo(to_text(plan.graph, with_names=True))
