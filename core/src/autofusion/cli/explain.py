"""``autofusion explain``: what was fused, what was not and why, which kernel runs what; and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import Stated, compile_options, echo_json, input_options, json_option, model_argument


@click.command("explain")
@model_argument
@click.argument("node", required=False)
@input_options
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="An .npz file with an array for each input, for models of which a part is only planned as it runs.",
)
@click.option("--graph", is_flag=True, help="Print the fused graph in the text form of the IR as well.")
@click.option("--diff", "compared", is_flag=True, help="Compare two: explain --diff A B (see above).")
@compile_options
@json_option
def command(
    model: Path,
    node: str | None,
    stated: Stated,
    data: Path | None,
    graph: bool,
    compared: bool,
    as_json: bool,
    settings: dict[str, Any],
) -> None:
    """Explain what Autofusion does with MODEL, or with one source NODE (or site, or rule) of it.

    With --diff, MODEL and NODE are the two sides of a comparison: sites lost, gained and changed. Each is a model, a
    model at a level (net.onnx@basic), or a file that explain --json wrote, by another version or on another machine.
    """
    from autofusion.errors import OptionError
    from autofusion.tools import explain

    if compared:
        if node is None:
            raise OptionError("--diff compares two: explain --diff A B, each a model, MODEL@LEVEL or a ledger.json")
        _diff(str(model), node, stated, data, settings, as_json)
        return
    session, baseline = _compile(model, stated, data, settings)
    if as_json:
        from autofusion.tools.provenance import report

        told = explain.as_data(session, baseline)
        if node is not None:
            explain.node(session, node)
            told["records"] = [r for r in told["records"] if _names(r, node)]
            told["steps"] = [s for s in told["steps"] if node in (*s["origin"], s["node"])]
        echo_json(report(told, model, settings))
        return
    lines = explain.whole(session, baseline) if node is None else explain.node(session, node)
    click.echo("\n".join(lines))
    if graph:
        from autofusion.ir.text import to_text

        for plan in explain.plans(session):
            click.echo(to_text(plan.graph, with_names=True))


def _compile(model: Path, stated: Stated, data: Path | None, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    import autofusion
    from autofusion.tools import baseline, inputs

    feeds = inputs.load_data(data) if data is not None else None
    session = autofusion.compile(model, shapes=stated.shapes or None, **settings)
    if feeds is None and stated.wanted.names:
        feeds = stated.made(session.graph)
    baseline.planned(session, stated.shapes, feeds)
    return session, baseline.unfused(session, feeds)


def _names(record: Mapping[str, Any], name: str) -> bool:
    made = record.get("fused_node", "").split(", ")
    return name in (*record["nodes"], record["site"], record["rule"].split("@")[0], *made)


def _diff(a: str, b: str, stated: Stated, data: Path | None, settings: Mapping[str, Any], as_json: bool) -> None:
    from autofusion.tools import ledger_diff

    left, right = (_ledger(side, stated, data, settings) for side in (a, b))
    found = ledger_diff.diff(left, right, (Path(a).name, Path(b).name))
    if as_json:
        from autofusion.tools.provenance import report

        echo_json(report(ledger_diff.as_data(found), None, settings))
    else:
        click.echo("\n".join(ledger_diff.lines(found)))


def _ledger(side: str, stated: Stated, data: Path | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    from autofusion.tools import explain, ledger_diff

    if side.endswith(".json"):
        return ledger_diff.read(Path(side))
    path, at, level = side.rpartition("@")
    if at and not Path(side).exists():
        session, _ = _compile(Path(path), stated, data, {**settings, "level": level})
    else:
        session, _ = _compile(Path(side), stated, data, settings)
    return explain.as_data(session)
