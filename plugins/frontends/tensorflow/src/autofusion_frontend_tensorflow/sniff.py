"""Tells what a path holds, by its first bytes or by the files of a folder, so that a wrong file is named.

A GraphDef has no magic number: it is a protobuf message. Its top-level fields are walked (payloads are seeked over) and
must be those of a GraphDef; each node must begin with its name and operator.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import BinaryIO

from autofusion.frontends import filetype

SAVED_MODEL = "saved_model.pb"
SAVED_MODEL_TEXT = "saved_model.pbtxt"


class Kind(enum.Enum):
    """What a path holds, as far as this frontend cares."""

    BINARY = "a binary GraphDef"
    TEXT = "a GraphDef in text form"
    FOLDER = "a SavedModel folder"
    SAVED_FILE = "the graph of a SavedModel, whose weights are in other files"
    UNKNOWN = "something else"


_VARINT, _BYTES = 0, 2
_NODE, _LIBRARY, _VERSION, _VERSIONS = 1, 2, 3, 4
_GRAPH_FIELDS = {_NODE: _BYTES, _LIBRARY: _BYTES, _VERSION: _VARINT, _VERSIONS: _BYTES}
_MOST_FIELDS = 64

_GRAPH_TEXT = re.compile(r"(node|library|versions)\s*:?\s*(\{|<|$)|version\s*:\s*\d")
"""How the first line of a GraphDef in text form begins."""

_KERAS_ENTRIES = (b"metadata.json", b"config.json", b"model.weights.h5")
"""Files inside a .keras archive; the first of them is named in its first bytes."""
_EXPORT = "load it in Keras, write it with 'model.export(folder)', and give that folder"


def kind_of(path: Path) -> Kind:
    """What ``path`` holds; never raises."""
    try:
        if path.is_dir():
            saved = any((path / name).is_file() for name in (SAVED_MODEL, SAVED_MODEL_TEXT))
            return Kind.FOLDER if saved else Kind.UNKNOWN
        with path.open("rb") as file:
            head = file.read(filetype.HEAD)
            if filetype.is_text(head):
                return Kind.TEXT if _looks_like_graph_text(head.decode("utf-8", "ignore")) else Kind.UNKNOWN
            file.seek(0)
            if _walk(file, path.stat().st_size):
                return Kind.BINARY
            file.seek(0)
            return Kind.SAVED_FILE if _is_saved_model(file) else Kind.UNKNOWN
    except (OSError, ValueError):
        return Kind.UNKNOWN


def describe(path: Path) -> str:
    """What the file at ``path`` seems to be, for an error message."""
    start = filetype.head(path)
    known = relative_of(path)
    if known is not None:
        return known
    if start[:1] == b"\n" and not filetype.is_text(start):
        return "a GraphDef that is truncated or damaged: copy or export it again"
    return filetype.describe(start)


def relative_of(path: Path) -> str | None:
    """What a file is that Keras or TensorFlow Lite wrote, and how it becomes a graph; None for all others."""
    start = filetype.head(path)
    if start.startswith(b"PK\x03\x04") and any(name in start for name in _KERAS_ENTRIES):
        return f"a Keras model (.keras), which holds Python objects and not a graph: {_EXPORT}"
    if start.startswith(b"\x89HDF"):
        return f"an HDF5 file (a Keras model or weights), which holds no graph: {_EXPORT}"
    if start[4:8] == b"TFL3":
        return "a TensorFlow Lite model, which is another format: use the frozen graph or SavedModel it was made from"
    return None


def _walk(file: BinaryIO, size: int) -> bool:
    """True if the message starts like a GraphDef and nothing in its first fields says otherwise."""
    seen_node = False
    for _ in range(_MOST_FIELDS):
        tag = filetype.varint(file)
        if tag is None:
            break
        field, wire = tag >> 3, tag & 7
        value = filetype.varint(file)
        if _GRAPH_FIELDS.get(field) != wire or value is None:
            return False
        if wire != _BYTES:
            continue
        start = file.tell()
        if field == _NODE:
            if not _starts_like_a_node(file.read(min(value, 2048)), value):
                return False
            seen_node = True
        if start + value > size:
            return seen_node
        file.seek(start + value)
    return seen_node


def _starts_like_a_node(head: bytes, length: int) -> bool:
    """Name (field 1), then operator (field 2), both text. The name of a node may be as long as ``head``."""
    at = 0
    for field in (b"\x0a", b"\x12"):
        if at >= len(head):
            return len(head) < length or at > 0
        if head[at : at + 1] != field:
            return False
        size, at = filetype.varint_at(head, at + 1)
        text = head[at : at + size]
        if b"\x00" in text or not text:
            return not text and at >= len(head)
        at += size
    return True


def _is_saved_model(file: BinaryIO) -> bool:
    """``saved_model_schema_version: 1`` and then a MetaGraphDef that begins with its MetaInfoDef."""
    head = file.read(32)
    if head[:3] != b"\x08\x01\x12":
        return False
    _, at = filetype.varint_at(head, 3)
    return head[at : at + 1] in (b"\x0a", b"\x12")


def _looks_like_graph_text(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return _GRAPH_TEXT.match(first) is not None
