"""``autofusion new``: a pack to start from."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("new")
@click.argument("kind", metavar="rules|kernels|frontend")
@click.argument("name")
@click.option("--folder", type=click.Path(path_type=Path), help="Where to write it. Default: autofusion-KIND-NAME.")
def command(kind: str, name: str, folder: Path | None) -> None:
    """Write a complete pack called NAME: entry point, an example of what it provides, and its conformance tests."""
    from autofusion.tools.scaffold import scaffold

    target = scaffold(kind, name, folder)
    click.echo(f"{target}: install it with pip install -e '{target}[test]', then run pytest {target}/tests")
