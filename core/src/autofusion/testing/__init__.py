"""The conformance kit: subclass one class, name your plugin, and inherit the tests. Needs pytest.

    from autofusion.testing import RulePackTests

    class TestAcme(RulePackTests):
        plugin = "acme"

``pytest --pyargs autofusion.testing`` runs the standard tests against every installed plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autofusion.testing.frontends import FrontendTests
    from autofusion.testing.kernels import KernelPackTests
    from autofusion.testing.rules import RulePackTests

__all__ = ["FrontendTests", "KernelPackTests", "RulePackTests"]

_HOMES = {"FrontendTests": "frontends", "KernelPackTests": "kernels", "RulePackTests": "rules"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f"autofusion.testing.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'autofusion.testing' has no attribute '{name}'")
