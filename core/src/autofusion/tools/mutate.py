"""Try the tests of a plugin on mutants of its modules: which changes of its meaning would they not notice?

The tests run by pytest in a process forked for each mutant, where the changed module stands in for the plugin's own.
Only what tests the rules that a module serves is run, the quickest first, up to the first failure; a mutant that does
not end counts as noticed. Needs a system that can fork.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import select
import signal
import sys
import time
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofusion.errors import PluginError
from autofusion.tools.mutation import Mutant, mutants_of

FOCUS = "AUTOFUSION_TEST_RULES"
"""Environment variable: the rules that the kit's tests of single rules run over, with commas; empty: all."""
_QUICK = ("test_golden", "test_fires", "test_variants", "test_near_misses", "test_numbers", "test_spellings")
"""Tests of the kit that most often fail, in the order in which they are run before the others of the kit."""
_BLIND = frozenset({"test_imports_lightly", "test_leaves_core_alone", "test_version_is_the_distributions"})
"""Tests in processes of their own, where the module is as it was."""
_SPARE_SECONDS, _SPARE_FACTOR = 20.0, 4.0
"""A mutant may take so much longer than the tests of the plugin as it is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one mutant: ``noticed_by`` is the first test that failed, empty if none did."""

    mutant: Mutant
    noticed_by: str
    seconds: float


@dataclass(slots=True)
class Report:
    """What became of all mutants. ``left`` were not tried, since time was up or a sample was asked for."""

    outcomes: list[Outcome] = field(default_factory=list)
    left: int = 0

    @property
    def survivors(self) -> list[Mutant]:
        """Mutants that no test noticed and of which the author does not say that they mean the same."""
        return [o.mutant for o in self.outcomes if not o.noticed_by and not o.mutant.same]

    @property
    def same(self) -> list[Mutant]:
        """Mutants that no test noticed, for a reason that the author gives."""
        return [o.mutant for o in self.outcomes if not o.noticed_by and o.mutant.same]

    @property
    def noticed(self) -> int:
        """How many mutants a test noticed."""
        return sum(1 for o in self.outcomes if o.noticed_by)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a changed module in place of the one of that name."""

    def __init__(self, name: str, path: Path, code: types.CodeType) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The changed module's, for its name."""
        if fullname != self._name:
            return None
        folder = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=self, submodule_search_locations=folder
        )

    def create_module(self, spec: Any) -> None:
        """None: an ordinary module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the changed code."""
        exec(self._code, module.__dict__)


class _Watcher:
    """Leaves out tests that cannot see the change, runs those first that most often do, keeps the first failure."""

    def __init__(self) -> None:
        self.failed = ""
        self.passed = 0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        def place(item: Any) -> int:
            name = str(item.name).split("[")[0]
            if name in _QUICK:
                return _QUICK.index(name)
            return len(_QUICK) + (name == "test_networks")

        items[:] = sorted((i for i in items if i.name.split("[")[0] not in _BLIND), key=place)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid.split("::", 1)[-1]
        self.passed += report.when == "call" and report.passed

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = f"collecting {report.nodeid}"


class Mutation:
    """Mutants of the plugin whose modules are those of ``package``, tried by the tests at ``tests``.

    Nothing of the package may have been imported in this process, and no thread may run. Raises PluginError if the
    tests do not pass as they are.
    """

    def __init__(self, group: str, plugin: str, package: str, tests: Sequence[Path]) -> None:
        self._group, self._plugin, self._package, self._tests = group, plugin, package, list(tests)
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise PluginError(f"package '{package}' of plugin '{plugin}' has no source that could be changed")
        root = Path(spec.origin)
        self._files = {package: root}
        if root.name == "__init__.py":
            for path in sorted(root.parent.rglob("*.py")):
                parts = path.relative_to(root.parent).with_suffix("").parts
                self._files[".".join((package, *(p for p in parts if p != "__init__")))] = path
        if any(name in sys.modules for name in self._files):
            raise PluginError(f"package '{package}' is imported already; its mutants need a process of their own")
        self.mutants = [m for name, path in self._files.items() for m in mutants_of(path.read_text(), name)]
        started = time.perf_counter()
        first = self._forked(None, frozenset(), limit=3600.0)
        if first.get("failed") or not first.get("passed"):
            what = first.get("failed") or "no test was found"
            raise PluginError(f"the tests of plugin '{plugin}' do not pass as they are: {what}")
        self._seconds = time.perf_counter() - started
        self._serves: Mapping[str, list[str]] = first["serves"]
        for name in first["modules"]:
            with contextlib.suppress(Exception):
                importlib.import_module(name)

    def run(self, seconds: float, sample: int = 0, only: str = "", seed: int = 0) -> Report:
        """Try mutants until ``seconds`` are over: all, or ``sample`` of them; those whose text contains ``only``.

        Raises PluginError if the tests do not pass any more at the end, without a mutant.
        """
        wanted = [m for m in self.mutants if only in str(m)]
        if sample and sample < len(wanted):
            chosen = set(random.Random(seed).sample(range(len(wanted)), sample))
            wanted = [m for at, m in enumerate(wanted) if at in chosen]
        report, end = Report(), time.perf_counter() + seconds
        for mutant in wanted:
            if time.perf_counter() > end:
                break
            started = time.perf_counter()
            focus = frozenset(self._serves.get(mutant.module, ()))
            found = self._forked(mutant, focus, limit=_SPARE_SECONDS + _SPARE_FACTOR * self._seconds)
            report.outcomes.append(Outcome(mutant, str(found["failed"]), time.perf_counter() - started))
        report.left = len(self.mutants) - len(report.outcomes)
        # Files that were edited meanwhile make every test fail, and every mutant seem noticed.
        last = self._forked(None, frozenset(), limit=3600.0)["failed"]
        if last:
            raise PluginError(f"without any mutant the tests do not pass any more: {last}; the mutants say nothing")
        return report

    # ---- processes ----------------------------------------------------------------------------------------------

    def _forked(self, mutant: Mutant | None, focus: frozenset[str], limit: float) -> dict[str, Any]:
        """What a child says of the tests: ``failed`` names the first failure."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            try:
                os.setpgid(0, 0)
                os.write(writer, json.dumps(self._tried(mutant, focus)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader, "rb") as stream:
            answer_bytes, ended = b"", time.monotonic() + limit
            while select.select([stream], [], [], max(0.0, ended - time.monotonic()))[0]:
                chunk = os.read(stream.fileno(), 1 << 16)
                answer_bytes += chunk
                if not chunk:
                    break
            else:
                os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not answer_bytes:
            return {"failed": "it did not end" if time.monotonic() >= ended else "the process died"}
        answer: dict[str, Any] = json.loads(answer_bytes)
        return answer

    def _tried(self, mutant: Mutant | None, focus: frozenset[str]) -> dict[str, Any]:
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        import pytest

        before = set(sys.modules)
        os.environ[FOCUS] = ",".join(sorted(focus))
        if mutant is not None:
            path = self._files[mutant.module]
            code = compile(mutant.tree(), str(path), "exec")
            sys.meta_path.insert(0, _Finder(mutant.module, path, code))
        watcher = _Watcher()
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings="]
        code_of_end = pytest.main([*options, *map(str, self._tests)], plugins=[watcher])
        failed = watcher.failed or ("" if code_of_end in (0, 5) else f"pytest ended with {code_of_end}")
        answer: dict[str, Any] = {"failed": failed, "passed": watcher.passed}
        if mutant is None and not failed:
            heavy = {name for name in set(sys.modules) - before if not self._is_own(name)}
            answer |= {"serves": self._served(), "modules": sorted(heavy)}
        return answer

    def _is_own(self, name: str) -> bool:
        module = sys.modules[name]
        file = getattr(module, "__file__", None) or ""
        tests = any(Path(file).is_relative_to(t if t.is_dir() else t.parent) for t in self._tests)
        return name in self._files or tests or not file or "conftest" in name

    def _served(self) -> dict[str, list[str]]:
        """Module -> the rules whose code it has or is used by, as far as the pack has rules."""
        from autofusion.plugins.registry import default_registry

        found: dict[str, list[str]] = {}
        for pack in default_registry().provided(self._group, self._plugin):
            for rule in getattr(pack, "rules", ()):
                for module in self._used(_modules_of(rule) | self._holding(rule)):
                    found.setdefault(module, []).append(rule.name)
        return found

    def _holding(self, rule: Any) -> set[str]:
        loaded = [name for name in self._files if name in sys.modules]
        return {name for name in loaded if any(value is rule for value in vars(sys.modules[name]).values())}

    def _used(self, modules: Iterable[str]) -> set[str]:
        """The modules, and those of the package whose functions, classes and values they use."""
        found, left = set(), [name for name in modules if name in self._files]
        while left:
            name = left.pop()
            if name in found or name not in sys.modules:
                continue
            found.add(name)
            values = vars(sys.modules[name]).values()
            used = {getattr(v, "__name__" if isinstance(v, types.ModuleType) else "__module__", "") for v in values}
            left += [other for other in used if other in self._files]
        return found


def _modules_of(rule: Any) -> set[str]:
    """The modules of the functions that a rule calls."""
    from autofusion.rules.pattern import walk

    functions = [getattr(rule, "rewrite", None), getattr(rule, "grow", None)]
    if hasattr(rule, "pattern"):
        for part in walk(rule.pattern):
            functions += [getattr(part, "where", None), *(value for _, value in getattr(part, "attrs", ()))]
    return {f.__module__ for f in functions if callable(f) and isinstance(getattr(f, "__module__", None), str)}
