"""Mutants: what is taken away, and that tests which would not notice are found."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autofusion.tools.mutation import mutants_of

SOURCE = """
from autofusion.rules import Refusal, const, op

PATTERN = op("Mul", const("half", 0.5), axis=1, name="root")

def rewrite(match, builder):
    assert match is not None and builder
    if match.bad:
        return Refusal(f"{match.root.label}: bad and {'worse' if match else ''}")
    if match.more:  # same without: it is always more
        match.grow()
    names = [n for n in match.names if n]
    attrs = {"axis": 1, **match.attrs}
    return match.a == match.b
"""


def test_one_thing_is_taken_away_at_a_time() -> None:
    found = {mutant.change: mutant for mutant in mutants_of(SOURCE, "pack")}
    assert list(found) == [
        "without 'axis' of 'op'",
        "without the number of 'const('half', 0.5)'",
        "without the guard 'match.bad'",
        "'match.more' always holds",
        "without the condition 'n'",
        "without entry 'axis'",
        "without entry **match.attrs",
        "'match.a == match.b' always holds",
    ]
    assert found["'match.more' always holds"].same == "it is always more"
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for change, mutant in found.items():
        text = ast.unparse(mutant.tree()).splitlines()
        assert sum(a != b for a, b in zip(plain, text, strict=True)) == 1, change


@pytest.mark.slow
@pytest.mark.parametrize("keeps_tests", [True, False])
def test_the_tests_of_the_template_notice_every_mutant(tmp_path: Path, keeps_tests: bool) -> None:
    project = Path("contrib/template-rules").resolve()
    site, tests = tmp_path / "site", tmp_path / "tests"
    (site / "autofusion_rules_acme-0.1.0.dist-info").mkdir(parents=True)
    info = site / "autofusion_rules_acme-0.1.0.dist-info"
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: autofusion-rules-acme\nVersion: 0.1.0\nRequires-Dist: autofusion\n"
    )
    (info / "entry_points.txt").write_text("[autofusion.rules]\nacme = autofusion_rules_acme\n")
    (site / "autofusion_rules_acme").symlink_to(project / "src" / "autofusion_rules_acme")
    tests.mkdir()
    (tests / "test_conformance.py").write_text((project / "tests" / "test_conformance.py").read_text())
    text = (project / "tests" / "golden" / "acme.ir").read_text()
    (tests / "golden").mkdir()
    (tests / "golden" / "acme.ir").write_text(text if keeps_tests else text.split("// -----")[0])
    command = [sys.executable, "-m", "autofusion", "test-pack", "acme", "--tests", str(tests), "--mutate", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(site)}
    )
    told = json.loads(done.stdout)
    assert done.returncode == (0 if keeps_tests else 1), done.stderr
    assert told["tried"] == told["mutants"] > 8
    assert (told["survived"] == []) is keeps_tests
