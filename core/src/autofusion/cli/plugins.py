"""``autofusion plugins``: every installed plugin, loaded or not, and why not; where rules of different packs meet."""

from __future__ import annotations

import sys
from typing import Any

import click

from autofusion.cli.options import echo_json, json_option


@click.command("plugins")
@click.option("--overlaps", "all_overlaps", is_flag=True, help="List every overlap between rules of different packs.")
@json_option
def command(all_overlaps: bool, as_json: bool) -> None:
    """List installed frontends, rule packs and kernel packs. Exits with 1 if one of them could not be loaded.

    Also told: rules whose fused kind no installed kernel pack runs (they are skipped), and rules of different packs
    that may start at the same node without their priorities saying which goes first.
    """
    from autofusion.cost.detect import detect
    from autofusion.fusion.overlaps import overlaps, unserved
    from autofusion.plugins.discovery import unread
    from autofusion.plugins.registry import default_registry

    registry = default_registry()
    records = [*registry.records, *unread()]
    lock = registry.lock_file
    priorities: Any = lock.fusion.get("priorities") if lock is not None else None
    meeting = overlaps(registry.rule_packs, priorities)
    missing = unserved(registry.rule_packs, registry.kernel_packs(detect()))
    shown = [o for o in meeting if all_overlaps or not o.decided]
    if as_json:
        fields = ("group", "name", "dist", "version", "status", "detail")
        echo_json(
            {
                "format": 1,
                "plugins": [{field: str(getattr(r, field)) for field in fields} for r in records],
                "without_kernel": [
                    {"rule": m.rule, "kind": m.kind, "version": m.version, "reason": m.reason} for m in missing
                ],
                "overlaps": [
                    {"first": o.first, "second": o.second, "operators": list(o.ops), "precedence": o.why}
                    for o in meeting
                ],
            }
        )
    else:
        columns = [(str(r.status), r.group, r.name, f"{r.dist}=={r.version}") for r in records]
        widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
        for r, cells in zip(records, columns, strict=True):
            aligned = "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
            click.echo(f"{aligned}  {r.detail}".rstrip())
        if not records:
            click.echo(
                "no plugin is installed: "
                "pip install autofusion-frontend-onnx autofusion-rules-conv autofusion-kernels-cpu ..."
            )
        for line in (*missing, *shown):
            click.echo(str(line))
        if len(shown) < len(meeting):
            click.echo(f"{len(meeting) - len(shown)} other overlaps are settled by priorities (--overlaps lists them)")
    if any(str(r.status) != "loaded" for r in records):
        sys.exit(1)
