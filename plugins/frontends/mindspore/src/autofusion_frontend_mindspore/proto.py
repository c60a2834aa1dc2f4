"""Parsed MindIR files: MindSpore's own message definitions, used without starting MindSpore.

Importing `mindspore` takes seconds and starts its runtime; the module with the definitions needs only protobuf, so it
is loaded from its file. Encrypted files are another matter: only the runtime can decrypt them.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from autofusion.frontends import ModelError, PluginError
from autofusion_frontend_mindspore import sniff

NEWEST = 3
"""The newest ``mind_ir_version`` that is known."""

_DEFINITIONS = "mindspore.train.mind_ir_pb2"


@cache
def definitions() -> ModuleType:
    """MindSpore's module of message classes; raise PluginError if it is not installed."""
    loaded = sys.modules.get(_DEFINITIONS)
    if loaded is not None:
        return loaded
    package = importlib.util.find_spec("mindspore")
    if package is None or package.origin is None:
        raise PluginError("reading a MindIR needs MindSpore's definitions of it; install mindspore (>= 2.7)")
    path = Path(package.origin).parent / "train" / "mind_ir_pb2.py"
    spec = importlib.util.spec_from_file_location("autofusion_frontend_mindspore._mind_ir_pb2", path)
    if spec is None or spec.loader is None or not path.exists():
        raise PluginError(f"the installed mindspore has no '{path.name}'; expected MindSpore 2.7 or newer")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # protobuf raises classes of its own for definitions that are newer than itself
        raise PluginError(f"MindSpore's definitions of a MindIR cannot be loaded: {error}") from error
    return module


def read_model(path: Path, key: bytes | None = None) -> Any:
    """The ``ModelProto`` in the file, decrypted with ``key`` if it is encrypted; raise ModelError if it is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {error.strerror or error}") from error
    cipher = sniff.cipher(path)
    if cipher is not None:
        data = _decrypted(path, cipher, key)
    elif key is not None:
        raise ModelError(f"'{path}' is not encrypted, but a key was given; leave the key out")
    model = definitions().ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:
        found = "what the key gives is no MindIR: is it the right key?" if cipher else f"it is {sniff.describe(path)}"
        raise ModelError(f"'{path}' is not a MindIR that can be read: {found}") from error
    _check(path, model, cipher)
    return model


def _check(path: Path, model: Any, cipher: str | None) -> None:
    producer = str(model.producer_name)
    if not model.HasField("graph") or "MindSpore" not in producer:
        if not model.HasField("graph") and "MindSpore" in producer:
            raise ModelError(f"'{path}' is a MindIR without a graph: it is truncated, or was never a network")
        found = "what the key gives is no MindIR" if cipher else f"it is {sniff.describe(path)}"
        raise ModelError(f"'{path}' is not a MindIR that can be read: {found}")
    if model.mind_ir_version > NEWEST:
        raise ModelError(
            f"'{path}' has MindIR version {model.mind_ir_version} (MindSpore {model.model_version}), "
            f"expected at most {NEWEST}: export it with MindSpore 2.10, or update the frontend"
        )
    if model.HasField("little_endian") and not model.little_endian:
        raise ModelError(f"'{path}' was written on a big-endian machine; export it on a little-endian one")


def _decrypted(path: Path, cipher: str, key: bytes | None) -> bytes:
    if key is None:
        raise ModelError(f"'{path}' is encrypted ({cipher}) and cannot be read without its key; pass it as key=b'...'")
    if len(key) not in (16, 24, 32):
        raise ModelError(f"'{path}': a key for {cipher} has 16, 24 or 32 bytes, found {len(key)}")
    try:
        from mindspore import _c_expression
    except Exception as error:
        raise PluginError(
            f"'{path}' is encrypted, and MindSpore, which decrypts it, does not start: {error}"
        ) from error
    try:
        data = _c_expression._decrypt(str(path), key, len(key), cipher)
    except Exception as error:
        raise ModelError(f"'{path}' ({cipher}) cannot be decrypted by MindSpore: {error}") from error
    if not data:
        raise ModelError(f"'{path}' ({cipher}) cannot be decrypted with this key")
    return bytes(data)
