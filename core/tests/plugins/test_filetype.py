"""Kinds of files are told by their first bytes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from autofusion.frontends import filetype


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04" + bytes(100), "a zip archive"),
        (b"\x80\x02}", "a Python pickle (a PyTorch checkpoint)"),
        (b"\x80\x04\x95", "a Python pickle"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"\x1c\0\0\0TFL3" + bytes(50), "a TensorFlow Lite model"),
        (b"version 1 of git-lfs\noid sha256:0\n", "a Git LFS pointer"),
        (b"\n<!DOCTYPE html><html>", "a web page"),
        (b'  {"a": 1}', "a JSON document"),
        (b"words\n", "a text file"),
        ("Gruß".encode()[:-1], "a text file"),
        (b"\n\x051.1.0\x12\tMindSpore\x1a\x05", "a MindSpore model"),
        (b"\x08\x07\x12\x07pytorch\x1a", "an ONNX model"),
        (b"\n\x0f\n\x01x\x12\x0bPlaceholder\0", "a TensorFlow graph"),
        (b"\n" + bytes(range(200, 256)), "of a kind that is not known"),
        (bytes(range(256)), "of a kind that is not known"),
    ],
)
def test_describe(start: bytes, kind: str) -> None:
    assert filetype.describe(start).startswith(kind)


def test_head_of_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert filetype.head(tmp_path / "none") == filetype.head(tmp_path) == b""


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**32, 2**63])
def test_numbers(number: int) -> None:
    data, left = bytearray(), number
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    assert filetype.varint(io.BytesIO(data)) == number
    assert filetype.varint_at(b"\0" + data + b"\x01", 1) == (number, 1 + len(data))
    assert filetype.varint(io.BytesIO(data[:-1])) is None
