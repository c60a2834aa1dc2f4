"""``autofusion check``: has an upgrade done harm? Exits with 1 if it has."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from autofusion.cli import FINDING
from autofusion.cli.options import echo_json, json_option


@click.command("check")
@click.argument("baseline", type=click.Path(path_type=Path))
@click.option("--seconds", default=4.0, show_default=True, help="Time to measure each model for; 0: do not measure.")
@click.option("--lost", default=0, show_default=True, help="Sites that each model may lose.")
@click.option("--errors", default=2.0, show_default=True, help="Factor by which errors may grow.")
@click.option("--slower", default=0.10, show_default=True, help="Share by which the time over level off may grow.")
@click.option(
    "--slower-probe", default=1.0, show_default=True, help="Share by which the time over the probe's may grow."
)
@json_option
def command(
    baseline: Path, seconds: float, lost: int, errors: float, slower: float, slower_probe: float, as_json: bool
) -> None:
    """Compile the models of BASELINE again and say which sites were lost, gained or changed, which errors grew and
    which models got slower. Exits with 1 if anything is worse than the options allow.
    """
    from autofusion.tools import gate, provenance

    report = gate.check(baseline, seconds, gate.Thresholds(lost, errors, slower, slower_probe))
    if as_json:
        echo_json(provenance.report(gate.as_data(report)))
    else:
        click.echo("\n".join(gate.lines(report)))
    if report.regressions:
        sys.exit(FINDING)
