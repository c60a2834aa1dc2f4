"""The standard tests on every installed plugin: ``pytest --pyargs autofusion.testing``.

A plugin is tried without the golden cases, nodes and models that its own tests bring: what needs them is skipped.
"""

from __future__ import annotations

from typing import Any

from autofusion.plugins.discovery import installed
from autofusion.testing.frontends import FrontendTests
from autofusion.testing.kernels import KernelPackTests
from autofusion.testing.rules import RulePackTests
from autofusion.testing.standard import StandardTests

_KINDS: dict[str, type[StandardTests]] = {
    "autofusion.frontends": FrontendTests,
    "autofusion.rules": RulePackTests,
    "autofusion.kernels": KernelPackTests,
}


def _classes() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for point in installed():
        name = f"Test{point.group.removeprefix('autofusion.').title()}_{point.name}"
        keywords = {"plugin": point.name, "has_own_cases": False, "__module__": __name__}
        made[name] = type(name, (_KINDS[point.group],), keywords)
    return made


globals().update(_classes())
