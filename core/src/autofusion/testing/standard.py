"""What the conformance classes have in common: finding the plugin, and keeping the standard tests standard.

A standard test that an author drops or rewrites says nothing any more, and nobody would notice. So a subclass that does
either cannot be defined. What does not hold yet is stated with a reason: the test runs, is expected to fail (strictly,
so that a repaired one is noticed), and every run shows it::

    known_failures = {"test_numbers[acme.mean]": "bfloat16 is summed in bfloat16"}

The same table in the module that the entry point names is found wherever the plugin is installed, also by
``pytest --pyargs autofusion.testing``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from autofusion.errors import PluginError
from autofusion.plugins.discovery import Installed, installed
from autofusion.plugins.hookspecs import GROUPS
from autofusion.plugins.records import PluginRecord, Status
from autofusion.plugins.registry import Registry, default_registry
from autofusion.testing import isolation

_PROTECTED = ("pytest_generate_tests", "_expect_known_failures")


def _standard(cls: type) -> dict[str, Any]:
    """Name -> the kit's own function, of every standard test that ``cls`` inherits."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("autofusion.testing.") and not base.__module__.endswith(".test_installed"):
            for name, function in vars(base).items():
                if name.startswith("test_") or name in _PROTECTED:
                    found.setdefault(name, function)
    return found


def missing_tests(cls: type) -> list[str]:
    """The standard tests that ``cls`` does not run as they are."""
    standard = _standard(cls)
    return [name for name, function in standard.items() if inspect.getattr_static(cls, name, None) is not function]


_CONTENTS: dict[tuple[type, Registry], list[Any]] = {}
"""What a class tests: kept, since every test asks, and to find an entry point all distributions are read."""


class StandardTests:
    """Base of the conformance classes. ``plugin`` is the name of the entry point to test.

    ``known_failures`` maps tests, as pytest prints them (``test_numbers[acme.mean]``), to why they fail.
    """

    plugin: ClassVar[str] = ""
    known_failures: ClassVar[Mapping[str, str]] = {}
    has_own_cases: ClassVar[bool] = True
    """False where a plugin is tried as installed, without the cases that its own tests bring."""
    group: ClassVar[str] = ""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in missing_tests(cls):
            raise PluginError(
                f"class '{cls.__name__}' drops or overrides the standard test '{name}'; standard tests run as they "
                "are. If it cannot pass yet, say why in 'known_failures', so that every run shows it"
            )

    @classmethod
    def entry_point(cls) -> Installed:
        """The entry point under test; raise PluginError if no installed distribution has it."""
        found = [p for p in installed([cls.group]) if p.name == cls.plugin]
        if not found:
            names = ", ".join(sorted(p.name for p in installed([cls.group]))) or "none"
            raise PluginError(
                f"no entry point '{cls.plugin}' in group '{cls.group}' (there are: {names}); "
                "install the distribution first, as in pip install -e ."
            )
        return found[0]

    @classmethod
    def record(cls) -> PluginRecord:
        """What became of the entry point when plugins were loaded."""
        wanted = cls.entry_point()
        for record in default_registry().records:
            if (record.group, record.name, record.dist) == (cls.group, cls.plugin, wanted.dist):
                return record
        return wanted.record.ended(Status.MISSING, "it was left out when plugins were loaded")

    @classmethod
    def contents(cls) -> list[Any]:
        """The packs or frontends that the plugin provides; empty if it is not loaded."""
        key = cls, default_registry()
        if key not in _CONTENTS:
            loaded = cls.record().status is Status.LOADED
            _CONTENTS[key] = default_registry().provided(cls.group, cls.plugin) if loaded else []
        return list(_CONTENTS[key])

    @classmethod
    def known(cls) -> Mapping[str, str]:
        """The known failures: those that the plugin's own module states, and those of the class."""
        stated = getattr(default_registry().module(cls.group, cls.plugin), "known_failures", {})
        return {**stated, **cls.known_failures}

    @classmethod
    def subject(cls) -> Any:
        """What is under test: what the plugin provides, the first of it if that is a list of several."""
        found = cls.contents()
        if not found:
            raise PluginError(f"plugin '{cls.plugin}' provides nothing to test: {cls.record()}")
        return found[0]

    @classmethod
    def parameters(cls) -> dict[str, list[Any]]:
        """Argument of the tests -> the values that they run over."""
        return {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each value of a parameter."""
        for name, values in self.parameters().items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, values, ids=str)

    def need(self, found: bool, reason: str) -> None:
        """Fail for ``reason`` unless ``found``; skip where only the plugin's own cases could have made it so."""
        if not found and not self.has_own_cases:
            pytest.skip(reason)
        assert found, reason

    @pytest.fixture(autouse=True)
    def _expect_known_failures(self, request: pytest.FixtureRequest) -> None:
        reason = self.known().get(request.node.name)
        if reason:  # without the plugin's own cases, the one that fails may be missing
            request.applymarker(pytest.mark.xfail(reason=reason, strict=self.has_own_cases))

    # ---- tests ----------------------------------------------------------------------------------------------------

    def test_standard_tests_are_complete(self) -> None:
        """Nobody removed a standard test after the class was made."""
        assert missing_tests(type(self)) == []

    def test_known_failures_exist(self, request: pytest.FixtureRequest) -> None:
        """Every known failure names a test of this class."""
        ours = {item.name for item in request.session.items if getattr(item, "cls", None) is type(self)}
        assert sorted(set(self.known()) - ours) == [], "known_failures names tests that do not exist"

    def test_plugin_is_loaded(self) -> None:
        """The entry point loads, and what it provides keeps its contract."""
        record = self.record()
        assert record.status is Status.LOADED, str(record)
        assert self.contents(), f"plugin '{self.plugin}' provides nothing on this machine"

    def test_version_is_the_distributions(self) -> None:
        """Ledgers and locks name the version of the distribution; what runs must not say another one."""
        stated = self.subject().version
        assert stated == self.entry_point().version, (
            f"'{self.subject().name}' says that it is version {stated}, its distribution {self.entry_point().dist} is "
            f"{self.entry_point().version}"
        )

    def test_imports_lightly(self) -> None:
        """Listing plugins imports the entry point's module, so nothing heavy may come with it."""
        found = isolation.imported(self.group, self.plugin, GROUPS[self.group])
        assert not found.error, f"importing plugin '{self.plugin}' alone failed: {found.error}"
        assert not found.heavy, f"plugin '{self.plugin}' imports {', '.join(found.heavy)}; import them inside the hook"

    def test_leaves_core_alone(self) -> None:
        """No function, class or constant of core is another one after the plugin was loaded."""
        found = isolation.imported(self.group, self.plugin, GROUPS[self.group])
        assert not found.changed, f"plugin '{self.plugin}' replaces parts of core: {', '.join(found.changed)}"
