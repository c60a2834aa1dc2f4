"""Tells what kind of file a path holds by its first bytes, so that a wrong file is named and not just refused.

An ONNX file has no magic number: it is a protobuf message. Its few top-level fields are walked (payloads are seeked
over, so a large model costs the same as a small one) and must all be fields that a ModelProto has.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

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

_KINDS = (
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint, a Keras model or a packed folder)"),
    (b"\x1f\x8b", "a gzip archive: unpack it first"),
    (b"BZh", "a bzip2 archive: unpack it first"),
    (b"7z\xbc\xaf", "a 7-zip archive: unpack it first"),
    (b"\x89HDF", "an HDF5 file (a Keras model or weights)"),
    (b"\x80\x02", "a Python pickle (a PyTorch checkpoint)"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x7fELF", "a program or shared library"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF", "a PDF document"),
)
_KINDS_AT_4 = ((b"TFL3", "a TensorFlow Lite model"), (b"ORTM", "a model in onnxruntime's own format"))
_TEXTS = (
    (b"git-lfs", "a Git LFS pointer, not the file itself: fetch the content with 'git lfs pull'"),
    (b"<net", "an OpenVINO network description"),
    (b"<!DOCTYPE html", "a web page (the download went wrong)"),
    (b"<html", "a web page (the download went wrong)"),
    (b"ir_version", "an ONNX model in text form: convert it to the binary form with onnx.save"),
)


def is_onnx(path: Path) -> bool:
    """True if ``path`` is a file whose top level is a protobuf message with the fields of an ONNX model."""
    try:
        with path.open("rb") as file:
            return _walk(file, path.stat().st_size)
    except OSError:
        return False


def describe(path: Path) -> str:
    """What the file at ``path`` seems to be, for an error message."""
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        return "an empty file"
    for magic, kind in _KINDS:
        if head.startswith(magic):
            return kind
    for magic, kind in _KINDS_AT_4:
        if head[4:8] == magic:
            return kind
    for word, kind in _TEXTS:
        if word in head[:512]:
            return kind
    if _is_text(head):
        return "a JSON document" if head.lstrip()[:1] in (b"{", b"[") else "a text file"
    if _is_graph_def(head):
        return "a TensorFlow graph: install autofusion-frontend-tensorflow to load it"
    if b"MindSpore" in head:
        return "a MindSpore model: install autofusion-frontend-mindspore to load it"
    if is_onnx(path):
        return "an ONNX model that is truncated or damaged"
    return "of a kind that is not known here"


def _walk(file: BinaryIO, size: int) -> bool:
    seen_graph = False
    for _ in range(_MOST_FIELDS):
        tag = _varint(file)
        if tag is None:
            return seen_graph and file.tell() >= size
        field, wire = tag >> 3, tag & 7
        if _MODEL_FIELDS.get(field) != wire:
            return False
        value = _varint(file)
        if value is None:
            return False
        if wire == _BYTES:
            seen_graph |= field == _GRAPH_FIELD
            if file.tell() + value > size:
                return seen_graph
            file.seek(value, 1)
    return seen_graph


def _varint(file: BinaryIO) -> int | None:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None


def _is_text(head: bytes) -> bool:
    try:
        text = head[:1024].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head[:1024]) - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return all(c.isprintable() or c in "\r\n\t\f" for c in text)


def _is_graph_def(head: bytes) -> bool:
    # A GraphDef begins with nodes (field 1), each beginning with its name (field 1), then its op (field 2).
    if head[:1] != b"\n":
        return False
    at = 1
    while at < len(head) and head[at] >= 0x80:
        at += 1
    at += 1
    if head[at : at + 1] != b"\n" or at + 1 >= len(head):
        return False
    at += 2 + head[at + 1]
    return head[at : at + 1] == b"\x12"
