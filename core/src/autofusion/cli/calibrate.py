"""``autofusion calibrate``: measure this machine, so that the cost model chooses by what it really does."""

from __future__ import annotations

from pathlib import Path

import click

from autofusion.cli.options import echo_json, json_option


@click.command("calibrate")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Target file to write. Default: the user's own.")
@json_option
def command(output: Path | None, as_json: bool) -> None:
    """Measure this machine's rates and keep them; every later compilation uses them. Best on a quiet machine."""
    from autofusion.cost import calibrate, detect, store

    detected = detect.detect()
    measured = calibrate.calibrate(detected)
    path = output or store.default_path()
    store.save(measured, path)
    if as_json:
        echo_json({"path": str(path), **{name: getattr(measured, name) for name in store.MEASURED}})
        return
    for name in store.MEASURED:
        value, before = getattr(measured, name), getattr(detected, name)
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        click.echo(f"  {name:18} {shown}" + (f"  (detected {before:.4g})" if isinstance(before, float) else ""))
    click.echo(f"written to {path}")
