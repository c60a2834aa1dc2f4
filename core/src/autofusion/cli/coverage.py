"""``autofusion rules --coverage``: what the installed rules and kernels fuse of every known pattern."""

from __future__ import annotations

from collections.abc import Sequence

import click

from autofusion.cli.options import echo_json


def show_coverage(name: str | None, against: Sequence[str], spellings: int | None, as_json: bool) -> None:
    """Print the table for the rows that begin with ``name`` (all rows if it is None), or for the rule of that name."""
    from autofusion.errors import OptionError, nearest
    from autofusion.plugins.registry import default_registry
    from autofusion.testing.coverage import variants
    from autofusion.testing.coverage.measure import measure
    from autofusion.testing.coverage.peers import require_peer
    from autofusion.testing.coverage.report import as_data, lines
    from autofusion.testing.coverage.rules import rule_coverage, rule_lines

    for peer in against:
        require_peer(peer)
    packs = default_registry().rule_packs
    rules = {rule.name: pack.name for pack in packs for rule in pack.rules} | {pack.name: pack.name for pack in packs}
    if name in rules:
        wanted = [rule.name for pack in packs for rule in pack.rules if name in (rule.name, pack.name)]
        covered = rule_coverage(packs, wanted)
        if as_json:
            echo_json([{field: getattr(one, field) for field in one.__slots__} for one in covered])
        else:
            click.echo("\n".join(rule_lines(covered)))
        return
    chosen = [v for v in variants() if name is None or v.row.startswith(name)]
    if not chosen:
        known = sorted({v.row.split()[0] for v in variants()})
        raise OptionError(
            f"'{name}' is neither a row ({', '.join(known)}) nor a rule or pack{nearest(str(name), rules)}"
        )
    measured = measure(chosen, against, spellings=spellings)
    if as_json:
        echo_json(as_data(measured))
    else:
        click.echo("\n".join(lines(measured, against)))
