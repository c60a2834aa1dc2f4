"""``autofusion compile``: a model, compiled, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options, echo_json, json_option, model_argument, shape_option


@click.command("compile")
@model_argument
@shape_option
@click.option(
    "--save", "-o", type=click.Path(path_type=Path), help="The file to write. Default: the model's name, .af."
)
@click.option(
    "--other-shapes",
    type=click.Choice(["plan", "error"]),
    default="plan",
    show_default=True,
    help="What a loaded file does with shapes that it has no plan for: compile them, or refuse them.",
)
@compile_options
@json_option
def command(
    model: Path,
    shapes: tuple[str, ...],
    save: Path | None,
    other_shapes: str,
    as_json: bool,
    settings: dict[str, Any],
) -> None:
    """Compile MODEL and write it to one file: graph, packed weights, plans and machine code.

    Loading it (autofusion.load_artefact) needs the core and the kernel pack only. --shape with the name of an input
    again states another set of shapes: each gets a plan of its own.
    """
    import autofusion
    from autofusion.tools import inputs as made

    session = autofusion.compile(model, **settings)
    sets = _sets(shapes)
    for stated in sets:
        session.prepare(made.parse_shapes(tuple(stated)))
    path = save or model.with_suffix(".af")
    digest = session.save(path, other_shapes=other_shapes)
    told: dict[str, Any] = {
        "artefact": str(path),
        "bytes": path.stat().st_size,
        "digest": digest,
        "plans": [[str(v.type) for v in stage.graph.inputs] for stage in session.executor.stages],
    }
    if as_json:
        echo_json(told)
        return
    click.echo(f"{path}: {told['bytes'] / 1e6:.1f} MB, {len(told['plans'])} plan(s), for {session.context.target.isa}")
    for plan in told["plans"]:
        click.echo(f"  inputs {', '.join(plan)}")
    click.echo(f"digest {digest}: where another user loads it, load_artefact(..., trust=digest) lets its code run")


def _sets(shapes: tuple[str, ...]) -> list[list[str]]:
    """The stated shapes, a new set begun whenever the name of an input comes again."""
    sets: list[list[str]] = []
    names: set[str] = set()
    for text in shapes:
        name = text.rpartition(":")[0]
        if not sets or name in names:
            sets.append([])
            names = set()
        sets[-1].append(text)
        names.add(name)
    return sets
