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
    start = filetype.head(path)
    if b"ms_lite" in start[:64] or start[4:8] == b"MSL2":
        return "a MindSpore Lite model (.ms): export the network with file_format='MINDIR' instead"
    if is_mindir(path):
        return "a MindIR that is truncated or damaged"
    # A checkpoint is a list of {tag, tensor}.
    if filetype.begins_with_names(start) and not filetype.is_text(start):
        return "a MindSpore checkpoint (.ckpt), which holds parameters but no network: export the network as MINDIR"
    return filetype.describe(start)
