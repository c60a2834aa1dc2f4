"""Faults that one batch, ordinary numbers, one thread or one run do not show; rules that go wrong together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autofusion.tools.bisect import Report as Found
from autofusion.tools.bisect import bisect, lines
from autofusion.tools.verify import Report, verify
from tests.tools.test_faults import run_script

SHAPES = {"x": (1, 24, 16, 16)}
KERNELS = {
    "last_block": "groups1",
    "second_image": "groups0",
    "stale": "groups1",
    "truncated": "groups2",
    "off_by_one": "groups1",
    "second_run": "groups1",
    "drifting": "groups2",
    "two_threads": "groups0",
    "overflows": "product",
}
"""Fault -> the anchor of the fused node whose kernel does it."""
RULES = {"swapped": "minus1", "forgot_group": "groups1", "dropped_transpose": "turn"}
"""Fault -> the node where a rule does it."""

Faults = Callable[..., dict[str, str]]


def verified(model: Path, environ: dict[str, str], **more: object) -> Report:
    given = {"shapes": SHAPES, "threads": 2, "timeout": 20.0, "speed": False} | more
    return verify(model, environ=environ, **given)  # type: ignore[arg-type]


def bisected(model: Path, environ: dict[str, str], out: Path | None = None, **more: object) -> Found:
    return bisect(model, environ=environ, out=out, **{"shapes": SHAPES, "threads": 2, "timeout": 20.0} | more)


def named(found: Found) -> set[tuple[str, str]]:
    """Kernel or rule, and place, of each culprit."""
    return {(c.kernel or u.rule, u.site) for c in found.culprits for u in c.units}


def test_what_made_up_inputs_cover(batch_model: Path, faults: Faults) -> None:
    """A batch of two and large numbers are tried unasked; a plugin that does not load is told."""
    report = verified(batch_model, faults())
    assert report.ok, report.problems
    cases = [c["case"] for c in report.data["cases"]]
    assert cases == ["uniform", "normal", "batch of two", "batch of three", "large", "not a number"]
    flagged = verified(batch_model, faults(second_image="groups0"))
    assert {row["case"] for row in flagged.data["outputs"] if row["reason"]} == {"batch of two", "batch of three"}


def test_what_the_run_before_left_is_noticed(batch_model: Path, faults: Faults, tmp_path: Path) -> None:
    """One sample only, so that all runs would agree if nothing else was run between them."""
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).random((1, 24, 16, 16), np.float32))
    report = verified(batch_model, faults(stale="groups1"), data=tmp_path / "a.npz")
    assert {"sites", "repeats"} <= {p.step for p in report.problems}, report.problems


@pytest.mark.slow
@pytest.mark.parametrize("fault", KERNELS | RULES)
def test_verify_flags_bisect_names_and_the_reproducer_fails(
    fault: str, batch_model: Path, faults: Faults, tmp_path: Path
) -> None:
    site = (KERNELS | RULES)[fault]
    environ = faults(**{fault: site})
    assert not verified(batch_model, environ).ok
    found = bisected(batch_model, environ, tmp_path)
    kind = "matmul" if fault == "overflows" else "conv"
    name = f"sloppy:{kind}.{fault}" if fault in KERNELS else f"sloppy.{fault}"
    assert named(found) == {(name, site)}, "\n".join(lines(found))
    assert found.runs <= 7, "\n".join(found.log)
    reproducer = found.culprits[0].reproducer
    assert reproducer is not None and reproducer.size in ("node", "region"), found.log
    assert run_script(Path(reproducer.folder), environ).returncode != 0


@pytest.mark.slow
def test_infinite_inputs_of_the_user(batch_model: Path, faults: Faults, tmp_path: Path) -> None:
    """What is made up is finite; a data set need not be."""
    x = np.random.default_rng(0).random((1, 24, 16, 16), np.float32)
    x[0, 3, 4, 5] = np.inf
    np.savez(tmp_path / "a.npz", x=x)
    environ = faults(clamps_infinity="groups0")
    assert verified(batch_model, environ).ok
    report = verified(batch_model, environ, data=tmp_path / "a.npz")
    assert any("groups0" in p.where and "NaN or infinite" in p.what for p in report.problems), report.problems
    found = bisected(batch_model, environ, data=tmp_path / "a.npz")
    assert named(found) == {("sloppy:conv.clamps_infinity", "groups0")}, "\n".join(lines(found))


@pytest.mark.slow
def test_two_places_of_one_rule_are_both_named(batch_model: Path, faults: Faults) -> None:
    found = bisected(batch_model, faults(halved_shift="shift0+shift2"))
    assert named(found) == {("sloppy.halved_shift", "shift0"), ("sloppy.halved_shift", "shift2")}
    assert {c.switch for c in found.culprits} == {f"--disable-site sloppy.halved_shift:shift{i}" for i in (0, 2)}


@pytest.mark.slow
def test_three_guilty_rules_are_all_found(batch_model: Path, faults: Faults) -> None:
    guilty = {"swapped": "minus1", "forgot_group": "groups2", "dropped_transpose": "turn"}
    found = bisected(batch_model, faults(**guilty))
    assert named(found) == {(f"sloppy.{rule}", site) for rule, site in guilty.items()}, "\n".join(lines(found))


@pytest.mark.slow
def test_a_rule_that_is_wrong_about_what_another_made(batch_model: Path, faults: Faults) -> None:
    """The first is right, and the second finds nothing without it."""
    found = bisected(batch_model, faults(to_sum="minus1", lost_sign="minus1"))
    (culprit,) = found.culprits
    assert [u.rule for u in culprit.units] == ["sloppy.lost_sign"], "\n".join(lines(found))
    assert [u.rule for u in culprit.needs] == ["sloppy.to_sum"]
