"""``autofusion cache``: what is kept of compiled kernels, and how to fill or empty it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options, echo_json, json_option, shape_option


@click.group("cache")
def command() -> None:
    """The compiled kernels that are kept on disk between processes.

    AUTOFUSION_CACHE names the folders, separated as in PATH: kernels are written to the first and read from all.
    """


@command.command("info")
@json_option
def info(as_json: bool) -> None:
    """Show the folders, what they hold, and whether they are used."""
    from autofusion.tools.warming import caching_packs

    rows = [(name, folder) for name, pack in caching_packs().items() for folder in pack.cache_folders()]
    if as_json:
        fields = ("kernels", "nbytes", "is_first", "problem")
        echo_json([{"pack": n, "path": str(f.path), **{k: getattr(f, k) for k in fields}} for n, f in rows])
        return
    for name, folder in rows:
        use = f"not used: it {folder.problem}" if folder.problem else "written to" if folder.is_first else "only read"
        click.echo(f"{name}  {folder.path}  {folder.kernels} kernels, {_size(folder.nbytes)}  ({use})")


@command.command("clean")
def clean() -> None:
    """Remove all kernels from the first folder; they are compiled again when a model needs them."""
    from autofusion.tools.warming import caching_packs

    for name, pack in caching_packs().items():
        before = pack.cache_folders()[0]
        pack.clean_cache()
        click.echo(f"{name}  {before.path}  removed {before.kernels} kernels, {_size(before.nbytes)}")


@command.command("warm")
@click.argument("models", nargs=-1, required=True, metavar="MODEL[@NAME:DIMS]...")
@shape_option
@click.option("--shared", is_flag=True, help="Let every user read the kernels: for an image whose program is not root.")
@compile_options
@json_option
def warm(
    models: tuple[str, ...], shapes: tuple[str, ...], shared: bool, settings: dict[str, Any], as_json: bool
) -> None:
    """Compile what MODELs need and keep it, so that a first call compiles nothing.

    For an image, on a machine with the processor that it will run on: name a folder of the image first while it is
    built, and second (to be read) in its environment. A model may carry shapes of its own: det.onnx@x:1,3,640,640.
    Most kernels serve every size, but not all: state the shapes that are typical.
    """
    from autofusion.tools import warming
    from autofusion.tools.inputs import parse_shapes

    common = parse_shapes(shapes)
    rows = []
    for spec in models:
        name, *own = spec.split("@")
        warmed = warming.warm(Path(name), common | parse_shapes(own), settings)
        rows.append({"model": name, "compiled": warmed.compiled, "found": warmed.found, "seconds": warmed.seconds})
        if not as_json:
            click.echo(f"{name}: {warmed.compiled} kernels compiled, {warmed.found} found, {warmed.seconds:.1f} s")
    if shared:
        for pack in warming.caching_packs().values():
            pack.share_cache()
    if as_json:
        echo_json(rows)


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f} MiB"
