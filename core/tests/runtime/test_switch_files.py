"""Settings in files: TOML, and the switch files that CANN users have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autofusion.errors import OptionError
from autofusion.kinds import POINTWISE
from autofusion.rules.level import Level
from autofusion.rules.pattern import op, var
from autofusion.rules.rule import FuseRule, RewriteRule, RulePack, Stage
from autofusion.runtime.cann import PassNames, pass_names, read_switches, write_switches
from autofusion.runtime.config import names_of, read_settings, write_settings


def rewrite(name: str, stage: Stage = Stage.CANONICALISE) -> RewriteRule:
    return RewriteRule(name, op("Relu", var("x")), lambda match, builder: [], stage=stage)


def fuse(name: str) -> FuseRule:
    return FuseRule(name, POINTWISE, lambda node: iter(()), roots=frozenset({"Relu"}))


PACKS = (
    RulePack(
        "conv", "1", (rewrite("conv.fold_batch_norm", Stage.FOLD), fuse("conv.activation"), fuse("conv.epilogue"))
    ),
    RulePack("pointwise", "1", (rewrite("pointwise.square"), fuse("pointwise.region"))),
)


def test_lines() -> None:
    text = "# comment\nConvBatchnormFusionPass:off\n\nTbeEltwiseFusionPass : off  // why\nSoftmaxFusionPass:on\n"
    assert read_switches(text, PACKS) == ["conv.fold_batch_norm", "pointwise.region"]


def test_a_single_switch_wins_over_all() -> None:
    off = {"Switch": {"GraphFusion": {"ALL": "off", "ConvBatchnormFusionPass": "on"}, "UBFusion": {}}}
    assert read_switches(json.dumps(off), PACKS) == ["pointwise.square"]
    off["Switch"]["UBFusion"] = {"ALL": "off", "TbeCommonRules0FusionPass": "on"}
    assert read_switches(json.dumps(off), PACKS) == ["pointwise.region", "pointwise.square"]
    assert read_switches('{"Switch": {"GraphFusion": {"ALL": "on"}}}', PACKS) == []


def test_what_is_off_by_one_name_stays_off_by_another() -> None:
    assert read_switches("TbeCommonRules0FusionPass:off\nTbeCommonRules2FusionPass:on\n", PACKS) == [
        "conv.activation",
        "conv.epilogue",
    ]


def test_a_name_without_counterpart_is_known() -> None:
    assert read_switches("V100RequantFusionPass:off", PACKS) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ConvBatchnormFusionPas:off", "neither a fusion pass.*did you mean 'ConvBatchnormFusionPass'"),
        ("conv.epilog:off", "did you mean 'conv.epilogue'"),
        ("ConvBatchnormFusionPass:of", "is set to 'of', expected on or off"),
        ("ConvBatchnormFusionPass", "line 1 of .* expected 'NAME:on' or 'NAME:off'"),
        ('{"Switch": {"GraphFusions": {}}}', "section 'GraphFusions', expected GraphFusion or UBFusion"),
        ('{"Switches": {}}', "no object 'Switch'"),
        ('{"Switch": ', "neither JSON nor lines"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_switches(text, PACKS)


@pytest.mark.parametrize("as_json", [False, True])
def test_written_switches_read_back(as_json: bool) -> None:
    rules = [rule.name for pack in PACKS for rule in pack.rules]
    for bits in range(1 << len(rules)):
        off = sorted(rule for i, rule in enumerate(rules) if bits >> i & 1)
        assert read_switches(write_switches(off, PACKS, as_json=as_json), PACKS) == off


def test_every_rule_of_the_table_has_the_form_of_a_rule() -> None:
    for name, (section, rules) in pass_names().passes.items():
        assert section in ("GraphFusion", "UBFusion") and name.endswith("Pass")
        assert all("." in rule for rule in rules)


def test_own_names() -> None:
    names = PassNames({}).extended({"Mine": ["pointwise.region"]}, PACKS)
    assert read_switches("Mine:off", PACKS, names) == ["pointwise.region"]
    with pytest.raises(OptionError, match=r"unknown rule 'pointwise.regio'.*'pointwise.region'"):
        PassNames({}).extended({"Mine": ["pointwise.regio"]}, PACKS)


def test_toml(tmp_path: Path) -> None:
    (tmp_path / "fusion_switch.cfg").write_text("Mine:off\n")
    file = tmp_path / "autofusion.toml"
    file.write_text(
        """
        [fusion]
        level = "basic"
        threads = 3
        disable = ["conv"]
        disable_sites = ["conv1"]
        disable_kernels = ["cpu:conv.direct@conv1"]
        memory_budget = 1_000
        switch_file = "fusion_switch.cfg"
        [fusion.priorities]
        "conv.activation" = 7
        [switch_names]
        Mine = ["pointwise.region"]
        [other.tool]
        left = "alone"
        """
    )
    settings = read_settings(file, PACKS)
    assert settings == {
        "level": Level.BASIC,
        "threads": 3,
        "disable": {"conv", "pointwise.region"},
        "disable_sites": {"conv1"},
        "disable_kernels": {"cpu:conv.direct@conv1"},
        "priorities": {"conv.activation": 7},
        "memory_budget": 1000,
    }
    assert names_of(file, PACKS).passes["Mine"] == ("UBFusion", ("pointwise.region",))
    again = tmp_path / "again.toml"
    again.write_text(write_settings(settings))
    assert read_settings(again, PACKS) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fusion]\nlevle = 'off'", "'fusion.levle' in .* is unknown; did you mean 'level'"),
        ("[fusion]\ndisable = 'conv'", "'fusion.disable' in .* is 'conv', expected a list of strings"),
        ("[fusion]\nthreads = true", "'fusion.threads' in .* is True, expected a whole number"),
        ("[fusion", "not a TOML file"),
    ],
)
def test_mistakes_in_toml_are_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(OptionError, match=message):
        read_settings(file, PACKS)


def test_the_environment_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[fusion]\nonly = ['conv']\n")
    monkeypatch.setenv("AUTOFUSION_CONFIG", str(file))
    assert read_settings(None, PACKS) == {"only": {"conv"}}
    monkeypatch.setenv("AUTOFUSION_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(OptionError, match="cannot read the settings file"):
        read_settings(None, PACKS)
