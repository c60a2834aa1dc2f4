"""Tells a MindIR from other files by its first bytes, so that a wrong file is named and not just refused.

A MindIR has no magic number: it is a protobuf message that begins with its version and then names its producer.
Encrypted ones do begin with a magic number, which names the cipher.
"""

from __future__ import annotations

from pathlib import Path

CIPHERS = {b"\xd8\x5e\x3a\x7f": "AES-GCM", b"\xd9\x5e\x3a\x7f": "AES-CBC", b"\xda\x5e\x3a\x7f": "SM4-CBC"}
"""First four bytes -> the cipher, as MindSpore calls it."""

PRODUCER = b"MindSpore"
_HEAD = 4096
_KINDS = (
    (b"PK\x03\x04", "a zip archive"),
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
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself: fetch the content with 'git lfs pull'"),
    (b"<!DOCTYPE html", "a web page (the download went wrong)"),
    (b"<html", "a web page (the download went wrong)"),
)


def head(path: Path) -> bytes:
    """The first bytes of the file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def cipher(path: Path) -> str | None:
    """The cipher that the file is encrypted with, or None if it does not begin like an encrypted one."""
    return CIPHERS.get(head(path)[:4])


def is_mindir(path: Path) -> bool:
    """True if the file begins like a MindIR: field 1, a short version, then field 2, the producer; or a cipher."""
    start = head(path)
    if start[:4] in CIPHERS:
        return True
    if len(start) < 2 or start[0] != 0x0A or start[1] > 16:
        return False
    at = 2 + start[1]
    return start[at : at + 1] == b"\x12" and start[at + 2 :].startswith(PRODUCER)


def describe(path: Path) -> str:
    """What the file at ``path`` seems to be, for an error message."""
    start = head(path)
    if not start:
        return "an empty file"
    for magic, kind in _KINDS:
        if start.lstrip().startswith(magic):
            return kind
    if start[4:8] == b"TFL3":
        return "a TensorFlow Lite model"
    if b"ms_lite" in start[:64] or start[4:8] == b"MSL2":
        return "a MindSpore Lite model (.ms): export the network with file_format='MINDIR' instead"
    if is_mindir(path):
        return "a MindIR that is truncated or damaged"
    if start[:1] == b"\n" and _is_checkpoint(start):
        return "a MindSpore checkpoint (.ckpt), which holds parameters but no network: export the network as MINDIR"
    try:
        start[:1024].decode("utf-8")
    except UnicodeDecodeError:
        return "of a kind that is not known here"
    return "a text file" if b"\0" not in start else "of a kind that is not known here"


def _is_checkpoint(start: bytes) -> bool:
    # A checkpoint is a list of {tag, tensor}: each entry begins with its tag (field 1), then a tensor (field 2).
    at = 1
    while at < len(start) and start[at] >= 0x80:
        at += 1
    at += 1
    if start[at : at + 1] != b"\n" or at + 1 >= len(start):
        return False
    at += 2 + start[at + 1]
    return start[at : at + 1] == b"\x12"
