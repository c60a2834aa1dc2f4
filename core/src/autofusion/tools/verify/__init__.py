"""Verify a fused model in three steps, as practitioners do: each site, the outputs, a metric over a data set.

Runs in a child process with a time limit: a kernel that crashes or hangs is a finding, not the end of the verifier.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from autofusion.errors import InputError, ModelError, OptionError, PluginError
from autofusion.tools.child import ERROR, at_least, run_job
from autofusion.tools.inputs import Wanted
from autofusion.tools.verify.job import AGAINST, REFERENCE_RUN, Request
from autofusion.tools.verify.report import Problem, Report, lines, report_of

__all__ = ["AGAINST", "Problem", "Report", "lines", "verify"]

TIMEOUT = 300.0
"""Seconds without any progress after which the child process is ended."""
_OURS = {cls.__name__: cls for cls in (OptionError, InputError, ModelError, PluginError)}


def verify(
    model: str | PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    wanted: Wanted | None = None,
    data: str | PathLike[str] | None = None,
    against: str = "level-off",
    tolerances: Mapping[str, float] | None = None,
    all_steps: bool = False,
    metrics: Sequence[str] = (),
    decode: str = "",
    metric_tolerance: float = 0.0,
    samples: int = 2,
    repeats: int = 3,
    exact: bool = True,
    speed: bool = True,
    slower: float = 2.0,
    seed: int = 0,
    timeout: float = TIMEOUT,
    environ: Mapping[str, str] | None = None,
    **settings: Any,
) -> Report:
    """Verify the model at ``model``, compiled with ``settings`` (keywords of ``autofusion.compile``).

    ``data`` is an ``.npz`` file with an array for each input, or a folder of such files; without it, inputs are made up
    (``shapes`` states open dims). ``against`` is ``level-off``, ``framework`` or ``reference`` (the reference kernels).
    ``tolerances`` maps element types (``f32``) to relative errors. ``metrics`` are ``top1``, ``top5``, ``map``,
    ``characters`` or ``module:function``, and may differ by ``metric_tolerance``. ``slower`` is how many times the time
    of its parts a site may take. ``timeout`` is the longest time without progress in seconds.

    Raises OptionError, InputError, ModelError or PluginError if the question is wrong; a wrong model is a report.
    """
    at_least(1, samples=samples, repeats=repeats)
    at_least(0, timeout=timeout, slower=slower)
    request = Request(
        model=str(Path(model)),
        settings={k: list(v) if isinstance(v, tuple | set | frozenset) else v for k, v in settings.items()},
        shapes={name: list(shape) for name, shape in (shapes or {}).items()},
        wanted=dataclasses.asdict(wanted or Wanted()),
        data="" if data is None else str(Path(data)),
        against=against,
        tolerances=dict(tolerances or {}),
        all_steps=all_steps,
        metrics=tuple(metrics),
        decode=decode,
        samples=samples,
        repeats=repeats,
        seed=seed,
        exact=exact,
        speed=speed,
        slower=slower,
    )
    ended = run_job(
        "autofusion.tools.verify.job:verify_job", dataclasses.asdict(request), timeout=timeout, environ=environ
    )
    early = not (ended.result or {}).get("cases") or ended.doing.endswith(REFERENCE_RUN)
    if ended.status == ERROR and ended.error in _OURS and (early or ended.error == OptionError.__name__):
        raise _OURS[ended.error](ended.detail)
    return report_of(ended, metric_tolerance)
