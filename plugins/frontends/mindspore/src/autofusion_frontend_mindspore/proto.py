"""Parsed MindIR files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autofusion.frontends import ModelError
from autofusion_frontend_mindspore import sniff
from autofusion_frontend_mindspore.decryption import decrypt
from autofusion_frontend_mindspore.protos import model_proto

NEWEST = 3
"""The newest ``mind_ir_version`` that is known."""


def read_model(path: Path, key: bytes | None = None) -> Any:
    """The ``ModelProto`` in the file, decrypted with ``key`` if it is encrypted; raise ModelError if it is not one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {error.strerror or error}") from error
    cipher = sniff.cipher(path)
    if cipher is not None:
        data = decrypt(path, data, cipher, key)
    elif key is not None:
        raise ModelError(f"'{path}' is not encrypted, but a key was given; leave the key out")
    model = model_proto()
    try:
        model.ParseFromString(data)
    except Exception as error:
        found = (
            "what the key gives is not a MindIR: is it the right key?" if cipher else f"it is {sniff.describe(path)}"
        )
        raise ModelError(f"'{path}' is not a MindIR that can be read: {found}") from error
    _check(path, model, cipher)
    return model


def _check(path: Path, model: Any, cipher: str | None) -> None:
    producer = str(model.producer_name)
    if not model.HasField("graph") or "MindSpore" not in producer:
        if not model.HasField("graph") and "MindSpore" in producer:
            raise ModelError(f"'{path}' is a MindIR without a graph: it is truncated, or was never a network")
        found = "what the key gives is not a MindIR" if cipher else f"it is {sniff.describe(path)}"
        raise ModelError(f"'{path}' is not a MindIR that can be read: {found}")
    if model.mind_ir_version > NEWEST:
        raise ModelError(
            f"'{path}' has MindIR version {model.mind_ir_version} (MindSpore {model.model_version}), "
            f"expected at most {NEWEST}: export it with MindSpore 2.10, or update the frontend"
        )
    if model.HasField("little_endian") and not model.little_endian:
        raise ModelError(f"'{path}' was written on a big-endian machine; export it on a little-endian one")
