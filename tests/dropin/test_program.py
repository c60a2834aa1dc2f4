"""``python -m autofusion.onnxruntime`` starts an unchanged program with the stand-in in onnxruntime's place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import dropin_models as models

PROGRAM = """\
import sys
import numpy as np
import onnxruntime as ort
import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from onnxruntime.capi._pybind_state import NoSuchFile
import beside

session = InferenceSession(sys.argv[1], SessionOptions(), providers=ort.get_available_providers())
try:
    session.run(["nope"], {"x": np.zeros((1, 4), np.float32)})
except InvalidArgument:
    print("caught")
assert state.NoSuchFile is NoSuchFile and ort.InferenceSession is InferenceSession
shape = session.run(None, {"x": np.ones((1, 4), np.float32)})[0].shape
print(type(session).__module__, __name__, sys.argv[2:], beside.NAME, shape)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    models.gemm(tmp_path / "gemm.onnx")
    return tmp_path


def start(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autofusion.onnxruntime", *arguments]
    env = {**os.environ, **environ}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)


EXPECTED = "caught\nautofusion.onnxruntime.session __main__ ['a', '-b'] beside (1, 3)\n"


def test_a_script(folder: Path) -> None:
    ended = start(folder.parent, str(folder / "program.py"), str(folder / "gemm.onnx"), "a", "-b")
    assert (ended.returncode, ended.stdout) == (0, EXPECTED), ended.stderr
    assert "Warning" not in ended.stderr


def test_a_module(folder: Path) -> None:
    ended = start(folder, "-m", "program", "gemm.onnx", "a", "-b")
    assert (ended.returncode, ended.stdout) == (0, EXPECTED), ended.stderr


def test_the_exit_code_and_traceback_are_the_program_s(folder: Path) -> None:
    (folder / "fails.py").write_text("import sys; sys.exit(7)")
    assert start(folder, "fails.py").returncode == 7
    (folder / "raises.py").write_text("raise KeyError('mine')")
    ended = start(folder, "raises.py")
    assert ended.returncode == 1 and "KeyError: 'mine'" in ended.stderr


def test_usage(folder: Path) -> None:
    for arguments, code in ((["--help"], 0), ([], 2), (["-m"], 2)):
        ended = start(folder, *arguments)
        assert ended.returncode == code and "SCRIPT ARGS" in ended.stdout + ended.stderr
    ended = start(folder, "missing.py")
    assert ended.returncode == 1 and "there is no program 'missing.py'" in ended.stderr


def test_what_the_stand_in_lacks_is_the_real_package_s(folder: Path) -> None:
    (folder / "more.py").write_text(
        "import onnxruntime, sys\n"
        "from onnxruntime.quantization import QuantType\n"
        "print(onnxruntime.SparseTensor.__name__, QuantType.QInt8.name, hasattr(onnxruntime, 'nope'))\n"
        "import importlib.util; print(importlib.util.find_spec('onnxruntime') is not None)\n"
        "print(onnxruntime.InferenceSession.__module__)\n"
        "import os; print(os.path.isfile(onnxruntime.__file__))\n"
    )
    ended = start(folder, "more.py")
    expected = "SparseTensor QInt8 False\nTrue\nautofusion.onnxruntime.session\nTrue\n"
    assert (ended.returncode, ended.stdout) == (0, expected), ended.stderr


def test_without_the_real_package(folder: Path) -> None:
    """Programs run where only Autofusion is installed."""
    (folder / "alone.py").write_text(
        "import sys\n"
        "import onnxruntime\n"
        "import os; print(os.path.isfile(onnxruntime.__file__))\n"
        "print(hasattr(onnxruntime, 'SparseTensor'), onnxruntime.get_device())\n"
        "try:\n    import onnxruntime.quantization\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    (folder / "first.py").write_text(
        "import runpy, sys\n"
        "from autofusion.onnxruntime import real\n"
        "real._installed = lambda: []\n"
        "real.install()\n"
        "runpy.run_path('alone.py', run_name='__main__')\n"
    )
    ended = subprocess.run([sys.executable, "first.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.stdout == "True\nFalse CPU\nNo module named 'onnxruntime.quantization'\n", ended.stderr


def test_the_environment_states_options(folder: Path) -> None:
    (folder / "options.py").write_text(
        "import onnxruntime\n"
        "context = onnxruntime.InferenceSession('gemm.onnx')._session.context\n"
        "print(context.options.level.name, context.target.threads, context.options.numerics.value)\n"
    )
    environ = {"AUTOFUSION_LEVEL": "basic", "AUTOFUSION_THREADS": "1", "AUTOFUSION_NUMERICS": "exact"}
    assert start(folder, "options.py", **environ).stdout == "BASIC 1 exact\n"
    ended = start(folder, "options.py", AUTOFUSION_THREADS="many", AUTOFUSION_STRICT="1")
    assert ended.returncode == 1 and "AUTOFUSION_THREADS is 'many', expected a whole number" in ended.stderr
