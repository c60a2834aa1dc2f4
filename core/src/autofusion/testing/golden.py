"""Golden cases for rewrite rules: a graph as text, what the rules make of it, and what they must refuse.

A file holds cases, separated by ``// -----``. Each is a graph in the text form, and after ``// ---->`` the graph that
must come of it; without that part the graph must stay as it is. Comments before the graph steer the case::

    // case: a BatchNormalization behind a convolution
    // sizes: N=2                                   symbols at run time; 2 unless said otherwise
    // stage: fuse                                  also fuse, taking every legal region (sizes must be numbers)
    // refused: conv.fold_bias: is also a graph output

Digests of constants stand for seeded random data; constants that a rule made are printed as ``dense<made>``. Besides
the text, the numbers are compared: both graphs run on the same random inputs by what the caller passes.
``AUTOFUSION_BLESS=1`` writes what was found into the file instead of comparing the text.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.fusion.ledger import Ledger, Verdict
from autofusion.fusion.optimise import prepare
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text, to_text
from autofusion.ir.types import TensorType
from autofusion.ir.verify import verify
from autofusion.options import Options
from autofusion.rules.rule import RulePack
from autofusion.testing.apply import apply_rules

RunGraph = Callable[[Graph, Mapping[str, Any]], Sequence[Any]]
"""Runs a graph on named inputs by the reference kernels."""

_SEPARATOR, _ARROW = "// -----", "// ---->"
_VERSION = re.compile(r'(rule = "[^"@]*)@[^"]*')
"""The version of a rule in a fused node: a new version of a pack with the same result is no difference."""
_DIGEST = re.compile(r"dense<sha256:[0-9a-f]{8}>")


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One case of a file; ``number`` counts from 1."""

    path: Path
    number: int
    title: str
    before: str
    after: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    refusals: tuple[tuple[str, str], ...] = ()
    fuses: bool = False

    def __str__(self) -> str:
        return f"{self.path.stem}-{self.title}"


def golden_cases(*paths: Path) -> list[GoldenCase]:
    """The cases of the files, in order."""
    return [_case(path, number, text) for path in paths for number, text in enumerate(_parts(path.read_text()), 1)]


def _parts(text: str) -> list[str]:
    return [part.strip("\n") for part in re.split(rf"^{_SEPARATOR}$", text, flags=re.MULTILINE)]


def _case(path: Path, number: int, text: str) -> GoldenCase:
    before, _, after = text.partition(f"\n{_ARROW}\n")
    sizes: dict[str, int] = {}
    refusals: list[tuple[str, str]] = []
    title, fuses = f"case {number}", False
    for line in before.splitlines():
        key, colon, value = line.removeprefix("// ").partition(": ")
        if not (line.startswith("// ") and colon):
            continue
        if key == "case":
            title = value
        elif key == "sizes":
            sizes = {name.strip(): int(size) for name, size in (pair.split("=") for pair in value.split(","))}
        elif key == "stage" and value == "fuse":
            fuses = True
        elif key == "refused":
            rule, _, words = value.partition(": ")
            refusals.append((rule, words))
        else:
            raise ValueError(f"{path.name}, case {number}: unknown key {key!r}; expected case, sizes, stage or refused")
    return GoldenCase(path, number, title, before, after.strip("\n"), sizes, tuple(refusals), fuses)


def check_golden(case: GoldenCase, packs: Sequence[RulePack], run: RunGraph) -> None:
    """Rewrite the graph with the rules of ``packs``; raise AssertionError if anything is not as the file says."""
    constants = SeededConstants()
    graph = from_text(case.before, constants)
    infer_graph(graph, bodies=True)
    verify(graph)
    if case.fuses:
        applied = apply_rules(graph, packs)
        found, ledger = applied.graph, applied.ledger
    else:
        found, ledger = prepare(graph, packs, Options())
        verify(found)
    for broken in ledger.of(Verdict.ERROR):
        raise AssertionError(f"{case}: {broken.reason}")
    _check_refusals(case, ledger)
    same_numbers(graph, found, run, case.sizes)
    text = _plain(to_text(found, aliases=constants.aliases), case.before)
    wanted = case.after or _plain(to_text(graph, aliases=constants.aliases), case.before)
    if text.strip() == wanted.strip():
        return
    if os.environ.get("AUTOFUSION_BLESS"):
        _bless(case, text.strip())
        return
    diff = difflib.unified_diff(wanted.splitlines(), text.strip().splitlines(), "expected", "found", lineterm="")
    raise AssertionError(f"{case.path.name}, case {case.number} ({case.title}):\n" + "\n".join(diff))


def _plain(text: str, before: str) -> str:
    """``text`` with the digests of constants that are not in ``before`` left out: they say nothing to a reader."""
    text = _VERSION.sub(r"\1", text)
    known = set(_DIGEST.findall(before))
    return _DIGEST.sub(lambda found: found[0] if found[0] in known else "dense<made>", text)


def _check_refusals(case: GoldenCase, ledger: Ledger) -> None:
    told = [(r.rule.split("@")[0], r.reason) for r in ledger.of(Verdict.ILLEGAL)]
    for rule, words in case.refusals:
        if not any(name == rule and words in reason for name, reason in told):
            raise AssertionError(f"{case}: no refusal of {rule} with {words!r}; there are {told}")


def _bless(case: GoldenCase, found: str) -> None:
    parts = _parts(case.path.read_text())
    parts[case.number - 1] = f"{case.before}\n{_ARROW}\n{found}"
    case.path.write_text(f"\n{_SEPARATOR}\n".join(parts) + "\n")


def same_numbers(
    before: Graph,
    after: Graph,
    run: RunGraph,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float = 2e-5,
) -> None:
    """Raise AssertionError unless both graphs give the same on random inputs, within rounding of the largest number."""
    inputs = random_inputs(before, sizes or {}, seed)
    with np.errstate(all="ignore"):
        expected, found = run(before, inputs), run(after, inputs)
    for name, old, new in zip(before.output_names, expected, found, strict=True):
        old, new = np.asarray(old), np.asarray(new)
        if old.shape != new.shape or old.dtype != new.dtype:
            raise AssertionError(f"output '{name}' is {new.dtype}{new.shape}, expected {old.dtype}{old.shape}")
        loose = 4e-3 if old.dtype.name in ("float16", "bfloat16") else rtol
        scale = np.abs(old[np.isfinite(old)]).max(initial=1) if old.dtype.kind in "fV" else 0
        np.testing.assert_allclose(
            new.astype(np.float64), old.astype(np.float64), rtol=loose, atol=loose * float(scale), err_msg=name
        )


def random_inputs(graph: Graph, sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Random data for every input without a default; symbols that ``sizes`` does not name are 2."""
    rng = np.random.default_rng(seed)
    inputs: dict[str, np.ndarray] = {}
    for value in graph.inputs:
        type_ = value.type
        if not isinstance(type_, TensorType) or type_.shape is None:
            raise ValueError(f"input '{value.name}' has type {type_}, expected a tensor of known rank")
        shape = tuple(d if isinstance(d, int) else sizes.get(str(d), 2) for d in type_.shape)
        if type_.dtype.kind == "b":
            inputs[value.name] = rng.integers(0, 2, shape).astype(bool)
        elif type_.dtype.kind in "iu":
            inputs[value.name] = rng.integers(0, 9, shape).astype(type_.dtype)
        else:
            inputs[value.name] = rng.standard_normal(shape).astype(type_.dtype)
    return inputs
