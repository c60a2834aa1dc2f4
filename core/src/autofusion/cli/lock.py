"""``autofusion lock``: pin what is installed, so that a deployment runs exactly that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options
from autofusion.files import write_text


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
@click.option("--remove", multiple=True, metavar="PACK", help="Take this distribution out of the lock. Repeatable.")
@click.option(
    "--requirements",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write no lock, but a requirements file with hashes of what the lock pins; see --wheels.",
)
@click.option(
    "--wheels",
    type=click.Path(path_type=Path),
    default=Path("wheels"),
    show_default=True,
    help="Folder with the archives whose hashes --requirements takes.",
)
@compile_options
def command(
    path: Path,
    upgrade: tuple[str, ...],
    remove: tuple[str, ...],
    requirements: Path | None,
    wheels: Path,
    settings: dict[str, Any],
) -> None:
    """Write a lock: core and packs with versions and digests, what they stand on, kinds, options, and this machine.

    Switches and priorities of an existing lock stay, unless options say otherwise. What the lock says holds under
    `autofusion --locked` (this folder's autofusion.lock), `--locked=FILE`, or with AUTOFUSION_LOCK=FILE.
    """
    from autofusion.plugins.lock import CORE, read
    from autofusion.tools import locking

    if requirements is not None:
        write_text(requirements, locking.requirements_file(read(path), wheels))
        click.echo(f"{requirements}: pip install --require-hashes --no-index --find-links {wheels} -r {requirements}")
        return
    lock, changes = locking.write(path, upgrade, settings, remove)
    for line in changes:
        click.echo(line)
    core = lock.pin(CORE)
    what = f"{len(lock.versions)} packs" + (f", core {core.version}" if core is not None else "")
    click.echo(f"{path}: {what}" + ("" if changes else ", nothing changed"))
