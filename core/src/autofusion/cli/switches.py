"""``autofusion switches``: which rules the options and settings files leave on; conversion between the file forms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from autofusion.cli.options import compile_options, echo_json, json_option
from autofusion.files import write_text


@click.command("switches")
@click.option(
    "--save",
    "-o",
    type=click.Path(path_type=Path),
    help="Write the switches to this file: .toml (everything), or .json or .cfg (rules only, as CANN reads them).",
)
@compile_options
@json_option
def command(save: Path | None, as_json: bool, settings: dict[str, Any]) -> None:
    """Show which rules are on with these options, or write the options as a settings file.

    A fusion_switch.cfg becomes a TOML file, and the other way round, with --config FILE -o OTHER.
    """
    from autofusion.errors import OptionError
    from autofusion.fusion.rule_switches import Switches
    from autofusion.options import SETTINGS, Options, from_environment, merge, state
    from autofusion.plugins.registry import default_registry
    from autofusion.runtime.cann import write_switches
    from autofusion.runtime.config import names_of, read_settings, write_settings

    packs = default_registry().rule_packs
    config = settings.pop("config")
    stated = state({name: value for name, value in settings.items() if name in SETTINGS})
    merged = merge(read_settings(config, packs), from_environment(os.environ), stated)
    options = Options.of(merged)
    bound = Switches(packs, options).rules()
    off = [b.rule.name for b in bound if b.disabled_by]
    if save is None:
        if as_json:
            echo_json({b.rule.name: b.disabled_by.reason if b.disabled_by else "on" for b in bound})
        else:
            for b in bound:
                click.echo(f"{b.rule.name:36}{'off: ' + b.disabled_by.reason if b.disabled_by else 'on'}")
        return
    if save.suffix == ".toml":
        text = write_settings(merged)
    else:
        if options.disable_sites or options.disable_kernels:
            raise OptionError(f"'{save.name}' can only switch rules; write switches for nodes and kernels to a .toml")
        text = write_switches(off, packs, as_json=save.suffix == ".json", names=names_of(config, packs))
    write_text(save, text)
    click.echo(f"{len(off)} of {len(bound)} rules are off; written to {save}")
