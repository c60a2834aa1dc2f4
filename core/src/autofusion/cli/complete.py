"""What the shell may complete: levels, classes of numerics, rules and packs, and the inputs of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _starting(names: Iterable[str], text: str) -> list[str]:
    return sorted(name for name in names if name.startswith(text))


def levels(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Names of levels."""
    from autofusion.rules.level import Level

    return _starting((level.name.lower() for level in Level), text)


def numerics(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Names of classes of numerics."""
    from autofusion.numerics import Numerics

    return _starting((each.value for each in Numerics), text)


def rules(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Rules and packs of rules."""
    from autofusion.plugins.registry import default_registry

    packs = default_registry().rule_packs
    return _starting({name for pack in packs for name in (pack.name, *(rule.name for rule in pack.rules))}, text)


def inputs(mark: str) -> Complete:
    """Inputs of the model, with ``mark`` behind each; nothing if the model is not stated yet or cannot be read."""

    def complete(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
        from autofusion.errors import AutofusionError
        from autofusion.runtime.compile import load

        # An option without its value ends the reading of the line: the model is among what was not read then.
        models = [context.params.get("model"), *(context.params.get("models") or ()), *context.args]
        model = next((each for each in models if each and Path(each).exists()), None)
        if model is None:
            return []
        try:
            return _starting((f"{value.name}{mark}" for value in load(model).inputs), text)
        except (AutofusionError, OSError):
            return []

    return complete


OF_OPTIONS: dict[str, Complete] = {"level": levels, "numerics": numerics, "only": rules, "disable": rules}
"""Options of a compilation whose values are completed."""
