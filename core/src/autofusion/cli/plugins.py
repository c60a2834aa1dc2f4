"""``autofusion plugins``: every installed plugin, loaded or not, and why not."""

from __future__ import annotations

import sys

import click

from autofusion.cli.options import echo_json, json_option


@click.command("plugins")
@json_option
def command(as_json: bool) -> None:
    """List installed frontends, rule packs and kernel packs. Exits with 1 if one of them could not be loaded."""
    from autofusion.plugins.registry import default_registry

    records = default_registry().records
    if as_json:
        fields = ("group", "name", "dist", "version", "status", "detail")
        echo_json([{field: str(getattr(r, field)) for field in fields} for r in records])
    else:
        for r in records:
            click.echo(f"{r.status!s:13}{r.group:22}{r.name:14}{r.dist}=={r.version}  {r.detail}".rstrip())
        if not records:
            click.echo(
                "no plugin is installed: "
                "pip install autofusion-frontend-onnx autofusion-rules-conv autofusion-kernels-cpu ..."
            )
    if any(str(r.status) != "loaded" for r in records):
        sys.exit(1)
