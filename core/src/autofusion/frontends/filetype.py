"""Names the kind of a file by its first bytes, for frontends: a wrong file is named then, and not just refused.

What a frontend knows better about its own format it looks at first; this is for everything else that people hand over.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

HEAD = 4096
"""Bytes that are enough to tell."""

_BEGINS = (
    (b"PK\x03\x04", "a zip archive (a Keras model, a PyTorch checkpoint or a packed folder)"),
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
_AT_4 = (
    (b"TFL3", "a TensorFlow Lite model"),
    (b"ORTM", "a model in onnxruntime's own format"),
    (b"MSL2", "a MindSpore Lite model (.ms)"),
)
_TEXTS = (
    (b"git-lfs", "a Git LFS pointer, not the file itself: fetch the content with 'git lfs pull'"),
    (b"<net", "an OpenVINO network description"),
    (b"<!DOCTYPE html", "a web page (the download went wrong)"),
    (b"<html", "a web page (the download went wrong)"),
    (b"ir_version", "an ONNX model in text form"),
)

_READERS = {
    ".onnx": ("autofusion-frontend-onnx",),
    ".pb": ("autofusion-frontend-onnx", "autofusion-frontend-tensorflow"),
    ".pbtxt": ("autofusion-frontend-tensorflow",),
    ".mindir": ("autofusion-frontend-mindspore",),
}
"""File suffix -> distributions that read it: what to install where they are not."""


def readers(path: Path) -> tuple[str, ...]:
    """The distributions of this project that read files with the suffix of ``path``, or the folder of a SavedModel."""
    if path.is_dir():
        return ("autofusion-frontend-tensorflow",) if (path / "saved_model.pb").exists() else ()
    return _READERS.get(path.suffix.lower(), ())


def head(path: Path) -> bytes:
    """The first bytes of the file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def describe(start: bytes) -> str:
    """What a file that begins with ``start`` seems to be, as the end of a sentence "it is ..."."""
    if not start:
        return "an empty file"
    for magic, kind in _BEGINS:
        if start.startswith(magic):
            return kind
    for magic, kind in _AT_4:
        if start[4:8] == magic:
            return kind
    for word, kind in _TEXTS:
        if word in start[:512]:
            return kind
    if is_text(start):
        return "a JSON document" if start.lstrip()[:1] in (b"{", b"[") else "a text file"
    if b"MindSpore" in start[:64]:
        return "a MindSpore model, which autofusion-frontend-mindspore loads"
    if b"\x12\x07pytorch" in start[:64] or (start[:1] == b"\x08" and b"onnx" in start[:64]):
        return "an ONNX model, which autofusion-frontend-onnx loads"
    if begins_with_names(start):
        return "a TensorFlow graph, which autofusion-frontend-tensorflow loads"
    return "of a kind that is not known here"


def is_text(start: bytes) -> bool:
    """True for printable UTF-8, which may end within a character."""
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3:
            return False
        text = start[: error.start].decode("utf-8")
    return bool(text) and all(c.isprintable() or c in "\r\n\t\f" for c in text)


def begins_with_names(start: bytes) -> bool:
    """True for a protobuf message whose field 1 is a message of a name (field 1) and then something with a length
    (field 2): the nodes of a GraphDef, the parameters of a MindSpore checkpoint.
    """
    if start[:1] != b"\n":
        return False
    _, at = varint_at(start, 1)
    if start[at : at + 1] != b"\n":
        return False
    size, at = varint_at(start, at + 1)
    return start[at + size : at + size + 1] == b"\x12"


def varint(file: BinaryIO) -> int | None:
    """The protobuf number at this place of a file; None where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    """The protobuf number at ``data[at]``, and where it ends."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return value, at
