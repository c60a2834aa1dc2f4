"""``autofusion verify``: is the fused model still the same model?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from autofusion.cli import FINDING
from autofusion.cli.options import (
    Stated,
    compile_options,
    echo_json,
    input_options,
    json_option,
    model_argument,
    parse_tolerances,
    tolerance_option,
)
from autofusion.files import write_text


@click.command("verify")
@model_argument
@input_options
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="An .npz file with an array for each input, a folder of them, or a .py file whose load_data() yields such "
    "mappings. Default: made-up inputs.",
)
@click.option("--against", default="level-off", show_default=True, help="level-off, framework or reference.")
@tolerance_option
@click.option("--all-steps", is_flag=True, help="Judge ordinary steps as well as fused sites.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="METRIC",
    help="top1, top5, map, characters, or MODULE:FUNCTION (outputs, targets) -> number. Repeatable.",
)
@click.option("--decode", default="", metavar="MODULE:FUNCTION", help="For map: outputs -> boxes, scores, classes.")
@click.option("--metric-tolerance", default=0.0, show_default=True, help="How far the metric may move.")
@click.option("--samples", default=2, show_default=True, help="Samples of --data to look at site by site.")
@click.option("--repeats", default=3, show_default=True, help="Runs on the same inputs, which must agree to the bit.")
@click.option("--exact/--no-exact", default=True, help="Also compare with a run in double precision.")
@click.option("--speed/--no-speed", default=True, help="Also measure each site against its parts.")
@click.option("--slower", default=2.0, show_default=True, help="A site may take so many times what its parts take.")
@click.option("--seed", default=0, show_default=True, help="Seed of made-up inputs.")
@click.option("--timeout", default=300.0, show_default=True, help="Longest time without progress, in seconds.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Folder for report.txt, report.json and report.html (one file)."
)
@compile_options
@json_option
def command(
    model: Path,
    stated: Stated,
    tolerances: tuple[str, ...],
    report: Path | None,
    as_json: bool,
    settings: dict[str, Any],
    **options: Any,
) -> None:
    """Verify MODEL in three steps: every fused site against its parts, the outputs, and a metric over a data set.

    Everything runs in a child process. Exits with 1 if something is beyond its threshold, crashes or hangs; 2 and 3 are
    for a wrong question and a failure of the tool itself.
    """
    from autofusion.tools import verify as tool
    from autofusion.tools.provenance import dumps
    from autofusion.tools.provenance import report as as_report
    from autofusion.tools.verify.page import page

    settings = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items()}
    found = tool.verify(
        model,
        shapes=stated.shapes,
        wanted=stated.wanted,
        tolerances=parse_tolerances(tolerances),
        **options,
        **settings,
    )
    told = as_report(found.data, model, settings, options["seed"])
    text = "\n".join(tool.lines(found)) + "\n"
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        write_text(report / "report.txt", text)
        write_text(report / "report.json", dumps(told))
        write_text(report / "report.html", page(found))
    if as_json:
        echo_json(told)
    else:
        click.echo(text, nl=False)
        if report is not None:
            click.echo(f"report: {report / 'report.html'}")
    if not found.ok:
        sys.exit(FINDING)
