"""Tells a MindIR from other files by its first bytes, so that a wrong file is named and not just refused.

A MindIR has no magic number: it is a protobuf message that begins with its version and then names its producer.
Encrypted ones do begin with a magic number, which names the cipher.
"""

from __future__ import annotations

from pathlib import Path

from autofusion.frontends import filetype

CIPHERS = {b"\xd8\x5e\x3a\x7f": "AES-GCM", b"\xd9\x5e\x3a\x7f": "AES-CBC", b"\xda\x5e\x3a\x7f": "SM4-CBC"}
"""First four bytes -> the cipher, as MindSpore calls it."""

PRODUCER = b"MindSpore"


def cipher(path: Path) -> str | None:
    """The cipher that the file is encrypted with, or None if it does not begin like an encrypted one."""
    return CIPHERS.get(filetype.head(path)[:4])


def is_mindir(path: Path) -> bool:
    """True if the file begins like a MindIR: field 1, a short version, then field 2, the producer; or a cipher."""
    start = filetype.head(path)
    if start[:4] in CIPHERS:
        return True
    if len(start) < 2 or start[0] != 0x0A or start[1] > 16:
        return False
    at = 2 + start[1]
    return start[at : at + 1] == b"\x12" and start[at + 2 :].startswith(PRODUCER)


def describe(path: Path) -> str:
    """What the file at ``path`` seems to be, for an error message."""
    known = relative_of(path)
    if known is not None:
        return known
    if is_mindir(path):
        return "a MindIR that is truncated or damaged"
    return _CHECKPOINT if _is_like_a_checkpoint(path) else filetype.describe(filetype.head(path))


def relative_of(path: Path) -> str | None:
    """What other kind of file MindSpore wrote, and how it becomes a MindIR; None for all others."""
    start = filetype.head(path)
    if b"ms_lite" in start[:64] or start[4:8] == b"MSL2":
        return "a MindSpore Lite model (.ms): export the network with file_format='MINDIR' instead"
    return _CHECKPOINT if path.suffix.lower() == ".ckpt" and _is_like_a_checkpoint(path) else None


_CHECKPOINT = "a MindSpore checkpoint (.ckpt), which holds parameters but no network: export the network as MINDIR"


def _is_like_a_checkpoint(path: Path) -> bool:
    """True for a list of {tag, tensor}, which other formats begin with too: the graphs of TensorFlow, for one."""
    start = filetype.head(path)
    return filetype.begins_with_names(start) and not filetype.is_text(start)
