"""The templates are packs that pass their conformance tests as written, and ``autofusion new`` writes such packs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autofusion.errors import OptionError
from autofusion.tools.scaffold import KINDS, scaffold
from tests.support.projects import CONTRIB, install, run, run_tests

MOST_CODE = 100


def code_lines(path: Path) -> int:
    """Lines that hold code: neither blank, nor comment, nor docstring."""
    tree = ast.parse(path.read_text())
    documented = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(path.read_text().splitlines(), 1)
    return sum(1 for number, line in lines if number not in documented and line.strip() and line.strip()[0] != "#")


@pytest.mark.parametrize("kind", KINDS)
def test_templates_are_short(kind: str) -> None:
    folder = CONTRIB / f"template-{kind}"
    count = sum(code_lines(path) for path in (*folder.glob("src/**/*.py"), *folder.glob("tests/*.py")))
    assert 20 < count < MOST_CODE, count


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_template_passes_as_written(kind: str, tmp_path: Path) -> None:
    install(tmp_path / "installed", CONTRIB / f"template-{kind}")
    done = run_tests(tmp_path / "installed", CONTRIB / f"template-{kind}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_a_rule_is_matched_priced_run_and_explained(tmp_path: Path) -> None:
    example = CONTRIB / "template-rules" / "example.py"
    assert len(example.read_text().splitlines()) < 40
    install(tmp_path / "installed", CONTRIB / "template-rules")
    done = run(tmp_path / "installed", [str(example)])
    assert done.returncode == 0, done.stderr
    assert "acme.divide_by_power_of_two@0.1.0 fused quarter" in done.stdout
    assert "acme.gate@0.1.0 fused gate" in done.stdout, "matched, and found to pay"
    assert "by pointwise.region@" in done.stdout, "run by a kernel of another pack"
    assert "largest difference: " in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_new_writes_a_pack(kind: str, tmp_path: Path) -> None:
    target = scaffold(kind, "my_own", tmp_path / "pack")
    text = "".join(p.read_text() for p in target.rglob("*") if p.suffix in (".py", ".toml", ".md", ".ir", ".json"))
    assert "acme" not in text.lower()
    assert f'name = "autofusion-{kind}-my-own"' in text
    assert (target / "src" / f"autofusion_{kind}_my_own" / "__init__.py").exists()
    assert "class TestMyOwn(" in text


@pytest.mark.slow
def test_a_new_pack_passes_its_tests(tmp_path: Path) -> None:
    target = scaffold("frontend", "my_own", tmp_path / "pack")
    install(tmp_path / "installed", target)
    done = run_tests(tmp_path / "installed", target)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("rule", "x", "there is no template 'rule': expected one of rules, kernels, frontend; did you mean 'rules'?"),
        ("rules", "My-Own", "'My-Own' cannot be the name of a pack"),
        ("rules", "import", "'import' cannot be the name of a pack"),
    ],
)
def test_wrong_names(kind: str, name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError) as error:
        scaffold(kind, name, tmp_path / "pack")
    assert said in str(error.value)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="exists already"):
        scaffold("rules", "x", tmp_path)
