"""The runs of a bisection: variants of a compilation, each in a child process, each only once, and counted."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofusion.errors import AutofusionError, InputError, ModelError, OptionError, PluginError, nearest
from autofusion.tools.bisect.job import REFERENCE, Request
from autofusion.tools.child import CRASH, ERROR, HANG, OK, run_job
from autofusion.tools.metrics import NAMES

COMMAND = "command"
FINE = ""
FEW = 4
"""With so few places left, the steps there are judged one by one as well: that tells the rule from the kernel."""
_OURS = {cls.__name__: cls for cls in (OptionError, InputError, ModelError, PluginError)}

_NOT_FOUND = (126, 127)
"""How a shell ends if there is no such program, or it cannot be run."""
_CHECKS = ("verify", "speed", *NAMES)


@dataclass(frozen=True, slots=True)
class Unit:
    """Something that can be left out: a rule at a place (``rule:site``), a rule, or a kernel at a place."""

    rule: str = ""
    site: str = ""
    kernel: str = ""
    nodes: tuple[str, ...] = ()
    label: str = ""
    """The rule with its pack's version."""

    @property
    def switch(self) -> str:
        """What to say to leave it out (or, of a place, to have it alone)."""
        if self.kernel:
            return f"{self.kernel}@{self.site}"
        return f"{self.rule}:{self.site}" if self.site else self.rule


@dataclass(frozen=True, slots=True)
class Variant:
    """What to compile: places (None: all), rules (empty: all), kernels that are left out; ``level`` may be stated."""

    only_sites: tuple[str, ...] | None = None
    only: tuple[str, ...] = ()
    disable_kernels: tuple[str, ...] = ()
    level: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. ``kind`` is what failed first: a step of ``verify``, a metric, ``crash``, ``hang``, ``error``,
    ``command``; empty if all is fine.
    """

    kind: str
    what: str = ""
    problems: tuple[Mapping[str, Any], ...] = ()
    doing: str = ""
    units: tuple[Unit, ...] = ()
    steps: tuple[Mapping[str, Any], ...] = ()
    nodes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


@dataclass(slots=True)
class Runs:
    """Runs variants of ``request``; ``say`` is told about each. ``command`` replaces looking: its exit code counts."""

    request: Request
    timeout: float
    environ: Mapping[str, str]
    say: Callable[[str], None] = lambda line: None
    command: str = ""
    count: int = 0
    log: list[str] = field(default_factory=list)
    _known: dict[tuple[Variant, tuple[str, ...]], Outcome] = field(default_factory=dict)

    def outcome(
        self, variant: Variant, looks: Sequence[str], *, evidence: Collection[str] | None = None, what: str = ""
    ) -> Outcome:
        """Run ``variant``, unless it was run before; the steps at the nodes ``evidence`` are judged one by one."""
        key = (variant, tuple(looks))
        if key not in self._known:
            self.count += 1
            found = self._known[key] = self._run(variant, looks, evidence)
            line = f"run {self.count}: {what}: {found.kind or 'fine'}" + (f" ({found.what})" if found.what else "")
            self.log.append(line)
            self.say(line)
        return self._known[key]

    def _run(self, variant: Variant, looks: Sequence[str], evidence: Collection[str] | None) -> Outcome:
        request = dataclasses.replace(
            self.request,
            looks=list(looks),
            only_sites=None if variant.only_sites is None else list(variant.only_sites),
            only=list(variant.only),
            disable_kernels=list(variant.disable_kernels),
            level=variant.level or self.request.level,
            evidence=None if evidence is None else sorted(evidence),
        )
        ended = run_job(
            "autofusion.tools.bisect.job:bisect_job",
            dataclasses.asdict(request),
            timeout=self.timeout,
            environ=self.environ,
        )
        result: Mapping[str, Any] = ended.result or {}
        if ended.status != OK and ended.doing.startswith(REFERENCE):
            if ended.error in _OURS:
                raise _OURS[ended.error](ended.detail)
            raise AutofusionError(
                f"the reference itself does not run ({ended.detail}, while {ended.doing}); "
                "try --against reference, which runs the reference kernels alone"
            )
        problems = tuple(result.get("problems", ()))
        first = next((p for look in looks for p in problems if p["step"] == look), None)
        if ended.status in (CRASH, HANG, ERROR):
            kind, what = ended.status, f"{ended.detail}, while {ended.doing}"
        elif first is not None:
            kind, what = str(first["step"]), f"{first['where']}: {first['what']}"
        else:
            kind, what = FINE, ""
        if not kind and self.command:
            kind, what = self._commanded(variant)
        return Outcome(
            kind,
            what,
            problems,
            ended.doing,
            tuple(
                Unit(u["rule"], u["site"], nodes=tuple(u["nodes"]), label=u["label"]) for u in result.get("units", ())
            ),
            tuple(result.get("steps", ())),
            tuple(result.get("nodes", ())),
            tuple(result.get("rules", ())),
        )

    def _commanded(self, variant: Variant) -> tuple[str, str]:
        """Run the user's command with the variant as its settings; what it exits with other than 0 is a failure."""
        from autofusion.runtime.config import OVERRIDES, VARIABLE, Settings, write_settings

        own = self.request.settings
        settings = Settings(
            level=variant.level or own.get("level"),
            threads=own.get("threads"),
            only=tuple(variant.only or own.get("only", ())),
            disable=tuple(own.get("disable", ())),
            disable_sites=tuple(own.get("disable_sites", ())),
            disable_kernels=(*own.get("disable_kernels", ()), *variant.disable_kernels),
            memory_budget=own.get("memory_budget"),
            numerics=own.get("numerics"),
            only_sites=variant.only_sites,
        )
        file = Path(self.request.folder) / "variant.toml"
        file.write_text(write_settings(settings), encoding="utf-8")
        # What the environment states would win over the file.
        environ = {k: v for k, v in (os.environ | dict(self.environ)).items() if k not in OVERRIDES.values()}
        child = subprocess.Popen(
            self.command,
            shell=True,  # the user's own command line, as they would type it
            env={**environ, VARIABLE: str(file)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = child.wait(self.timeout)
        except subprocess.TimeoutExpired:
            return HANG, f"the command did not end within {self.timeout:g} s"
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            child.wait()
        if code in _NOT_FOUND:
            raise OptionError(
                f"cannot run the command '{self.command}' (exit code {code}){nearest(self.command, _CHECKS)}; expected "
                f"{', '.join(_CHECKS)}, MODULE:FUNCTION or a command"
            )
        return (COMMAND, f"the command exited with {code}") if code else (FINE, "")
