"""Two ledgers compared: lost, gained and changed sites, and nothing where nothing differs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import autofusion as af
from autofusion.errors import ModelError
from autofusion.tools import explain, ledger_diff
from core.tests.tools.tool_nets import network

Data = dict[str, Any]


def ledger(**options: Any) -> Data:
    found: Data = json.loads(json.dumps(explain.as_data(af.compile(network(), threads=1, **options))))
    return found


@pytest.fixture(scope="module")
def full() -> Data:
    return ledger()


def sites(changes: list[ledger_diff.Change]) -> list[str]:
    return [c.site for c in changes]


def test_nothing_differs_from_itself(full: Data) -> None:
    found = ledger_diff.diff(full, copy.deepcopy(full))
    assert found.is_empty and found.same == 2
    assert "nothing differs" in ledger_diff.lines(found)


def test_another_kernel_of_a_node_that_nothing_fuses_is_a_difference(full: Data) -> None:
    other = copy.deepcopy(full)
    step = next(s for s in other["steps"] if not s["operator"].startswith("Fused:"))
    step["kernel"] = "fast:other"
    found = ledger_diff.diff(full, other)
    assert not found.is_empty and found.same == 2
    assert [c.fields["kernel"][1] for c in found.kernels] == ["fast:other"]
    assert "other kernel (1):" in ledger_diff.lines(found)


def test_everything_is_gained_from_level_off(full: Data) -> None:
    found = ledger_diff.diff(ledger(level="off"), full)
    assert sites(found.gained) == sites(ledger_diff.diff(full, ledger(level="off")).lost)
    assert set(sites(found.gained)) == {"first", "gate"} and not found.changed and not found.lost
    assert sites(found.rewrites_gained) == ["swish.div"]
    assert sites(found.verdicts) == ["branch"]
    assert found.predicted[0] > found.predicted[1] > 0


def test_a_site_that_a_switch_took_says_which(full: Data) -> None:
    found = ledger_diff.diff(full, ledger(disable_sites=["gate"]))
    assert sites(found.lost) == ["gate"] and sites(found.gained) == []
    text = "\n".join(ledger_diff.lines(found))
    assert "lost (1):" in text and "disabled: site switch 'gate'" in text


def test_a_site_whose_nodes_are_fused_elsewhere_has_moved_and_is_not_lost(full: Data) -> None:
    moved = copy.deepcopy(full)
    (record,) = [r for r in moved["records"] if r["site"] == "first" and r.get("kind")]
    record.update(site="swish.div", rule="pointwise.region@0.1.0", nodes=["swish.div", "swish.mul", "swish.clip"])
    found = ledger_diff.diff(full, moved)
    assert sites(found.changed) == ["first"] and not found.lost and not found.gained
    text = "\n".join(ledger_diff.lines(found))
    assert "now anchored at 'swish.div'" in text and "nodes: without first + swish.add" in text


def test_a_site_that_was_split_is_one_change_and_one_more(full: Data) -> None:
    split = copy.deepcopy(full)
    (record,) = [r for r in split["records"] if r["site"] == "first" and r.get("kind")]
    split["records"].append({**record, "site": "swish.mul", "nodes": ["swish.mul", "swish.div"]})
    record["nodes"] = ["first", "swish.add"]
    found = ledger_diff.diff(full, split)
    assert sites(found.changed) == ["first", "swish.mul"] and not found.lost and not found.gained


def test_a_new_version_is_one_line_for_all_its_sites(full: Data) -> None:
    newer = copy.deepcopy(full)
    for record in newer["records"]:
        record["rule"] = record["rule"].replace("@0.1.0", "@0.2.0")
    found = ledger_diff.diff(full, newer)
    assert set(sites(found.changed)) == {"first", "gate"}
    assert not (found.lost or found.gained or found.rewrites_lost or found.rewrites_gained or found.verdicts)
    lines = ledger_diff.lines(found)
    assert any("1 site: rule conv.activation@0.1.0 -> conv.activation@0.2.0 (first)" in line for line in lines)


def test_another_reason_shows(full: Data) -> None:
    other = copy.deepcopy(full)
    (record,) = [r for r in other["records"] if r["site"] == "branch" and r["verdict"] == "illegal"]
    record["reason"] = "it rains"
    (change,) = ledger_diff.diff(full, other).verdicts
    assert change.fields["reason"][1] == "it rains"


def test_times_alone_change_nothing(full: Data) -> None:
    slower = copy.deepcopy(full)
    slower["predicted"] *= 2
    for record in slower["records"]:
        if "after" in record:
            record["after"] *= 2
    assert ledger_diff.diff(full, slower).is_empty


def test_the_difference_is_json(full: Data) -> None:
    data = json.loads(json.dumps(ledger_diff.as_data(ledger_diff.diff(ledger(level="off"), full))))
    assert data["is_empty"] is False
    assert {c["site"] for c in data["gained"]} == {"first", "gate"}


def test_long_lists_are_cut_in_the_text_alone(full: Data) -> None:
    found = ledger_diff.diff(ledger(level="off"), full)
    assert "  and 1 more (see --json)" in ledger_diff.lines(found, most=1)


@pytest.mark.parametrize("text", ["", "[]", '{"records": 3}', '{"records": [{"rule": "a"}]}', '{"counts": {}}'])
def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "no.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=r"no\.json' is not a ledger: expected the JSON that"):
        ledger_diff.read(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a ledger"):
        ledger_diff.read(tmp_path / "absent.json")
