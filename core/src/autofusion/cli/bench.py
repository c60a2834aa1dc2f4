"""``autofusion bench``: latency at several levels and of other runtimes, interleaved in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options, echo_json, json_option, shape_option


@click.command("bench")
@click.argument("models", nargs=-1, required=True, metavar="MODEL[@NAME:DIMS]...")
@shape_option
@click.option(
    "--against",
    multiple=True,
    metavar="RUNTIME",
    help="Also measure onnxruntime or openvino (float32, their best settings). Repeatable.",
)
@click.option("--seconds", default=6.0, show_default=True, help="Time to measure each model for.")
@click.option("--levels", default="off,full", show_default=True, help="Levels to compare; the first is the baseline.")
@compile_options
@json_option
def command(
    models: tuple[str, ...],
    shapes: tuple[str, ...],
    against: tuple[str, ...],
    seconds: float,
    levels: str,
    as_json: bool,
    settings: dict[str, Any],
) -> None:
    """Measure MODELs side by side: contenders alternate in short blocks, and the result is given as ratios.

    A model may carry its own shapes: det.onnx@x:1,3,640,640
    """
    from autofusion.tools import inputs, versus
    from autofusion.tools.provenance import digest, report

    settings.pop("level", None)
    common = inputs.parse_shapes(shapes)
    rows = []
    for spec in models:
        name, *own = spec.split("@")
        stated = common | inputs.parse_shapes(own)
        row = versus.measure(Path(name), stated, levels.split(","), against, seconds, settings)
        rows.append(row | {"sha256": digest(Path(name))})
        if not as_json:
            click.echo("\n".join(versus.row_lines(row)))
    if as_json:
        echo_json(report({"models": rows, "geometric_mean": versus.means(rows)}, None, settings))
    elif len(rows) > 1:
        click.echo("\n".join(versus.mean_lines(rows)))
