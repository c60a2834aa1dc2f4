"""What plugins leave behind: prints beside JSON, a crash on import, misspelt groups, versions that differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.distributions import GOOD_PACK, Distribution

LOUD = "import os\nprint('{}', flush=True)\nos.write(1, b'from native code')\n"


def plugins(folder: Path, *distributions: Distribution) -> subprocess.CompletedProcess[str]:
    for distribution in distributions:
        distribution.install(folder)
    return subprocess.run(
        [sys.executable, "-m", "autofusion", "plugins", "--json"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip


def test_what_plugins_print_and_misspell_is_kept_apart_and_told(tmp_path: Path) -> None:
    loud = Distribution("af-loud", LOUD + GOOD_PACK.format(name="af-loud"))
    typo = Distribution("af-typo", GOOD_PACK.format(name="af-typo"), group="autofusion.kernel")
    older = Distribution("af-older", GOOD_PACK.format(name="af-older"), version="2.0")
    banana = Distribution(
        "af-banana",
        GOOD_PACK.format(name="af-banana").replace("kinds = ()", "from autofusion.kernels import FusedKind\n"
                                                   "    kinds = (FusedKind('af-banana.x', 'banana'),)"),
    )  # fmt: skip
    done = plugins(tmp_path, loud, typo, older, banana)
    told = json.loads(done.stdout)
    found = {row["dist"]: row for row in told["plugins"]}
    assert told["format"] == 1
    assert "from native code" in done.stderr
    assert found["af-loud"]["status"] == found["af-older"]["status"] == "loaded"
    assert found["af-typo"]["status"] == "failed"
    assert "did you mean 'autofusion.kernels'" in found["af-typo"]["detail"]
    assert "in version 'banana', expected a number" in found["af-banana"]["detail"]
    assert "'af-older' says that it is version 1.0, its distribution 2.0" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_plugin_that_ends_the_process_on_import_leaves_a_trace(tmp_path: Path) -> None:
    crash = Distribution("af-crash", "import ctypes\nctypes.string_at(0)\n")
    done = plugins(tmp_path, crash)
    assert done.returncode < 0
    assert "af_crash" in done.stderr and "line 2" in done.stderr
