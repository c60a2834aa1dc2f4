"""The model run by MindSpore itself on the CPU: the reference that results are compared with.

In a process of its own, which lives as long as the reference: MindSpore reads its settings when it is imported, does
not end without noise, and shares no process well with other frameworks.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from autofusion.frontends import InputError, LoadOptions, ModelError, OptionError, PluginError, Reference
from autofusion_frontend_mindspore.load import short_name
from autofusion_frontend_mindspore.proto import read_model
from autofusion_frontend_mindspore.sniff import cipher

ENVIRONMENT = {"ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "4"}
"""Settings for MindSpore: with AVX-512 its oneDNN takes a scalar convolution, a hundred times slower."""


def reference(path: Path, options: LoadOptions) -> Reference:
    """A function from inputs by name to outputs by name; every run begins with the parameters of the file.

    Raises PluginError if MindSpore is not installed, OptionError if only a part of the model is asked for.
    """
    if options.inputs or options.outputs:
        raise OptionError(f"MindSpore runs '{path}' as a whole; leave inputs and outputs out")
    if find_spec("mindspore") is None:
        raise PluginError(
            f"running '{path}' in MindSpore needs it installed: install autofusion-frontend-mindspore[mindspore]"
        )
    model = read_model(path, options.key)
    names = [short_name(info.name) for info in model.graph.input]
    stateful = any(primitive.op_type.startswith("Assign") for primitive in model.primitives)
    worker = _Worker(path, options.key, stateful)

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        missing = [name for name in names if name not in inputs]
        if missing:
            raise InputError(f"'{path}' needs the inputs {', '.join(names)}; {', '.join(missing)} are missing")
        results = worker.run([np.asarray(inputs[name]) for name in names])
        return {f"out{i}": result for i, result in enumerate(results)}

    return run


class _Worker:
    """The process that runs one model."""

    def __init__(self, path: Path, key: bytes | None, stateful: bool) -> None:
        self._path = path
        self._scratch = tempfile.TemporaryDirectory(prefix="autofusion-mindspore-")
        arguments = [str(path.resolve()), str(cipher(path) or ""), "fresh" if stateful else "kept"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "autofusion_frontend_mindspore.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._scratch.name,
            env={**ENVIRONMENT, **os.environ},
        )
        self._end = weakref.finalize(self, _ended, self._process, self._scratch)
        self._send(key or b"")

    def run(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """The model's results, tuples flattened; raise ModelError with MindSpore's words if it cannot run it."""
        buffer = io.BytesIO()
        np.savez(buffer, *inputs)
        try:
            self._send(buffer.getvalue())
            failed, answer = self._receive(), self._receive()
        except (OSError, EOFError) as error:
            raise ModelError(f"'{self._path}' cannot be run: MindSpore's process has ended ({error})") from error
        if failed:
            raise ModelError(f"'{self._path}' cannot be run by MindSpore: {answer.decode('utf-8', 'replace')}")
        with np.load(io.BytesIO(answer)) as stored:
            return [stored[f"arr_{i}"] for i in range(len(stored.files))]

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(struct.pack("<Q", len(data)) + data)
        self._process.stdin.flush()

    def _receive(self) -> bytes:
        assert self._process.stdout is not None
        head = self._process.stdout.read(8)
        if len(head) < 8:
            raise EOFError(f"exit status {self._process.wait()}")
        (length,) = struct.unpack("<Q", head)
        return self._process.stdout.read(length)


def _ended(process: subprocess.Popen[bytes], scratch: tempfile.TemporaryDirectory[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.kill()
    process.wait()
    scratch.cleanup()
