"""``autofusion view``: one HTML page of the model, unfused and fused, with every decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import Stated, compile_options, data_option, input_options, model_argument
from autofusion.files import write_text


@click.command("view")
@model_argument
@input_options
@click.option("--save", "-o", type=click.Path(path_type=Path), help="The page to write. Default: MODEL.html, here.")
@click.option("--profile", is_flag=True, help="Measure every step, unfused and fused, and colour by time.")
@click.option(
    "--runs", type=click.IntRange(min=1), default=20, show_default=True,
    help="Runs, with --profile; a step's time is its least.",
)  # fmt: skip
@data_option
@compile_options
def command(
    model: Path,
    stated: Stated,
    save: Path | None,
    profile: bool,
    runs: int,
    data: Path | None,
    settings: dict[str, Any],
) -> None:
    """Write one self-contained page of MODEL that opens in any browser, without a network.

    It shows the network as it runs at level off and as it runs fused, side by side: every site that was fused, what is
    in it and what it is expected to save, every site that was refused and why, and where small operators crowd.
    """
    from autofusion.tools import inputs
    from autofusion.tools.view.build import build

    feeds = inputs.load_data(data) if data is not None else None
    target = save if save is not None else Path(f"{model.stem or model.name}.html")
    text = build(model, stated.shapes, settings, feeds, runs if profile else 0, stated.wanted)
    write_text(target, text)
    click.echo(f"{target}: {len(text) / 1e6:.1f} MB")
