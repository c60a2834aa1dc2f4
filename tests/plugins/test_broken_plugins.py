"""Real distributions that are broken in every way, beside ours: each is reported, and the rest runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.distributions import GOOD_PACK, Distribution, records, run

RAISES = Distribution("af-raises", "raise RuntimeError('boom at import')\n")
NO_MODULE = Distribution("af-no-module", "import autofusion_nothing_of_the_kind\n")
SYNTAX = Distribution("af-syntax", "def broken(:\n")
TOO_NEW = Distribution("af-too-new", "raise SystemExit('imported all the same')\n", requires=("autofusion>=99",))
SILENT = Distribution("af-silent", "raise SystemExit('imported all the same')\n", requires=())
TWIN_A = Distribution("af-twin-a", GOOD_PACK.format(name="twin"), name="twin")
TWIN_B = Distribution("af-twin-b", "raise SystemExit('imported all the same')\n", name="twin")
ARGUMENT = Distribution(
    "af-argument",
    "from autofusion.hooks import hookimpl\n@hookimpl\ndef autofusion_kernel_packs(target, colour):\n    return []\n",
)
MISSPELT = Distribution(
    "af-misspelt",
    "from autofusion.hooks import hookimpl\n@hookimpl\ndef autofusion_kernel_pack(target):\n    return []\n",
)
NO_HOOK = Distribution("af-no-hook", "value = 1\n")
WRONG_TYPE = Distribution(
    "af-wrong-type",
    "from autofusion.hooks import hookimpl\n@hookimpl\ndef autofusion_kernel_packs(target):\n    return 'a pack'\n",
)
WRONG_ITEM = Distribution(
    "af-wrong-item",
    "from autofusion.hooks import hookimpl\n@hookimpl\ndef autofusion_rule_packs():\n    return [3]\n",
    group="autofusion.rules",
)
RAISES_LATE = Distribution(
    "af-raises-late",
    "from autofusion.hooks import hookimpl\n@hookimpl\ndef autofusion_frontends():\n    raise KeyError('late')\n",
    group="autofusion.frontends",
)
BAD_RULE = Distribution(
    "af-bad-rule",
    "from autofusion.hooks import hookimpl\n"
    "@hookimpl\n"
    "def autofusion_rule_packs():\n"
    "    from autofusion.rules.pattern import op, var\n"
    "    from autofusion.rules.rule import RewriteRule, RulePack\n"
    "    rule = RewriteRule('af-bad-rule.x', op('Rellu', var('x')), lambda match, builder: [match['x']])\n"
    "    return [RulePack('af-bad-rule', '1.0', (rule,))]\n",
    group="autofusion.rules",
)
SAME_PACK_A = Distribution("af-same-pack-a", GOOD_PACK.format(name="af-same"))
SAME_PACK_B = Distribution("af-same-pack-b", GOOD_PACK.format(name="af-same"))
GOOD = Distribution("af-good", GOOD_PACK.format(name="af-good"))

ENDS = {
    RAISES: ("failed", "RuntimeError: boom at import (__init__.py:1)"),
    NO_MODULE: ("failed", "ModuleNotFoundError: No module named 'autofusion_nothing_of_the_kind' (__init__.py:1)"),
    SYNTAX: ("failed", "SyntaxError: invalid syntax"),
    TOO_NEW: ("incompatible", "needs autofusion>=99, found"),
    SILENT: ("incompatible", "does not say which autofusion it needs"),
    TWIN_A: ("conflict", "'twin' is provided by af-twin-a and af-twin-b"),
    TWIN_B: ("conflict", "'twin' is provided by af-twin-a and af-twin-b"),
    ARGUMENT: ("failed", "colour"),
    MISSPELT: ("failed", "autofusion_kernel_pack"),
    NO_HOOK: ("failed", "'af_no_hook' implements no hook 'autofusion_kernel_packs'"),
    WRONG_TYPE: ("failed", "the hook returned str, expected a list"),
    WRONG_ITEM: ("failed", "an object of type int has no 'name'"),
    RAISES_LATE: ("failed", "KeyError: 'late' (__init__.py:4)"),
    BAD_RULE: ("failed", "names the operator 'Rellu', which does not exist; did you mean 'Relu'"),
    SAME_PACK_A: ("conflict", "a pack called 'af-same' is provided by the plugins af-same-pack-a and af-same-pack-b"),
    SAME_PACK_B: ("conflict", "a pack called 'af-same' is provided by the plugins af-same-pack-a and af-same-pack-b"),
    GOOD: ("loaded", ""),
}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of the above, installed together."""
    folder = tmp_path_factory.mktemp("installed")
    for distribution in ENDS:
        distribution.install(folder)
    return folder


@pytest.fixture(scope="module")
def outcome(zoo: Path) -> tuple[dict[str, Any], str]:
    return records(zoo)


@pytest.mark.parametrize("distribution", ENDS, ids=lambda d: d.dist)
def test_each_ends_as_a_record(distribution: Distribution, outcome: tuple[dict[str, Any], str]) -> None:
    status, detail = ENDS[distribution]
    record = outcome[0][distribution.dist]
    assert (record["group"], record["name"], record["version"]) == (distribution.group, distribution.plugin, "1.0")
    assert record["status"] == status, record
    assert detail in record["detail"]
    assert "\n" not in record["detail"]


def test_each_failure_is_one_warning(outcome: tuple[dict[str, Any], str]) -> None:
    lines = outcome[1].splitlines()
    for distribution, (status, _) in ENDS.items():
        about = [line for line in lines if f" of {distribution.dist}==" in line]
        assert len(about) == (0 if status == "loaded" else 1), (distribution.dist, lines)
        assert all(line.startswith("WARNING autofusion.plugins ") for line in about)


def test_the_rest_is_loaded(outcome: tuple[dict[str, Any], str]) -> None:
    assert outcome[0]["autofusion-kernels-reference"]["status"] == "loaded"


MODEL = """
import numpy as np
import autofusion
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
graph = Graph("g")
x = graph.add_input("x", TensorType(np.dtype(np.float32), (2, 3)))
y = graph.node("Relu", [graph.node("Neg", [x]).output]).output
graph.add_output(y, "y")
given = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
print((autofusion.compile(graph).run({"x": given})["y"] + 0.0).tolist())
"""


def test_models_run_all_the_same(zoo: Path) -> None:
    done = run(zoo, MODEL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[3.0, 2.0, 1.0], [0.0, 0.0, 0.0]]"


def test_strict_raises_and_names_them_all(zoo: Path) -> None:
    done = run(zoo, MODEL, AUTOFUSION_STRICT="1")
    assert done.returncode != 0
    last = done.stderr[done.stderr.index("PluginError: AUTOFUSION_STRICT is set") :]
    assert "'af-raises' of af-raises==1.0: failed: RuntimeError: boom at import" in last
    assert "needs autofusion>=99" in last


def test_strict_is_content_with_good_plugins(tmp_path: Path) -> None:
    GOOD.install(tmp_path)
    done = run(tmp_path, MODEL, AUTOFUSION_STRICT="1", AUTOFUSION_PLUGINS="af-good,reference")
    assert done.returncode == 0, done.stderr


def test_a_subset_by_name_or_distribution(zoo: Path) -> None:
    found, log = records(zoo, AUTOFUSION_PLUGINS="af-good, autofusion-kernels-reference")
    assert {d: r["status"] for d, r in found.items()} == {"af-good": "loaded", "autofusion-kernels-reference": "loaded"}
    assert log == ""


def test_an_empty_subset_is_none(zoo: Path) -> None:
    assert records(zoo, AUTOFUSION_PLUGINS="") == ({}, "")
    done = run(zoo, MODEL, AUTOFUSION_PLUGINS="")
    assert done.returncode != 0
    assert "Error: no kernel runs" in done.stderr or "autofusion-kernels-reference" in done.stderr


def test_an_unknown_name_in_the_subset_is_missing(zoo: Path) -> None:
    found, log = records(zoo, AUTOFUSION_PLUGINS="af-good,af-gooood")
    assert found["-"]["status"] == "missing"
    assert found["-"]["name"] == "af-gooood"
    assert "named by AUTOFUSION_PLUGINS, but not installed" in log


def test_pins(zoo: Path) -> None:
    found, _ = records(zoo, {"AF_Good": "1.0", "af-twin-a": "1.0", "af-raises": "0.9", "af-gone": "2.0"})
    assert found["af-good"]["status"] == "loaded", "names are compared in their canonical form"
    assert found["af-twin-a"]["status"] == "loaded", "a lock that names one of two rivals settles the conflict"
    assert found["af-twin-b"]["status"] == "unpinned"
    assert found["af-twin-b"]["detail"] == "the lock does not name it"
    assert found["autofusion-kernels-reference"]["status"] == "unpinned"
    assert (found["af-gone"]["status"], found["af-gone"]["version"]) == ("missing", "2.0")


def test_a_pinned_version_that_is_not_there(zoo: Path) -> None:
    code = "from autofusion.plugins.registry import Registry\n"
    code += "for r in Registry({'af-raises': '0.9'}).records: print(r)\n"
    lines = run(zoo, code).stdout.splitlines()
    assert "autofusion.kernels 'af-raises' of af-raises==1.0: unpinned: the lock says 0.9" in lines
    assert "- '-' of af-raises==0.9: missing: pinned by the lock, not installed in that version" in lines


def test_listing_imports_no_framework(tmp_path: Path) -> None:
    code = "import sys\nfrom autofusion.plugins.registry import Registry\nRegistry().records\n"
    code += "print([m for m in ('tensorflow', 'mindspore', 'torch', 'onnxruntime') if m in sys.modules])\n"
    done = run(tmp_path, code)
    assert done.stdout.strip() == "[]", done.stderr


def test_looking_at_the_installed_imports_nothing(zoo: Path) -> None:
    code = "import sys\nfrom autofusion.plugins.discovery import installed\n"
    code += "names = [p.dist for p in installed()]\n"
    code += "print(len(names), [m for m in sys.modules if m.startswith(('af_', 'autofusion_')) or m == 'numpy'])\n"
    count, modules = run(zoo, code).stdout.split(" ", 1)
    assert int(count) > len(ENDS)
    assert modules.strip() == "[]"
