"""Coverage of the known patterns: the table's graphs, their spellings, and what the installed packs make of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from autofusion.cli.rules import command
from autofusion.testing.apply import run_graph_by_reference
from autofusion.testing.coverage import variants
from autofusion.testing.coverage.measure import LIMIT, Measured, feeds_of, measure, wrong_near_misses
from autofusion.testing.coverage.report import lines
from autofusion.testing.coverage.spell import respelled
from autofusion.tools.compare import difference

SHARE = 0.8
"""Of all spellings, those that must be fused."""
SAMPLE = 23
"""Every so-manieth variant is tried every day."""


def test_rows_cover_every_group_and_have_distinct_variants() -> None:
    names = [str(v) for v in variants()]
    assert len(set(names)) == len(names)
    assert {v.row[0] for v in variants()} == set("ABCDEFGH")


@pytest.mark.parametrize("variant", variants()[::SAMPLE], ids=str)
def test_spellings_compute_the_same(variant) -> None:
    graph = variant.graph()
    feeds = feeds_of(graph)
    expected = run_graph_by_reference(graph, feeds)
    for what, spelled in respelled(graph):
        for found, wanted in zip(run_graph_by_reference(spelled, feeds), expected, strict=True):
            assert difference(np.asarray(found), np.asarray(wanted)).max_over_range <= LIMIT, what


def test_spellings_differ_in_what_they_say() -> None:
    graph = next(v for v in variants() if str(v) == "D35 layer_norm, torch").graph()
    found = dict(respelled(graph))
    assert {"operands swapped", "numbers as [1]", "Mul for Pow", "open batch", "open sizes"} <= set(found)
    assert not any(node.op == "Pow" for node in found["Mul for Pow"].nodes)
    assert found["open batch"].inputs[0].shape == ("d0_2", 6, 8)


def test_a_sample_is_fused_and_right() -> None:
    found = measure(variants()[::SAMPLE], spellings=2)
    assert [str(one.variant) for one in found if one.error > LIMIT] == []
    assert sum(one.fused for one in found) >= SHARE * len(found)


def test_a_step_too_many_and_a_wrong_number_are_misses() -> None:
    variant = variants()[0]
    assert not Measured(variant, "as it is", variant.ideal + 1, 0.0, ()).fused
    assert not Measured(variant, "as it is", variant.ideal, 2 * LIMIT, ()).fused
    report = "\n".join(lines([Measured(variant, "as it is", variant.ideal + 1, 1.0, ("cpu:conv",))], ()))
    assert "0/1 (0%)" in report and "WRONG by 1.0e+00" in report and "the ledger is silent" in report


def test_command_shows_rows_and_rules() -> None:
    row = CliRunner().invoke(command, ["A2", "--coverage", "--spellings", "1", "--json"])
    assert row.exit_code == 0, row.output
    entries = json.loads(row.output)
    assert {e["row"] for e in entries} == {"A2 convtranspose_bn"} and all(e["fused"] for e in entries)
    rule = CliRunner().invoke(command, ["pointwise.mish", "--coverage"])
    assert rule.exit_code == 0 and "pointwise.mish" in rule.output and "wrong:" not in rule.output
    wrong = CliRunner().invoke(command, ["Z9", "--coverage"])
    assert wrong.exit_code != 0 and "neither a row" in str(wrong.output) + str(wrong.exception)


@pytest.mark.slow
def test_everything_is_fused_and_right() -> None:
    found = measure(variants())
    wrong = [f"{one.variant}, {one.spelling}: {one.error}" for one in found if one.error > LIMIT]
    assert wrong == []
    missed = [f"{one.variant}, {one.spelling}: {one.steps} steps" for one in found if not one.fused]
    assert len(missed) <= (1 - SHARE) * len(found), missed


@pytest.mark.slow
@pytest.mark.parametrize("variant", variants(), ids=str)
def test_near_misses_compute_what_they_say(variant) -> None:
    assert wrong_near_misses(variant.graph()) == []
