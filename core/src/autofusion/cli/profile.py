"""``autofusion profile``: time per step and kernel, against the machine's limits and the cost model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import (
    Stated,
    compile_options,
    data_option,
    echo_json,
    input_options,
    json_option,
    model_argument,
)
from autofusion.files import write_text


@click.command("profile")
@model_argument
@input_options
@data_option
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
    stated: Stated,
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
    from autofusion.tools import profile

    session = autofusion.compile(model, shapes=stated.shapes or None, **settings)
    feeds = stated.feeds(session, data)
    found = profile.profile(session, feeds, runs)
    unfused = None
    if before:
        off = autofusion.compile(model, shapes=stated.shapes or None, **{**settings, "level": "off"})
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
