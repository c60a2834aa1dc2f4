"""``autofusion bisect``: which rule, at which place, or which kernel, makes a model fail?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from autofusion.cli import FINDING, NOTHING
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


@click.command("bisect")
@model_argument
@input_options
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="An .npz file with an array for each input, a folder of them, or a .py file whose load_data() yields such "
    "mappings. Default: made-up inputs.",
)
@click.option(
    "--check",
    default="verify",
    show_default=True,
    metavar="METRIC|CMD",
    help="What fails: verify, speed, a metric (with --data), MODULE:FUNCTION, or a command by its exit code.",
)
@click.option("--against", default="level-off", show_default=True, help="level-off, framework or reference.")
@tolerance_option
@click.option("--decode", default="", metavar="MODULE:FUNCTION", help="For map: outputs -> boxes, scores, classes.")
@click.option("--metric-tolerance", default=0.0, show_default=True, help="How far the metric may move.")
@click.option("--samples", default=2, show_default=True, help="Samples of --data to look at.")
@click.option("--slower", default=2.0, show_default=True, help="A site may take so many times what its parts take.")
@click.option("--seed", default=0, show_default=True, help="Seed of made-up inputs.")
@click.option("--timeout", default=120.0, show_default=True, help="Longest time without progress, in seconds.")
@click.option(
    "--out", "-o", type=click.Path(path_type=Path), default=Path("autofusion-bisect"), show_default=True,
    help="Folder for the report and the reproducers.",
)  # fmt: skip
@compile_options
@json_option
def command(
    model: Path,
    stated: Stated,
    tolerances: tuple[str, ...],
    out: Path,
    as_json: bool,
    settings: dict[str, Any],
    **options: Any,
) -> None:
    """Find the smallest set of rules and places, or the kernel, that makes MODEL fail.

    Every run is a child process. A command (--check 'python my_test.py') is run with AUTOFUSION_CONFIG set to the
    switches to try, which autofusion.compile reads. Exits with 0 if a culprit was found, with 4 if nothing
    fails, and with 1 if something does but no culprit was found; 2 and 3 are for a wrong question and a failure of the
    tool itself.
    """
    from autofusion.tools import bisect as tool
    from autofusion.tools import status
    from autofusion.tools.provenance import dumps, report

    settings = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items()}

    def say(line: str) -> None:
        if not as_json:
            status.clear()
            click.echo(line, err=True)

    found = tool.bisect(
        model,
        shapes=stated.shapes,
        wanted=stated.wanted,
        tolerances=parse_tolerances(tolerances),
        out=out,
        say=say,
        **options,
        **settings,
    )
    out.mkdir(parents=True, exist_ok=True)
    told = report(found.data(), model, settings, options["seed"])
    text = "\n".join(tool.lines(found)) + "\n"
    write_text(out / "report.txt", text)
    write_text(out / "report.json", dumps(told))
    if as_json:
        echo_json(told)
    else:
        click.echo("\n".join(tool.lines(found)[len(found.log) :]).strip())
    if not found.culprits:
        sys.exit(NOTHING if found.note == tool.NOTHING_FAILS else FINDING)
