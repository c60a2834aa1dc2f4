"""What a gate must never pass, and whom it must not accuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.tools.bisect import bisect, lines
from autofusion.tools.samples import made_up
from autofusion.tools.verify import Report, verify
from tests.support.network import write

Faults = Callable[..., dict[str, str]]
SHAPES = {"x": (1, 24, 16, 16)}


def verified(model: Path, environ: dict[str, str], **more: object) -> Report:
    given = {"shapes": SHAPES, "threads": 2, "timeout": 20.0, "speed": False, "repeats": 2} | more
    return verify(model, environ=environ, **given)  # type: ignore[arg-type]


def told(report: Report) -> str:
    return "\n".join(f"{p.step} {p.where}: {p.what}" for p in report.problems)


@pytest.mark.parametrize(("fault", "step"), [("makes_nan", "outputs"), ("hundredth", "sites")])
def test_a_kernel_that_both_sides_run(fault: str, step: str, batch_model: Path, faults: Faults) -> None:
    report = verified(batch_model, faults(**{fault: "softmax"}))
    assert step in {p.step for p in report.problems}
    assert any(p.step == "sites" and f"lab:Softmax.{fault}" in p.what for p in report.problems), told(report)


@pytest.mark.parametrize(
    ("fault", "step", "where"),
    [
        ("writes_weights", "constants", "groups1.weight"),
        ("raises_sometimes", "quarantined", "lab:conv.raises_sometimes"),
        ("mutates_operand", "error", ""),
        ("swallows_nan", "sites", "groups1"),
        ("batch_of_three", "sites", "groups1"),
        ("one_thread", "outputs", "y"),
    ],
)
def test_what_verify_did_not_look_at(fault: str, step: str, where: str, batch_model: Path, faults: Faults) -> None:
    report = verified(batch_model, faults(**{fault: "groups1"}), repeats=3)
    assert any(p.step == step and p.where.startswith(where) for p in report.problems), told(report)


def test_exact_numerics_are_compared_bit_by_bit(batch_model: Path, faults: Faults) -> None:
    environ = faults(claims_exact="softmax")
    assert verified(batch_model, environ).ok
    report = verified(batch_model, environ, numerics="exact")
    assert {(p.step, p.where) for p in report.problems} == {("sites", "softmax")}, told(report)
    assert "its numerics are exact" in told(report)


def test_there_is_no_excuse_against_the_framework_and_a_note_elsewhere() -> None:
    from autofusion.tools.verify.outputs import compare_outputs, is_far, judge_far, notes_of
    from autofusion.tools.verify.tolerance import Tolerances

    exact = np.linspace(0.5, 1.0, 64)
    reference, got = (exact * (1 + 1e-3)).astype(np.float32), (exact * (1 - 1e-3)).astype(np.float32)
    sides = ({"y": got}, {"y": reference}, {"y": exact}, Tolerances())
    (strict,) = compare_outputs(*sides, excuse=False)
    assert strict["reason"].startswith("mean relative error 2.0") and not notes_of(strict)
    (row,) = compare_outputs(*sides)
    assert not row["reason"] and "was excused (mean relative error" in notes_of(row)[0]
    assert is_far(row) and "where the reference kernels have" in judge_far(row, exact.astype(np.float32), exact)
    assert judge_far(row, reference, exact) == "", "the network is ill-conditioned: any arithmetic is off"


def test_made_up_token_ids_reach_the_whole_table(tmp_path: Path, faults: Faults) -> None:
    graph = Graph("text")
    random = np.random.default_rng(0)
    ids = graph.add_input("ids", TensorType(np.dtype(np.int64), (1, 12)))
    mask = graph.add_input("mask", TensorType(np.dtype(np.int32), (1, 12)))
    table = graph.constant(random.standard_normal((50, 8)).astype(np.float32), "table")
    found = graph.node("Gather", [table, ids], {"axis": 0}, name="embed", origin=("embed",)).output
    graph.add_output(graph.node("Tanh", [found], name="tanh", origin=("tanh",)).output, "y")
    graph.add_output(graph.node("Neg", [mask], name="neg", origin=("neg",)).output, "z")
    infer_graph(graph)
    samples = {s.name: s for s in made_up(graph, {})}
    drawn = samples["uniform"].inputs["ids"]
    assert drawn.max() > 25 and drawn.min() >= 0 and not np.array_equal(drawn, samples["normal"].inputs["ids"])
    assert (
        set(np.unique(samples["uniform"].inputs["mask"])) <= {0, 1}
        and samples["wide integers"].inputs["mask"].max() > 1
    )
    model = write(graph, tmp_path / "text.onnx")
    assert verify(model, environ=faults(), speed=False).ok
    report = verify(model, environ=faults(token_ids="embed"), speed=False)
    assert ("outputs", "y") in {(p.step, p.where) for p in report.problems}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind", "site"),
    [
        ("mutates_operand", "conv", "groups1"),
        ("raises_sometimes", "conv", "groups1"),
        ("claims_approximate", "matmul", "product"),
    ],
)
def test_bisect_names_the_kernel_and_no_rule(
    fault: str, kind: str, site: str, batch_model: Path, faults: Faults
) -> None:
    found = bisect(batch_model, environ=faults(**{fault: site}), shapes=SHAPES, threads=2, timeout=20.0)
    (culprit,) = found.culprits
    assert (culprit.kernel, culprit.version) == (f"lab:{kind}.{fault}", "7.3"), "\n".join(lines(found))
    assert f"kernel lab:{kind}.{fault} (version 7.3) at '{site}'" in "\n".join(lines(found))
    assert culprit.switch == f"--disable-kernel lab:{kind}.{fault}@{site}"
