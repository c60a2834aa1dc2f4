"""The upgrade gate: what was lost, which errors grew, what got slower; and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.errors import OptionError
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.plugins.registry import default_registry
from autofusion.tools import gate
from autofusion.tools.record import Probe, ratios, record

F32 = np.dtype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network as an ONNX file, and its baseline."""
    folder = tmp_path_factory.mktemp("gate")
    graph = Graph("net")
    rng = np.random.default_rng(0)
    x = graph.add_input("x", TensorType(F32, (1, 16, 32, 32)))
    for index in range(2):
        weights = graph.constant(rng.standard_normal((16, 16, 3, 3)).astype(np.float32) / 12, f"w{index}")
        y = graph.node("Conv", [x, weights], {"pads": [1, 1, 1, 1]}, name=f"conv{index}", origin=[f"conv{index}"])
        x = graph.node("Relu", y.outputs, name=f"relu{index}", origin=[f"relu{index}"]).output
    graph.add_output(x, "y")
    infer_graph(graph)
    default_registry().frontend("onnx").export(graph, folder / "net.onnx", inline=True)  # type: ignore[attr-defined]
    data = record([(folder / "net.onnx", {})], folder, 0.3, {})
    (folder / "baseline.json").write_text(json.dumps(data))
    return folder


@pytest.fixture
def changed(folder: Path) -> Callable[..., gate.Report]:
    """Check against the baseline after ``change`` edited it."""

    def check(change: Callable[[dict[str, Any]], None], seconds: float = 0.0, **thresholds: Any) -> gate.Report:
        data = json.loads((folder / "baseline.json").read_text())
        change(data)
        path = folder / "changed.json"
        path.write_text(json.dumps(data))
        return gate.check(path, seconds, gate.Thresholds(**thresholds))

    return check


def test_a_baseline_says_what_was_decided(folder: Path) -> None:
    data = json.loads((folder / "baseline.json").read_text())
    (model,) = data["models"]
    assert model["model"] == "net.onnx"
    assert [r["site"] for r in model["records"] if r["verdict"] == "fused"] == ["conv0", "conv1"]
    assert model["kernels"]["conv0"].startswith("cpu:conv.")
    assert set(model["errors"]) == {"off", "framework"}
    assert model["errors"]["framework"]["max_over_range"] < 1e-5
    assert 0 < model["ratio"]["low"] <= model["ratio"]["median"] <= model["ratio"]["high"]
    assert data["packs"]["autofusion-rules-conv"]


def test_nothing_has_changed(changed: Callable[..., gate.Report]) -> None:
    report = changed(lambda data: None, 0.3, slower=5.0, slower_probe=9.0)
    assert (report.upgraded, report.regressions) == ([], [])
    assert report.verdicts[0].ledger.is_empty
    assert "0 regressions" in list(gate.lines(report))[-1]


def test_a_lost_site_is_a_regression(changed: Callable[..., gate.Report]) -> None:
    def more(data: dict[str, Any]) -> None:
        site = {"rule": "acme.more@1.0", "verdict": "fused", "site": "pool", "nodes": ["pool"], "kind": "pool"}
        data["models"][0]["records"].append(site)

    report = changed(more)
    assert report.regressions == ["net.onnx: 1 sites lost: 'pool' [acme.more@1.0]"]
    assert changed(more, lost=1).regressions == []


def test_a_gained_site_is_none(changed: Callable[..., gate.Report]) -> None:
    def fewer(data: dict[str, Any]) -> None:
        data["models"][0]["records"] = [r for r in data["models"][0]["records"] if r["site"] != "conv1"]

    report = changed(fewer)
    assert report.regressions == []
    assert [c.site for c in report.verdicts[0].ledger.gained] == ["conv1"]


def test_versions_alone_are_told_and_are_no_loss(changed: Callable[..., gate.Report]) -> None:
    def older(data: dict[str, Any]) -> None:
        data["packs"]["autofusion-kernels-cpu"] = "0.0.9"
        text = json.dumps(data["models"][0]["records"])
        data["models"][0]["records"] = json.loads(text.replace("conv.activation@", "conv.activation@0.0."))

    report = changed(older)
    assert report.regressions == []
    assert report.upgraded == [f"autofusion-kernels-cpu 0.0.9 -> {_version()}"]
    assert [set(c.fields) for c in report.verdicts[0].ledger.changed] == [{"rule"}, {"rule"}]


def _version() -> str:
    return next(r.version for r in default_registry().records if r.dist == "autofusion-kernels-cpu")


def test_other_kernels_are_told(changed: Callable[..., gate.Report]) -> None:
    report = changed(lambda data: data["models"][0]["kernels"].update(conv0="cpu:conv.old@0.0.9"))
    (before, now) = report.verdicts[0].kernels["conv0"]
    assert before == "cpu:conv.old@0.0.9" and now.startswith("cpu:conv.")
    assert any("other kernel: cpu:conv.old@0.0.9 -> " in line for line in gate.lines(report))


def test_an_error_that_grew(changed: Callable[..., gate.Report]) -> None:
    report = changed(lambda data: data["models"][0]["errors"]["framework"].update(mean_relative=1e-9))
    assert report.regressions == [], "rounding stays rounding"
    old = {"off": {"max_over_range": 1e-6, "mean_relative": 1e-6, "same_nonfinite": True}}
    new = {"off": {"max_over_range": 3e-6, "mean_relative": 1e-6, "same_nonfinite": False}}
    assert list(gate._errors(old, new, 2.0)) == [
        "error against level off grew: max_over_range 1.00e-06 -> 3.00e-06",
        "NaN or infinity at other places than level off has them",
    ]
    assert len(list(gate._errors(old, new, 4.0))) == 1


@pytest.mark.parametrize(
    ("old", "new", "slower"),
    [
        ((0.5, 0.49, 0.51), (0.6, 0.59, 0.61), True),
        ((0.5, 0.49, 0.51), (0.54, 0.53, 0.55), False),  # within the share
        ((0.5, 0.3, 0.7), (0.6, 0.4, 0.8), False),  # within the spread
        ((0.5, 0.49, 0.51), (0.4, 0.39, 0.41), False),
    ],
)
def test_slower_than_the_spread_explains(
    old: tuple[float, ...], new: tuple[float, ...], slower: bool, changed: Callable[..., gate.Report]
) -> None:
    as_ratio = [dict(zip(("median", "low", "high"), r, strict=True)) for r in (old, new)]
    assert bool(list(gate._slower(*as_ratio, 0.1))) is slower


@pytest.mark.slow  # a busy machine disturbs what it measures
def test_the_ratio_is_measured_in_turns() -> None:
    def run() -> None:
        time.sleep(0.004)

    def base() -> None:
        time.sleep(0.008)

    found, probe = ratios(run, (base, Probe()), 0.2)
    assert found is not None and found["turns"] >= 7 and probe is not None
    assert 0.4 < found["median"] < 0.7
    assert ratios(run, (base,), 0) == [None]


def test_kernels_that_make_both_levels_slower(changed: Callable[..., gate.Report]) -> None:
    """The ratio to level off stays, so only the probe tells."""

    def faster(data: dict[str, Any]) -> None:
        probe = data["models"][0]["probe"]
        probe.update({name: probe[name] / 32 for name in ("low", "median", "high")})

    report = changed(faster, 0.3, slower=9.0)
    (said,) = report.regressions
    assert said.startswith("net.onnx: slower: ") and "of the probe's time before" in said
    assert any("time over the probe's" in line for line in gate.lines(report))
    older = changed(lambda data: data["models"][0].pop("probe"), 0.3, slower=9.0)
    assert older.regressions == [] and "record it again" in older.verdicts[0].notes[0]


def test_files_that_are_no_baseline(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("", "{}", "[]", '{"format": 7, "models": []}'):
        path.write_text(text)
        with pytest.raises(OptionError, match=r"x\.json' is not a baseline"):
            gate.check(path, 0, gate.Thresholds())
    path.write_text((folder / "baseline.json").read_text())
    with pytest.raises(OptionError, match=r"net\.onnx', which is not there"):
        gate.check(path, 0, gate.Thresholds())


def test_what_is_not_compared_is_said(changed: Callable[..., gate.Report]) -> None:
    def without(data: dict[str, Any]) -> None:
        del data["models"][0]["errors"]["framework"]

    report = changed(without)
    assert report.verdicts[0].notes == [
        "errors against the model's framework are not compared: they were not measured in the baseline",
        "times are not compared: they were not measured now",
    ]
    assert report.regressions == []


def test_a_model_that_does_not_run_any_more_is_a_regression(folder: Path, changed: Callable[..., gate.Report]) -> None:
    broken = folder / "broken.onnx"
    broken.write_bytes((folder / "net.onnx").read_bytes()[:200])

    def two(data: dict[str, Any]) -> None:
        data["models"].insert(0, data["models"][0] | {"model": "broken.onnx"})

    report = changed(two)
    (said,) = report.regressions
    assert said.startswith("broken.onnx: it does not compile and run any more: ") and "broken.onnx'" in said
    assert [v.model for v in report.verdicts] == ["broken.onnx", "net.onnx"], "the others are checked all the same"
    assert list(gate.lines(report))[-1] == "1 regression"


def test_another_model_file_is_noted(changed: Callable[..., gate.Report]) -> None:
    report = changed(lambda data: data["models"][0].update(digest="0"))
    assert report.verdicts[0].notes[-1] == "the model file is another one than was recorded"
