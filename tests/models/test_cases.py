"""Small models built after public bug reports about graph fusion: each must give its expected values at every level.

The cases, and the rule by which one passes, are described in `cases/README.md`. A case also names the fusions that
must not happen in it; where such a name stands for one of our rules, the ledger is asked.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import tomllib
from collections.abc import Iterable
from contextlib import nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofusion as af
from autofusion.errors import AutofusionError, SizeWarning
from autofusion.fusion.ledger import Verdict

HERE = Path(__file__).parent
CASES = {path.parent.name[:3]: path.parent for path in sorted((HERE.parent / "cases").glob("*/case.json"))}
LEVELS = ("off", "basic", "full")
EXPECTED_FAILURES: dict[str, str] = tomllib.loads((HERE / "cases_expected_failures.toml").read_text())[
    "expected_failures"
]

# What the cases call a fusion -> the rules of ours that would be it. A word without a rule (no rule of ours turns a
# Clip into Relu6, multiplies by zero, or reassociates constants) is held by the expected values alone.
FORBIDDEN_RULES = {
    "conv_bn_fold": ["conv.fold_batch_norm*"],
    "fold of overridable initializers": ["conv.fold_*"],
    "conv_bias_fold": ["conv.fold_bias*", "conv.fold_add*"],
    "pad_conv_fold": ["conv.fold_pad*"],
    "layernorm_match": ["transformer.*layer_norm*"],
    "attention_match": ["transformer.*attention*"],
    "gelu_match": ["transformer.*gelu*", "pointwise.*gelu*"],
    "gelu_tanh_match": ["transformer.*gelu*", "pointwise.*gelu*"],
    "gemm_fold": ["*gemm*"],
}


def _read(case: str) -> dict[str, Any]:
    return json.loads((CASES[case] / "case.json").read_text())


def _params(cases: Iterable[str]) -> list[Any]:
    params = []
    for case in cases:
        framework = _read(case)["framework"]
        for level in LEVELS:
            marks: list[Any] = []
            if framework != "onnx":
                marks.append(getattr(pytest.mark, framework))
                missing = importlib.util.find_spec(f"autofusion_frontend_{framework}") is None
                marks.append(pytest.mark.skipif(missing, reason=f"the frontend for {framework} is not installed"))
            reason = EXPECTED_FAILURES.get(case) or EXPECTED_FAILURES.get(f"{case}-{level}")
            if reason:
                marks.append(pytest.mark.xfail(reason=reason, strict=True))
            params.append(pytest.param(case, level, id=f"{CASES[case].name}-{level}", marks=marks))
    return params


def mismatch(got: np.ndarray, expected: np.ndarray, atol: float, rtol: float) -> str | None:
    """Why `got` is not `expected` by the rule of the cases, or None."""
    if got.dtype != expected.dtype:
        return f"expected dtype {expected.dtype}, found {got.dtype}"
    if got.shape != expected.shape:
        return f"expected shape {expected.shape}, found {got.shape}"
    if got.dtype.kind == "c":
        got, expected = (np.stack([x.real, x.imag]) for x in (got, expected))
    # Wide enough that neither a 64-bit integer nor the difference of two floats is rounded away.
    a, b = got.astype(np.longdouble), expected.astype(np.longdouble)
    for what, here, there in (
        ("NaN", np.isnan(a), np.isnan(b)),
        ("+inf", np.isposinf(a), np.isposinf(b)),
        ("-inf", np.isneginf(a), np.isneginf(b)),
    ):
        if not np.array_equal(here, there):
            return f"{what} at other places: expected {int(there.sum())} of them, found {int(here.sum())}"
    finite = np.isfinite(b)
    difference, allowed = np.abs(a[finite] - b[finite]), atol + rtol * np.abs(b[finite])
    if (difference > allowed).any():
        worst = int(np.argmax(difference - allowed))
        return (
            f"{int((difference > allowed).sum())} of {expected.size} values differ, the worst by "
            f"{difference[worst]:.3g} where {allowed[worst]:.3g} is allowed"
        )
    return None


def _arrays(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    with np.load(path) as stored:
        return {name: stored[name] for name in names}


def _session(case: str, file: str, level: str) -> af.Session:
    spec = _read(case)
    # A frozen graph does not say what its outputs are; where they are values inside it, they must be named.
    named = tuple(spec["output_names"]) if spec["framework"] == "tensorflow" else ()
    return af.compile(CASES[case] / file, level=level, threads=1, outputs=named, **spec.get("compile_options", {}))


def _check(session: af.Session, case: str, data: str) -> None:
    """Run the case's inputs (``data`` is "", or "2" for those of another size) and compare."""
    spec, folder = _read(case), CASES[case]
    expected = _arrays(folder / f"expected{data}.npz", spec["output_names"])
    expects_warning = pytest.warns(SizeWarning) if spec.get("warns") else nullcontext()
    with expects_warning:
        outputs = session.run(_arrays(folder / f"inputs{data}.npz", spec["inputs"]))
    missing = sorted(set(expected) - set(outputs))
    assert not missing, f"no output {missing}; the session gave {sorted(outputs)}"
    wrong = {
        name: why
        for name, want in expected.items()
        if (why := mismatch(np.asarray(outputs[name]), want, spec["atol"], spec["rtol"]))
    }
    assert not wrong, f"{spec['what_must_hold']!r} does not hold for inputs{data}.npz: {wrong}"


@pytest.mark.parametrize(("case", "level"), _params(CASES))
def test_case(case: str, level: str) -> None:
    spec = _read(case)
    try:
        session = _session(case, spec["model_file"], level)
        _check(session, case, "")
    except AutofusionError as error:
        if spec["accept"] != "equal_or_clear_rejection":
            raise
        assert len(str(error)) > 20, f"a rejection must say what is wrong, not only {str(error)!r}"
        return

    forbidden = [glob for word in spec["must_not"] for glob in FORBIDDEN_RULES.get(word, [])]
    fused = [
        (record.rule, record.nodes)
        for record in session.ledger.of(Verdict.FUSED)
        if any(fnmatch.fnmatch(record.rule.partition("@")[0], glob) for glob in forbidden)
    ]
    assert not fused, f"must not fuse here ({', '.join(spec['must_not'])}), but the ledger says {fused}"


SECOND = [case for case, folder in CASES.items() if (folder / "inputs2.npz").exists()]


@pytest.mark.parametrize(("case", "level"), _params(SECOND))
def test_sizes_change_within_a_session(case: str, level: str) -> None:
    """The sizes of the case, others, and the first again, in one session of the model that leaves its dims open."""
    dynamic = next(iter(CASES[case].glob("model_dynamic.*")), None)
    session = _session(case, dynamic.name if dynamic else _read(case)["model_file"], level)
    for data in ("", "2", ""):
        _check(session, case, data)


def test_forbidden_fusions_are_rules_of_ours() -> None:
    rules = [
        rule.name
        for entry in entry_points(group="autofusion.rules")
        for pack in entry.load().autofusion_rule_packs()
        for rule in pack.rules
    ]
    idle = {word for word, globs in FORBIDDEN_RULES.items() if not any(fnmatch.filter(rules, glob) for glob in globs)}
    assert not idle, f"no installed rule is meant by {sorted(idle)}, so forbidding them checks nothing"


def test_expected_failures_name_cases() -> None:
    known = set(CASES) | {f"{case}-{level}" for case in CASES for level in LEVELS}
    unknown = sorted(set(EXPECTED_FAILURES) - known)
    assert not unknown, f"cases_expected_failures.toml names {unknown}, which are no cases"


@pytest.mark.parametrize(
    ("got", "why"),
    [
        (np.float32([1, 2, np.nan]), None),
        (np.float32([1, 2.1, np.nan]), "values differ"),
        (np.float32([1, 2, 3]), "NaN at other places"),
        (np.float32([1, np.inf, np.nan]), "inf at other places"),
        (np.float32([[1, 2, np.nan]]), "expected shape"),
        (np.float64([1, 2, np.nan]), "expected dtype"),
    ],
)
def test_rule_of_the_cases(got: np.ndarray, why: str | None) -> None:
    found = mismatch(got, np.float32([1, 2, np.nan]), atol=1e-3, rtol=1e-3)
    assert found is None if why is None else why in str(found)
