"""``autofusion run``: run a model once on given or random inputs."""

from __future__ import annotations

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


@click.command("run")
@model_argument
@input_options
@data_option
@click.option("--save", "-o", type=click.Path(path_type=Path), help="Write the outputs to this .npz file.")
@click.option(
    "--watch",
    "watched",
    multiple=True,
    metavar="NODE",
    help="Also show this source node's (or value's) results, inside fused nodes or not. Repeatable.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@compile_options
@json_option
def command(
    model: Path,
    stated: Stated,
    data: Path | None,
    save: Path | None,
    watched: tuple[str, ...],
    seed: int,
    as_json: bool,
    settings: dict[str, Any],
) -> None:
    """Run MODEL and print what comes out.

    Watching changes nothing about the run: the values inside a fused node are those of its parts, replayed on the
    operands that it really had. They are saved beside the outputs, under their own names.
    """
    import time

    import autofusion
    from autofusion.tools import inputs as made

    start = time.perf_counter()
    session = autofusion.compile(model, shapes=stated.shapes or None, **settings)
    feeds = stated.feeds(session, data, seed)
    compiled = time.perf_counter()
    values: dict[str, Any] = {}
    if watched:
        seen = session.watch(watched, feeds)
        results, values = seen.outputs, seen.values
    else:
        results = stated.run(session, feeds, data)
    done = time.perf_counter()
    if save is not None:
        made.save_npz(save, {**values, **results})
    described = {name: made.describe(value) for name, value in results.items()}
    inside = {name: made.describe(value) for name, value in values.items()}
    if as_json:
        from autofusion.tools.provenance import report

        told = {"outputs": described, "compile_seconds": compiled - start, "first_run_seconds": done - compiled}
        told |= {"watched": inside} if watched else {}
        echo_json(report(told, model, settings, seed))
        return
    for name, about in [*described.items(), *((f"watched {name}", about) for name, about in inside.items())]:
        click.echo(
            f"{name}: {about['type']}"
            + (f"  min {about['min']:.6g}  max {about['max']:.6g}  mean {about['mean']:.6g}" if "min" in about else "")
        )
    click.echo(
        f"compiled in {compiled - start:.2f} s, first run {1e3 * (done - compiled):.1f} ms"
        + (f", outputs in {save}" if save else "")
    )
