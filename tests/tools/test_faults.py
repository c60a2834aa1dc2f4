"""Fault injection: ten plugins that are wrong in ten ways. Each is flagged, named, and reproduced on its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import autofusion
from autofusion.tools.bisect import Report as Found
from autofusion.tools.bisect import bisect
from autofusion.tools.verify import Report, verify

SHAPES = {"x": (1, 24, 20, 20)}
RULES = {
    "wrong_epsilon": "block2.bn",
    "dropped_residual": "block1.relu2",
    "wrong_axis": "softmax",
}
"""Fault -> the node where a rule does it."""
KERNELS = {
    "one_channel": "block1.conv1",
    "crash": "block2.conv1",
    "hang": "block0.conv2",
    "slow": "block3.conv1",
    "nan_of_negative": "block0.conv1",
    "race": "block2.conv2",
    "odd_width": "block1.conv2",
}
"""Fault -> the anchor of the fused node whose kernel does it."""
SITES = RULES | KERNELS
FLAG = {"crash": "crash", "hang": "hang", "slow": "speed", "one_channel": "sites"}
"""Fault -> the step of ``verify`` that must flag it; all others show in the outputs, or in repeated runs."""
TIMEOUT = 20.0

Faults = Callable[..., dict[str, str]]


def verified(model: Path, environ: dict[str, str], *, speed: bool = False) -> Report:
    return verify(model, shapes=SHAPES, threads=2, timeout=TIMEOUT, environ=environ, speed=speed)


def bisected(model: Path, environ: dict[str, str], out: Path | None = None, check: str = "verify") -> Found:
    return bisect(model, shapes=SHAPES, threads=2, timeout=TIMEOUT, environ=environ, out=out, check=check)


def test_without_a_fault_all_is_fine(blocks_model: Path, faults: Faults) -> None:
    report = verified(blocks_model, faults(), speed=True)
    assert report.ok, report.problems
    assert [c["case"] for c in report.data["cases"]] == ["uniform", "normal", "other sizes", "large", "not a number"]
    outputs = [row for row in report.data["outputs"] if row["case"] != "not a number"]
    assert len(report.data["sites"]) >= 8 and all(row["exact"] for row in outputs)


@pytest.mark.slow
@pytest.mark.parametrize("fault", SITES)
def test_verify_flags_bisect_names_and_the_reproducer_fails(
    fault: str, blocks_model: Path, faults: Faults, tmp_path: Path
) -> None:
    environ, site = faults(**{fault: SITES[fault]}), SITES[fault]

    report = verified(blocks_model, environ, speed=fault == "slow")
    steps = {p.step for p in report.problems}
    assert not report.ok and steps & ({FLAG[fault]} if fault in FLAG else {"outputs", "repeats"}), report.problems
    if fault in KERNELS:
        kernel = f"faulty:conv.{fault}"
        told = " ".join(f"{p.where} {p.what}" for p in report.problems)
        assert kernel in told and site in told, "it says which kernel, and where"

    found = bisected(blocks_model, environ, tmp_path, "speed" if fault == "slow" else "verify")
    assert len(found.culprits) == 1, found.data()
    culprit = found.culprits[0]
    assert [u.site for u in culprit.units] == [site]
    if fault in KERNELS:
        assert culprit.kernel == f"faulty:conv.{fault}"
        assert culprit.switch == f"--disable-kernel faulty:conv.{fault}@{site}"
    else:
        assert not culprit.kernel and [u.rule for u in culprit.units] == [f"faulty.{fault}"]
        assert culprit.switch == f"--disable-site faulty.{fault}:{site}"

    reproducer = culprit.reproducer
    assert reproducer is not None and reproducer.size in ("node", "region"), found.log
    folder = Path(reproducer.folder)
    done = run_script(folder, environ)
    assert done.returncode != 0, done.stdout
    assert (folder / "model.onnx").exists() and (folder / "inputs.npz").exists()
    if fault in KERNELS and fault != "hang":  # what fails there is the kernel, not the case
        assert run_script(folder, faults()).returncode == 0


def run_script(folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "reproduce.py"],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.slow
def test_two_guilty_rules_are_both_found(blocks_model: Path, faults: Faults) -> None:
    found = bisected(blocks_model, faults(wrong_epsilon="block2.bn", wrong_axis="softmax"))
    assert {(u.rule, u.site) for c in found.culprits for u in c.units} == {
        ("faulty.wrong_epsilon", "block2.bn"),
        ("faulty.wrong_axis", "softmax"),
    }


@pytest.mark.slow
def test_a_rule_and_a_kernel_are_both_found(blocks_model: Path, faults: Faults) -> None:
    found = bisected(blocks_model, faults(dropped_residual="block3.relu2", odd_width="block1.conv2"))
    assert {(c.kernel or c.units[0].rule, c.units[0].site) for c in found.culprits} == {
        ("faulty.dropped_residual", "block3.relu2"),
        ("faulty:conv.odd_width", "block1.conv2"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 137, 299])
def test_one_guilty_place_among_three_hundred(
    number: int, faults: Faults, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tests.support.network import chain, write

    model = write(chain(300), tmp_path_factory.mktemp("chain") / "chain.onnx")
    site = f"product{number}"
    found = bisect(model, threads=2, timeout=120.0, environ=faults(one_channel=site))
    assert found.places == 300
    assert [(c.kernel, c.units[0].site) for c in found.culprits] == [("faulty:matmul.one_channel", site)]
    assert found.runs <= 4, "\n".join(found.log)


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 280])
def test_one_guilty_rule_among_three_hundred_places(
    number: int, faults: Faults, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each kernel does what its own node means: only the outputs tell, and no place is suspected more than another."""
    from tests.support.network import chain, write

    model = write(chain(300), tmp_path_factory.mktemp("chain") / "chain.onnx")
    found = bisect(model, threads=2, timeout=120.0, environ=faults(dropped_shift=f"bias{number}"))
    assert found.places == 301
    assert [(c.kernel, u.rule, u.site) for c in found.culprits for u in c.units] == [
        ("", "faulty.dropped_shift", f"bias{number}")
    ]
    assert found.runs <= 12, "\n".join(found.log)


@pytest.mark.slow
def test_a_rule_that_dies_while_compiling(blocks_model: Path, faults: Faults) -> None:
    report = verified(blocks_model, faults(dies_compiling="block1.add"))
    assert {p.step for p in report.problems} == {"crash"} and report.problems[0].where == "compiling"
    found = bisected(blocks_model, faults(dies_compiling="block1.add"))
    assert [(u.rule, u.site) for c in found.culprits for u in c.units] == [("faulty.dies_compiling", "block1.add")]


@pytest.mark.slow
def test_a_command_decides(blocks_model: Path, faults: Faults, tmp_path: Path) -> None:
    """The user's own test: it compiles as always, and takes its switches from the environment."""
    script = tmp_path / "check.py"
    script.write_text(
        f"""
import sys
import numpy as np
import autofusion as af
x = np.random.default_rng(5).random((1, 24, 20, 20), np.float32)
full = af.compile({str(blocks_model)!r}).run({{"x": x}})["y"]
off = af.compile({str(blocks_model)!r}, level="off").run({{"x": x}})["y"]
sys.exit(int(not np.allclose(full, off, rtol=1e-3)))
"""
    )
    found = bisected(blocks_model, faults(wrong_axis="softmax"), check=f"{sys.executable} {script}")
    assert [(c.kind, u.rule, u.site) for c in found.culprits for u in c.units] == [
        ("command", "faulty.wrong_axis", "softmax")
    ]


@pytest.mark.slow
def test_a_metric_decides(blocks_model: Path, faults: Faults, tmp_path: Path) -> None:
    """The labels are what level off says; the metric is no longer what it was, wherever the outputs may be off."""
    off = autofusion.compile(blocks_model, level="off", threads=1)
    data = tmp_path / "data"
    data.mkdir()
    random = np.random.default_rng(3)
    for number in range(12):
        x = random.standard_normal((1, 24, 20, 20)).astype(np.float32)
        np.savez(data / f"{number:02}.npz", x=x, label=off.run({"x": x})["y"].argmax(-1))
    found = bisect(
        blocks_model, data=data, check="top1", threads=2, timeout=TIMEOUT, out=tmp_path / "out",
        environ=faults(wrong_axis="softmax"),
    )  # fmt: skip
    assert [(c.kind, u.rule, u.site) for c in found.culprits for u in c.units] == [
        ("top1", "faulty.wrong_axis", "softmax")
    ]
    assert "1.000000 in the reference" in found.culprits[0].what
    reproducer = found.culprits[0].reproducer
    assert reproducer is not None and reproducer.size == "region", found.log
    assert run_script(Path(reproducer.folder), faults(wrong_axis="softmax")).returncode == 1


@pytest.mark.slow
def test_a_wrong_kernel_of_an_ordinary_operator(blocks_model: Path, faults: Faults) -> None:
    """Level off runs it too, so the reference kernels judge it."""
    environ = faults(ordinary="softmax")
    same = verified(blocks_model, environ)
    assert any(p.step == "sites" and "faulty:Softmax.ordinary" in p.what for p in same.problems), same.problems
    report = verify(
        blocks_model, shapes=SHAPES, threads=2, timeout=TIMEOUT, environ=environ, against="reference", speed=False
    )
    assert {p.step for p in report.problems} == {"outputs", "sites"}
    found = bisect(
        blocks_model, shapes=SHAPES, threads=2, timeout=TIMEOUT, environ=environ, against="reference", check="verify"
    )
    assert [(c.kernel, u.site) for c in found.culprits for u in c.units] == [("faulty:Softmax.ordinary", "softmax")]
