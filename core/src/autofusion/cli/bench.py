"""``autofusion bench``: latency at several levels and of other runtimes, interleaved in one run."""

from __future__ import annotations

from typing import Any

import click

from autofusion.cli.options import Stated, compile_options, echo_json, input_options, json_option


@click.command("bench")
@click.argument("models", nargs=-1, required=True, metavar="MODEL[@NAME:DIMS]...")
@input_options
@click.option(
    "--against",
    multiple=True,
    metavar="RUNTIME",
    help="Also measure onnxruntime or openvino (float32, their best settings). Repeatable.",
)
@click.option("--seconds", default=6.0, show_default=True, help="Time to measure each model for.")
@click.option("--levels", default="off,full", show_default=True, help="Levels to compare; the first is the baseline.")
@click.option(
    "--streams", default=0, show_default=True, help="Also measure the throughput of so many threads, a session each."
)
@compile_options
@json_option
def command(
    models: tuple[str, ...],
    stated: Stated,
    against: tuple[str, ...],
    seconds: float,
    levels: str,
    streams: int,
    as_json: bool,
    settings: dict[str, Any],
) -> None:
    """Measure MODELs side by side: contenders alternate in short blocks, and the result is given as ratios.

    A model may carry its own shapes: det.onnx@x:1,3,640,640
    """
    from autofusion.tools import inputs, status, versus
    from autofusion.tools.provenance import digest, report

    settings.pop("level", None)
    rows = []
    for spec in models:
        path, own = inputs.model_and_shapes(spec)
        more: dict[str, Any] = {"wanted": stated.wanted, "streams": streams}
        row = versus.measure(path, stated.shapes | own, levels.split(","), against, seconds, settings, **more)
        rows.append(row | {"sha256": digest(path)})
        if not as_json:
            status.clear()
            click.echo("\n".join(versus.row_lines(row)))
    if as_json:
        echo_json(report({"models": rows, "geometric_mean": versus.means(rows)}, None, settings))
    elif len(rows) > 1:
        click.echo("\n".join(versus.mean_lines(rows)))
