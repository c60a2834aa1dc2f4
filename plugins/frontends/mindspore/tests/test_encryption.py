"""Encrypted files: the layout of their blocks, right and wrong keys, damage. MindSpore wrote the file of the case."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import autofusion as af
from autofusion.errors import ModelError, PluginError
from autofusion_frontend_mindspore.decryption import decrypt

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(importlib.util.find_spec("cryptography") is None, reason="cryptography is not installed"),
]

CASE = Path(__file__).parents[4] / "tests" / "cases" / "210_encrypted_mindir"
KEY = b"0123456789ABCDEF"
FILE = Path("secret.mindir")
HEAD = {"AES-GCM": b"\xd8\x5e\x3a\x7f", "AES-CBC": b"\xd9\x5e\x3a\x7f", "SM4-CBC": b"\xda\x5e\x3a\x7f"}
DATA = bytes(range(256)) * 3 + b"end"


def counted(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


def block(cipher: str, data: bytes, key: bytes = KEY) -> bytes:
    """One block of an encrypted file."""
    from cryptography.hazmat.primitives import padding
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    vector, tag = bytes(range(16)), b""
    if cipher == "AES-GCM":
        encryptor = Cipher(algorithms.AES(key), modes.GCM(vector[:12])).encryptor()
        secret = encryptor.update(data) + encryptor.finalize()
        tag = encryptor.tag
    else:
        padder = padding.PKCS7(128).padder()
        encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
        secret = encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()
    return HEAD[cipher] + tag + counted(counted(vector) + counted(secret))


def test_model_that_mindspore_encrypted() -> None:
    with np.load(CASE / "inputs.npz") as inputs, np.load(CASE / "expected.npz") as expected:
        session = af.compile(CASE / "model.mindir", key=KEY)
        assert np.allclose(session.run({"x": inputs["x"]})["out0"], expected["out0"], atol=1e-5)
    with pytest.raises(ModelError, match="cannot be decrypted with this key"):
        af.load(CASE / "model.mindir", key=b"0123456789ABCDEX")


@pytest.mark.parametrize("cipher", ["AES-GCM", "AES-CBC"])
@pytest.mark.parametrize("length", [16, 24, 32])
def test_several_blocks_and_keys_of_every_length(cipher: str, length: int) -> None:
    key = b"k" * length
    file = block(cipher, DATA, key) + block(cipher, b"more", key) + block(cipher, bytes(16), key)
    assert decrypt(FILE, file, cipher, key) == DATA + b"more" + bytes(16)
    with pytest.raises(ModelError, match="cannot be decrypted with this key"):
        decrypt(FILE, file, cipher, b"q" * length)


@pytest.mark.parametrize("cipher", ["AES-GCM", "AES-CBC", "SM4-CBC"])
@pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="mindspore is not installed")
def test_what_mindspore_encrypts(cipher: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom mindspore import _c_expression\n"
        f"data = {DATA!r}\n"
        f"Path(sys.argv[1]).write_bytes(bytes(_c_expression._encrypt(data, len(data), {KEY!r}, 16, {cipher!r})))\n"
        "import os; os._exit(0)"
    )
    path = tmp_path / "secret"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True)
    assert decrypt(path, path.read_bytes(), cipher, KEY) == DATA
    with pytest.raises(ModelError, match="cannot be decrypted with this key"):
        decrypt(path, path.read_bytes(), cipher, b"fedcba9876543210")


WHOLE = block("AES-GCM", DATA)
DAMAGE: list[tuple[Callable[[bytearray], object], str]] = [
    (lambda data: data.__delitem__(slice(-1, None)), "ends inside a block"),
    (lambda data: data.__delitem__(slice(30, None)), "ends inside a block"),
    (lambda data: data.extend(b"left over"), "begins no block"),
    (lambda data: data.__setitem__(20, data[20] ^ 1), "lengths of a block contradict"),
    (lambda data: data.__setitem__(-1, data[-1] ^ 1), "cannot be decrypted with this key, or is damaged"),
    (lambda data: data.__setitem__(4, data[4] ^ 1), "cannot be decrypted with this key, or is damaged"),
]


@pytest.mark.parametrize(("change", "message"), DAMAGE)
def test_damaged_files(change: Callable[[bytearray], object], message: str) -> None:
    data = bytearray(WHOLE)
    change(data)
    with pytest.raises(ModelError, match=message):
        decrypt(FILE, bytes(data), "AES-GCM", KEY)


def test_every_truncation_is_refused() -> None:
    for cipher in ("AES-GCM", "AES-CBC"):
        whole = block(cipher, DATA)
        for cut in range(4, len(whole)):
            with pytest.raises(ModelError, match="truncated"):
                decrypt(FILE, whole[:cut], cipher, KEY)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(PluginError, match=r"needs the package 'cryptography': install .*\[encryption\]"):
        decrypt(FILE, WHOLE, "AES-GCM", KEY)
