"""``autofusion record``: a baseline that a later ``autofusion check`` compares with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options, shape_option
from autofusion.files import write_text


@click.command("record")
@click.argument("models", nargs=-1, required=True, metavar="MODEL[@NAME:DIMS]...")
@click.option(
    "--save",
    "-o",
    "path",
    type=click.Path(path_type=Path),
    default=Path("baseline.json"),
    show_default=True,
    help="The baseline to write.",
)
@click.option("--seconds", default=4.0, show_default=True, help="Time to measure each model for; 0: do not measure.")
@shape_option
@compile_options
def command(
    models: tuple[str, ...], path: Path, seconds: float, shapes: tuple[str, ...], settings: dict[str, Any]
) -> None:
    """Record what is fused in MODELs, how exact it is and what it gains, before an upgrade.

    A model may carry its own shapes: det.onnx@x:1,3,640,640
    """
    from autofusion.errors import ModelError
    from autofusion.tools import inputs
    from autofusion.tools.provenance import dumps
    from autofusion.tools.record import record

    common = inputs.parse_shapes(shapes)
    chosen = []
    for spec in models:
        name, own = inputs.model_and_shapes(spec)
        if not name.exists():
            raise ModelError(f"there is no model '{name}'")
        chosen.append((name, common | own))
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    data = record(chosen, folder, seconds, settings)
    write_text(path, dumps(data, indent=1) + "\n")
    for model in data["models"]:
        fused = sum(r["verdict"] == "fused" for r in model["records"])
        worst = max(figures["max_over_range"] for figures in model["errors"].values())
        ratio = model["ratio"]
        gain = "" if ratio is None else f", {ratio['median']:.3f} of level off's time"
        click.echo(f"{model['model']}: {fused} sites, largest error {worst:.2e} of the range{gain}")
    click.echo(f"written to {path}")
