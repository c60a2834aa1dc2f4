"""Decrypts MindIR files that MindSpore encrypted: AES-GCM, AES-CBC and SM4-CBC.

An encrypted file is one block after the other. A block is the cipher's magic number; for AES-GCM a tag of 16 bytes;
the length of the rest; the length of the initialisation vector, and the vector; the length of the data, and the data.
Lengths have 4 bytes, little-endian. With CBC the data is padded to whole blocks of the cipher, each byte of the padding
being its length (PKCS #7, RFC 5652); with GCM (NIST SP 800-38D) it is not, and the tag tells whether the key is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autofusion.frontends import ModelError, PluginError
from autofusion_frontend_mindspore.sniff import CIPHERS

_TAG = 16
_PADDED = 16
_NONCE = 12
"""Bytes of the vector that GCM uses: the file has 16, of which MindSpore takes the usual length."""


def decrypt(path: Path, data: bytes, cipher: str, key: bytes | None) -> bytes:
    """What the encrypted file at ``path`` holds, of which ``data`` are the bytes.

    Raises ModelError if the key is missing or wrong or the file is damaged, PluginError if the package that decrypts is
    not installed.
    """
    if key is None:
        raise ModelError(f"'{path}' is encrypted ({cipher}) and cannot be read without its key; pass it as key=b'...'")
    lengths = (16,) if cipher == "SM4-CBC" else (16, 24, 32)
    if len(key) not in lengths:
        stated = " or ".join(filter(None, [", ".join(map(str, lengths[:-1])), str(lengths[-1])]))
        raise ModelError(f"'{path}': a key for {cipher} has {stated} bytes, found {len(key)}")
    try:
        import cryptography  # noqa: F401  (an extra: most files are not encrypted)
    except ImportError as error:
        raise PluginError(
            f"'{path}' is encrypted ({cipher}), and decrypting it needs the package 'cryptography': install "
            "autofusion-frontend-mindspore[encryption]"
        ) from error
    parts = []
    for tag, vector, block in _blocks(path, data, cipher):
        try:
            parts.append(_plain(cipher, key, tag, vector, block))
        except _WrongKey as error:
            raise ModelError(f"'{path}' ({cipher}) cannot be decrypted with this key, or is damaged") from error
    return b"".join(parts)


class _WrongKey(Exception):
    pass


def _blocks(path: Path, data: bytes, cipher: str) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(tag, initialisation vector, data) of each block."""
    at = 0

    def take(count: int) -> bytes:
        nonlocal at
        if at + count > len(data):
            raise ModelError(f"'{path}' is encrypted ({cipher}) and truncated: it ends inside a block")
        at += count
        return data[at - count : at]

    def take_counted() -> bytes:
        return take(int.from_bytes(take(4), "little"))

    while at < len(data):
        magic = take(4)
        if CIPHERS.get(magic) != cipher:
            raise ModelError(f"'{path}' is encrypted ({cipher}) and damaged: byte {at - 4} begins no block")
        tag = take(_TAG) if cipher == "AES-GCM" else b""
        end = int.from_bytes(take(4), "little") + at
        vector, block = take_counted(), take_counted()
        if at != end:
            raise ModelError(f"'{path}' is encrypted ({cipher}) and damaged: the lengths of a block contradict")
        yield tag, vector, block


def _mode(kind: Any, *arguments: bytes) -> Any:
    try:
        return kind(*arguments)
    except ValueError as error:  # a vector of a length that no cipher has
        raise _WrongKey from error


def _plain(cipher: str, key: bytes, tag: bytes, vector: bytes, block: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if cipher == "AES-GCM":
        decryptor = Cipher(algorithms.AES(key), _mode(modes.GCM, vector[:_NONCE], tag)).decryptor()
        try:
            return decryptor.update(block) + decryptor.finalize()
        except InvalidTag as error:
            raise _WrongKey from error
    if cipher == "SM4-CBC":
        from cryptography.hazmat.decrepit.ciphers import algorithms as older

        algorithm = getattr(algorithms, "SM4", None) or older.SM4
    else:
        algorithm = algorithms.AES
    decryptor = Cipher(algorithm(key), _mode(modes.CBC, vector)).decryptor()
    try:
        padded = decryptor.update(block) + decryptor.finalize()
    except ValueError as error:  # not a whole number of the cipher's blocks
        raise _WrongKey from error
    count = padded[-1] if padded else 0
    if not 1 <= count <= _PADDED or padded[-count:] != bytes([count]) * count:
        raise _WrongKey
    return padded[:-count]
