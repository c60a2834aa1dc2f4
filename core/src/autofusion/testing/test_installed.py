"""The standard tests on every installed plugin: ``pytest --pyargs autofusion.testing``.

A plugin is tried without the golden cases, nodes and models that its own tests bring: what needs them is skipped. One
that changes core is not loaded beside the others, whose tests would say nothing any more.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from autofusion.plugins.discovery import SUBSET, Installed, installed
from autofusion.plugins.hookspecs import GROUPS
from autofusion.testing import isolation
from autofusion.testing.frontends import FrontendTests
from autofusion.testing.kernels import KernelPackTests
from autofusion.testing.rules import RulePackTests
from autofusion.testing.standard import StandardTests

_KINDS: dict[str, type[StandardTests]] = {
    "autofusion.frontends": FrontendTests,
    "autofusion.rules": RulePackTests,
    "autofusion.kernels": KernelPackTests,
}


def _changes_core(point: Installed) -> bool:
    return bool(isolation.imported(point.group, point.name, GROUPS[point.group]).changed)


def _classes() -> dict[str, Any]:
    made: dict[str, Any] = {}
    points = installed()
    with ThreadPoolExecutor() as pool:
        unsound = list(pool.map(_changes_core, points))
    if any(unsound) and SUBSET not in os.environ:
        os.environ[SUBSET] = ",".join(p.dist for p, bad in zip(points, unsound, strict=True) if not bad)
    for point in points:
        name = f"Test{point.group.removeprefix('autofusion.').title()}_{point.name}"
        keywords = {"plugin": point.name, "has_own_cases": False, "__module__": __name__}
        made[name] = type(name, (_KINDS[point.group],), keywords)
    return made


globals().update(_classes())
