"""``autofusion profile``: time per step and kernel, against the machine's limits and the cost model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options, echo_json, json_option, model_argument, shape_option
from autofusion.files import write_text


@click.command("profile")
@model_argument
@shape_option
@click.option("--data", type=click.Path(path_type=Path), help="An .npz file with an array for each input.")
@click.option(
    "--runs", type=click.IntRange(min=1), default=20, show_default=True, help="Runs; a step's time is its least."
)
@click.option("--most", default=25, show_default=True, help="How many of the slowest steps to list.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write a trace for chrome://tracing or Perfetto.")
@click.option("--before", is_flag=True, help="Also profile level off; say what fusion changed.")
@compile_options
@json_option
def command(
    model: Path,
    shapes: tuple[str, ...],
    data: Path | None,
    runs: int,
    most: int,
    trace: Path | None,
    before: bool,
    as_json: bool,
    settings: dict[str, Any],
) -> None:
    """Say where the time of MODEL goes, and what the next hot spot is."""
    import autofusion
    from autofusion.tools import inputs, profile

    stated = inputs.parse_shapes(shapes)
    session = autofusion.compile(model, shapes=stated or None, **settings)
    feeds = inputs.load_npz(data) if data is not None else inputs.random_inputs(session.graph, stated)
    found = profile.profile(session, feeds, runs)
    unfused = None
    if before:
        off = autofusion.compile(model, shapes=stated or None, **{**settings, "level": "off"})
        unfused = profile.profile(off, feeds, runs)
    if trace is not None:
        write_text(trace, json.dumps(profile.chrome_trace(found)))
    if as_json:
        from autofusion.tools.provenance import report

        told = {**profile.as_data(found), **({"before": profile.as_data(unfused)} if unfused else {})}
        echo_json(report(told, model, settings))
        return
    click.echo("\n".join(profile.lines(found, most)))
    if unfused is not None:
        click.echo("\n".join(["", *profile.compare_lines(unfused, found, most)]))
