"""``autofusion test-pack``: run a plugin's tests, and see what they would not notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from autofusion.cli.options import echo_json, json_option
from autofusion.errors import PluginError
from autofusion.plugins.discovery import Installed, installed
from autofusion.plugins.hookspecs import GROUPS


@click.command("test-pack")
@click.argument("name")
@click.option(
    "--tests",
    "folders",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Where its tests are; default: 'tests' of the project, where it is installed as editable.",
)
@click.option(
    "--group",
    "kind",
    type=click.Choice([g.removeprefix("autofusion.") for g in GROUPS]),
    help="Which of several plugins of that name.",
)
@click.option("--mutate", is_flag=True, help="Take one condition, attribute or guard away at a time, and test that.")
@click.option("--seconds", default=600.0, show_default=True, help="Try no more mutants after so many seconds.")
@click.option("--sample", default=0, help="Try so many mutants, chosen at random (the same ones again); 0: all.")
@click.option("--only", default="", help="Try mutants whose line in the report contains this text.")
@json_option
def command(
    name: str,
    folders: tuple[Path, ...],
    kind: str | None,
    mutate: bool,
    seconds: float,
    sample: int,
    only: str,
    as_json: bool,
) -> None:
    """Run the tests of plugin NAME (the name of its entry point). Exits with 1 if a test fails, or a mutant survives.

    A mutant that means the same is named on its line of source or on the line above: "# same without: REASON".
    """  # fmt: skip
    point = _find(name, kind)
    tests = [path.resolve() for path in folders] or _tests_of(point)
    if not mutate:
        sys.exit(min(1, subprocess.run([sys.executable, "-m", "pytest", *map(str, tests)], check=False).returncode))
    from autofusion.tools.mutate import Mutation

    mutation = Mutation(point.group, name, point.entry_point.module.split(".")[0], tests)
    report = mutation.run(seconds, sample, only)
    counts = {"mutants": len(mutation.mutants), "tried": len(report.outcomes), "noticed": report.noticed}
    if as_json:
        lists = {"survived": report.survivors, "same": report.same}
        rows = {
            key: [
                {"module": m.module, "line": m.line, "function": m.function, "change": m.change, "reason": m.same}
                for m in mutants
            ]
            for key, mutants in lists.items()
        }
        echo_json({"format": 1, "plugin": name, "version": point.version, **counts, **rows})
    else:
        for mutant in report.same:
            click.echo(f"same      {mutant} ({mutant.same})")
        for mutant in report.survivors:
            click.echo(f"survived  {mutant}")
        left = f", {report.left} not tried" if report.left else ""
        ends = f"{report.noticed} noticed, {len(report.survivors)} survived, {len(report.same)} mean the same{left}"
        click.echo(f"{counts['mutants']} mutants of '{name}' {point.version}: {ends}")
    if report.survivors:
        sys.exit(1)


def _find(name: str, kind: str | None) -> Installed:
    groups = list(GROUPS) if kind is None else [f"autofusion.{kind}"]
    found = [point for point in installed(groups) if point.name == name]
    if not found:
        names = ", ".join(sorted({point.name for point in installed(groups)})) or "none"
        raise PluginError(f"no plugin '{name}' is installed (there are: {names})")
    if len(found) > 1:
        raise PluginError(f"'{name}' is installed as {' and '.join(p.group for p in found)}; choose one with --group")
    return found[0]


def _tests_of(point: Installed) -> list[Path]:
    """The folder 'tests' beside or above the plugin's source."""
    import importlib.util

    spec = importlib.util.find_spec(point.entry_point.module.split(".")[0])
    for folder in Path(spec.origin).resolve().parents if spec is not None and spec.origin is not None else ():
        if (folder / "pyproject.toml").exists() and (folder / "tests").is_dir():
            return [folder / "tests"]
    raise PluginError(f"the tests of plugin '{point.name}' are not beside its source; say where they are with --tests")
