"""``autofusion rules``: every installed rule."""

from __future__ import annotations

import click

from autofusion.cli.options import echo_json, json_option


@click.command("rules")
@click.argument("name", required=False)
@click.option("--kinds", is_flag=True, help="List the fused kinds that rules emit and kernels run, as a table.")
@click.option(
    "--coverage",
    is_flag=True,
    help="Count the steps left of small graphs of every known pattern, in many spellings, and check their numbers; "
    "NAME may be a row (A1), a group (A), a rule or a pack.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="RUNTIME",
    help="With --coverage: also count the steps of onnxruntime or openvino. Repeatable.",
)
@click.option("--spellings", type=int, help="With --coverage: at most so many spellings besides a graph's own.")
@json_option
def command(
    name: str | None, kinds: bool, coverage: bool, against: tuple[str, ...], spellings: int | None, as_json: bool
) -> None:
    """List the installed rules, or say what the rule NAME does."""
    if kinds:
        _list_kinds(as_json)
        return
    if coverage:
        from autofusion.cli.coverage import show_coverage

        show_coverage(name, against, spellings, as_json)
        return
    from autofusion.errors import OptionError, nearest
    from autofusion.plugins.registry import default_registry
    from autofusion.rules.rule import FuseRule

    found = [(pack, rule) for pack in default_registry().rule_packs for rule in pack.rules]
    if name is not None:
        names = [rule.name for _, rule in found]
        if name not in names:
            raise OptionError(f"there is no rule '{name}'{nearest(name, names)}")
        found = [(pack, rule) for pack, rule in found if rule.name == name]
    data = [
        {
            "rule": rule.name,
            "version": pack.version,
            "stage": rule.stage.value,
            "level": rule.level.name.lower(),
            "priority": rule.priority,
            "kind": rule.kind.name if isinstance(rule, FuseRule) else "",
            "doc": rule.doc,
        }
        for pack, rule in found
    ]
    if as_json:
        echo_json({"format": 1, "rules": data})
    elif name is not None:
        only = data[0]
        click.echo(
            f"{only['rule']}@{only['version']}  stage {only['stage']}, level {only['level']}"
            + (f", makes '{only['kind']}'" if only["kind"] else "")
        )
        click.echo(str(only["doc"]).strip())
    else:
        for row in data:
            summary = str(row["doc"]).strip().splitlines()[0] if row["doc"] else ""
            click.echo(f"{row['rule']:32}{row['stage']:14}{row['level']:7}{summary}")


def _list_kinds(as_json: bool) -> None:
    from autofusion.cost.detect import detect
    from autofusion.kinds import ANY_KIND, table
    from autofusion.plugins.registry import default_registry

    registry = default_registry()
    found = {kind.name: kind for pack in registry.kernel_packs(detect()) for kind in pack.kinds}
    found.pop(ANY_KIND.name, None)
    # Of a kind that both sides state, the rules' statement stands: it is what they emit.
    found |= {kind.name: kind for pack in registry.rule_packs for kind in pack.kinds}
    if as_json:
        rows = [
            {"kind": kind.name, "version": kind.version, "anchors": list(kind.anchors), "body": kind.body}
            for _, kind in sorted(found.items())
        ]
        echo_json({"format": 1, "kinds": rows})
    else:
        click.echo(table(found.values()), nl=False)
