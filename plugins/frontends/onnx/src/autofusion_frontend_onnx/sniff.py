"""Tells what kind of file a path holds by its first bytes, so that a wrong file is named and not just refused.

An ONNX file has no magic number: it is a protobuf message. Its few top-level fields are walked (payloads are seeked
over, so a large model costs the same as a small one) and must all be fields that a ModelProto has.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from autofusion.frontends import filetype

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODEL_FIELDS = {
    1: _VARINT,  # ir_version
    2: _BYTES,  # producer_name
    3: _BYTES,  # producer_version
    4: _BYTES,  # domain
    5: _VARINT,  # model_version
    6: _BYTES,  # doc_string
    7: _BYTES,  # graph
    8: _BYTES,  # opset_import
    14: _BYTES,  # metadata_props
    20: _BYTES,  # training_info
    25: _BYTES,  # functions
    26: _BYTES,  # configuration
}
_GRAPH_FIELD = 7
_MOST_FIELDS = 20_000


def is_onnx(path: Path) -> bool:
    """True if ``path`` is a file whose top level is a protobuf message with the fields of an ONNX model."""
    try:
        with path.open("rb") as file:
            return _walk(file, path.stat().st_size)
    except OSError:
        return False


def describe(path: Path) -> str:
    """What the file at ``path`` seems to be, for an error message."""
    known = relative_of(path)
    if known is not None:
        return known
    return "an ONNX model that is truncated or damaged" if is_onnx(path) else filetype.describe(filetype.head(path))


def relative_of(path: Path) -> str | None:
    """What a file is that is not a binary ONNX model but leads to one, and how; None for all others."""
    start = filetype.head(path)
    if b"ir_version" in start[:512] and filetype.is_text(start):
        return "an ONNX model in text form: convert it to the binary form with onnx.save"
    if start[4:8] == b"ORTM":
        return "a model in onnxruntime's own format (.ort): use the ONNX model that it was made from"
    if start.startswith(b"PK\x03\x04") and b"data.pkl" in start:
        return "a PyTorch checkpoint or program, which holds Python objects: export the network with torch.onnx.export"
    return None


def _walk(file: BinaryIO, size: int) -> bool:
    seen_graph = False
    for _ in range(_MOST_FIELDS):
        tag = filetype.varint(file)
        if tag is None:
            return seen_graph and file.tell() >= size
        field, wire = tag >> 3, tag & 7
        if _MODEL_FIELDS.get(field) != wire:
            return False
        value = filetype.varint(file)
        if value is None:
            return False
        if wire == _BYTES:
            seen_graph |= field == _GRAPH_FIELD
            if file.tell() + value > size:
                return seen_graph
            file.seek(value, 1)
    return seen_graph
