"""``autofusion lock``: pin what is installed, so that a deployment runs exactly that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options


@click.command("lock")
@click.option(
    "--save",
    "-o",
    "path",
    type=click.Path(path_type=Path),
    default=Path("autofusion.lock"),
    show_default=True,
    help="The lock to write. Several deployments keep several locks.",
)
@click.option(
    "--upgrade",
    multiple=True,
    metavar="PACK",
    help="Only take over this distribution as it is installed now; all else stays as locked. Repeatable.",
)
@compile_options
def command(path: Path, upgrade: tuple[str, ...], settings: dict[str, Any]) -> None:
    """Write a lock: packs with versions and digests, kinds, rule switches and priorities, and this machine.

    Switches and priorities of an existing lock stay, unless options say otherwise. What the lock says holds under
    `autofusion --locked` (this folder's autofusion.lock), `--locked=FILE`, or with AUTOFUSION_LOCK=FILE.
    """
    from autofusion.tools import locking

    lock, changes = locking.write(path, upgrade, settings)
    for line in changes:
        click.echo(line)
    click.echo(f"{path}: {len(lock.pins)} packs, core {lock.core}" + ("" if changes else ", nothing changed"))
