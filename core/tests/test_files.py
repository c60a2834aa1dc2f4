"""Files are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autofusion.files import replacing, write_text
from autofusion.tools.inputs import load_npz, save_npz


def test_an_error_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as part:
        part.write_text("half of the n")
        raise RuntimeError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_a_full_disk_keeps_the_old_file_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(OSError) as caught, replacing(path) as part:
        part.write_text("new")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as write says it: without a name
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_modes_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link"
    write_text(path, "old")
    (tmp_path / "plain").write_text("")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink() and path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_device_is_written_to_in_place() -> None:
    with pytest.raises(OSError, match="No space") as caught:
        write_text(Path("/dev/full"), "x" * 100_000)
    assert caught.value.filename == "/dev/full" and not Path("/dev/full").is_file()


def test_archives_take_any_name(tmp_path: Path) -> None:
    path, arrays = tmp_path / "y", {"file": np.arange(3), "a/b": np.ones(2), "args": np.zeros(())}
    save_npz(path, arrays)
    found = load_npz(path)
    assert os.listdir(tmp_path) == ["y"] and sorted(found) == sorted(arrays)
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_a_stream_that_cannot_say_a_character_gets_an_escape() -> None:
    code = "from autofusion.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "gr\u00f6\u00dfe\u4e2d.onnx"],
        env={**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2 and b"\\u4e2d" in done.stderr and b"Traceback" not in done.stderr
