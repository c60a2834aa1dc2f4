"""Detection from system files, the stored target, calibration."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from autofusion.cost import calibrate, detect, store
from autofusion.errors import OptionError
from autofusion.kernels import isa


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up machine: system files in a folder."""
    monkeypatch.setattr(detect, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(isa, "CPUINFO", tmp_path / "proc" / "cpuinfo")
    monkeypatch.setattr(detect, "_CPU0", tmp_path / "cpu0")
    monkeypatch.setattr(detect, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.delenv(detect.ISA_VARIABLE, raising=False)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("flags", "isa", "lanes"),
    [
        ("fpu sse2 avx2 fma avx512f avx512dq avx512bw avx512vl", "avx512", 16),
        ("fpu sse2 avx2 fma avx512f", "avx2", 8),
        ("fpu sse2 avx2", "generic", 4),
        ("", "generic", 4),
    ],
)
def test_instruction_sets(machine: Path, flags: str, isa: str, lanes: int) -> None:
    write(machine / "proc" / "cpuinfo", f"processor : 0\nflags\t\t: {flags}\n")
    target = detect.detect(1)
    assert (target.isa, target.lanes) == (isa, lanes)


def test_a_narrower_instruction_set_may_be_asked_for(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine / "proc" / "cpuinfo", "flags\t\t: avx2 fma avx512f avx512dq avx512bw avx512vl\n")
    monkeypatch.setenv(detect.ISA_VARIABLE, "avx2")
    assert (detect.detect(1).isa, detect.detect(1).lanes) == ("avx2", 8)
    for missing in ("neon", "avx51"):
        monkeypatch.setenv(detect.ISA_VARIABLE, missing)
        with pytest.raises(OptionError, match=f"AUTOFUSION_ISA is '{missing}', expected one of .* avx512, avx2"):
            detect.detect(1)


def test_arm(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert detect.detect(1).isa == "neon"


def test_caches_and_their_share(machine: Path) -> None:
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"), ("3", "Unified", "300M")]
    ):
        for name, text in (("level", level), ("type", kind), ("size", size)):
            write(machine / "cpu0" / "cache" / f"index{index}" / name, text + "\n")
    target = detect.detect(2)
    assert (target.l1_bytes, target.l2_bytes) == (48 << 10, 2 << 20)
    assert target.l3_bytes == 2 * detect.L3_SHARE


def test_a_container_quota_bounds_the_threads(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert detect.usable_cores() == 8
    write(machine / "cgroup" / "cpu.max", "250000 100000\n")
    assert detect.usable_cores() == 2
    write(machine / "cgroup" / "cpu.max", "max 100000\n")
    assert detect.usable_cores() == 8


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/a.slice/b.service\n", {"a.slice/b.service/cpu.max": "300000 100000"}, 3),
        ("0::/a.slice/b.service\n", {"a.slice/cpu.max": "200000 100000", "a.slice/b.service/cpu.max": "max 100000"}, 2),
        ("0::/../../x\n", {"cpu.max": "50000 100000"}, 1),
        ("4:cpu,cpuacct:/docker/77\n3:memory:/docker/77\n", {"cpu,cpuacct/docker/77/cpu.cfs_quota_us": "400000"}, 4),
        ("4:cpu,cpuacct:/docker/77\n", {"cpu,cpuacct/cpu.cfs_quota_us": "50000"}, 1),
        ("4:cpu:/docker/77\n", {"cpu/cpu.cfs_quota_us": "-1"}, 8),
        ("4:cpuset:/docker/77\n", {"cpuset/docker/77/cpu.cfs_quota_us": "100000"}, 8),
    ],
)
def test_quotas_of_all_groups_around_the_process(
    machine: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    write(machine / "proc" / "self" / "cgroup", groups)
    for name, text in files.items():
        write(machine / "cgroup" / name, text + "\n")
        if name.endswith("quota_us"):
            write(machine / "cgroup" / name.replace("quota", "period"), "100000\n")
    assert detect.usable_cores() == cores


def test_a_system_that_tells_nothing_still_gives_a_target(machine: Path) -> None:
    target = detect.detect()
    assert target.isa == "generic" and target.threads >= 1 and target.peak_flops > 0


def test_a_stored_target_comes_back_unchanged(tmp_path: Path) -> None:
    target = dataclasses.replace(detect.detect(), bandwidth_l3=1.2345678901234e10)
    store.save(target, tmp_path / "deep" / "target.toml", cpu='odd "name" \\ here')
    assert store.load(tmp_path / "deep" / "target.toml") == (target, 'odd "name" \\ here')


def test_current_uses_the_stored_target_of_this_machine_only(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    assert store.current(2, path) == detect.detect(2)
    measured = dataclasses.replace(detect.detect(1), bandwidth_l2=1.0e9)
    store.save(measured, path)
    assert store.current(2, path) == dataclasses.replace(measured, threads=2)
    store.save(measured, path, cpu="another machine")
    assert store.current(2, path) == detect.detect(2)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text.replace("lanes", "lnaes"), "unknown entry 'lnaes'; did you mean 'lanes'"),
        (lambda text: text.replace("threads = 2", 'threads = "2"'), "threads = '2', expected int"),
        (lambda text: text.replace("threads = 2", "threads = 0"), "more than 0"),
        (lambda text: text.replace("threads = 2\n", ""), "threads = None"),
        (lambda text: text + "= what", "cannot be read"),
    ],
)
def test_a_damaged_file_is_an_error_that_says_where(tmp_path: Path, edit: object, message: str) -> None:
    path = tmp_path / "target.toml"
    store.save(detect.detect(2), path)
    path.write_text(edit(path.read_text()))  # type: ignore[operator]
    with pytest.raises(OptionError, match=r"target\.toml") as caught:
        store.load(path)
    assert message in str(caught.value)


def test_default_path_can_be_stated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AUTOFUSION_TARGET", str(tmp_path / "x.toml"))
    assert store.default_path() == tmp_path / "x.toml"
    monkeypatch.delenv("AUTOFUSION_TARGET")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert store.default_path() == tmp_path / "autofusion" / "target.toml"


def test_calibration_measures_rates_and_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "TRIES", 2)
    monkeypatch.setattr(calibrate, "MEMORY_BYTES", 8 << 20)
    detected = dataclasses.replace(detect.detect(1), l3_bytes=4 << 20)
    measured = calibrate.calibrate(detected)
    for field in ("isa", "lanes", "threads", "l1_bytes", "l2_bytes", "l3_bytes"):
        assert getattr(measured, field) == getattr(detected, field)
    for field in ("bandwidth_l2", "bandwidth_l3", "bandwidth_memory"):
        assert 1e8 < getattr(measured, field) < 1e12
    assert 1e7 < measured.transcendentals < 1e11
