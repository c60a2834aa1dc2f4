"""The file of an artefact: a header, a manifest (JSON), and sections that begin on pages.

    8 bytes   MAGIC
    8 bytes   length of the manifest, little-endian
    32 bytes  SHA-256 of the manifest
    ...       the manifest; each section at a multiple of ``ALIGNMENT``, in its order; zeros in between

The manifest says where each section is and has a SHA-256 of each ``PIECE`` bytes of it, so that large sections are
checked on all cores. A section is checked before its first byte is used. The file is mapped privately: processes share
its pages, and what one of them writes, none of the others sees.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from autofusion.errors import ModelError
from autofusion.files import replacing

MAGIC = b"\x89AFMODEL"
FORMAT = 1
ALIGNMENT = 1 << 16
"""The largest page of the machines that code is generated for."""
PIECE = 1 << 22
_HEAD = struct.Struct("<8sQ32s")
_LARGEST_MANIFEST = 1 << 28


def is_artefact(path: Path) -> bool:
    """True if the file begins like an artefact."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def write(path: Path, manifest: Mapping[str, Any], sections: Mapping[str, Iterable[bytes | np.ndarray]]) -> str:
    """Write an artefact, all of it or nothing; return its digest, that of the manifest.

    ``sections`` are the parts of each section, in order; of an array, its bytes.
    """
    described: dict[str, Any] = {}
    kept = {name: list(parts) for name, parts in sections.items()}
    lengths = {name: sum(_length(part) for part in parts) for name, parts in kept.items()}
    for name, parts in kept.items():
        described[name] = {"length": lengths[name], "sha256": list(_digests(_cut(parts)))}
    data = json.dumps({"format": FORMAT, **manifest, "sections": described}, separators=(",", ":")).encode()
    digest = hashlib.sha256(data)
    with replacing(path) as part_path, part_path.open("wb") as file:
        file.write(_HEAD.pack(MAGIC, len(data), digest.digest()))
        file.write(data)
        for parts in kept.values():
            _pad(file)
            for part in parts:
                file.write(memoryview(part) if isinstance(part, bytes) else part.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _length(part: bytes | np.ndarray) -> int:
    return part.nbytes if isinstance(part, np.ndarray) else len(part)


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % ALIGNMENT))


def _cut(parts: Iterable[bytes | np.ndarray]) -> Iterator[bytes]:
    """The parts' bytes in pieces of ``PIECE``, the last one shorter."""
    rest = bytearray()
    for part in parts:
        rest += part if isinstance(part, bytes) else part.tobytes()
        while len(rest) >= PIECE:
            yield bytes(rest[:PIECE])
            del rest[:PIECE]
    if rest:
        yield bytes(rest)


def _digests(pieces: Iterable[bytes]) -> Iterator[str]:
    return (hashlib.sha256(piece).hexdigest() for piece in pieces)


@dataclass(frozen=True, slots=True)
class _Section:
    offset: int
    length: int
    sha256: list[str]


class Container:
    """An artefact's file, mapped. Raises ModelError, naming the section, for what is damaged, cut or something else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if size else None
        except OSError as error:
            raise ModelError(f"artefact '{path}' cannot be read: {error.strerror or error}") from error
        self._bytes = np.frombuffer(self._pages, np.uint8) if self._pages is not None else np.zeros(0, np.uint8)
        self.digest, self.manifest, self._sections = self._read_head()
        self._checked: set[str] = set()
        self._lock = threading.Lock()

    def _read_head(self) -> tuple[str, Mapping[str, Any], dict[str, _Section]]:
        if self._bytes.size < _HEAD.size or bytes(self._bytes[: len(MAGIC)]) != MAGIC:
            raise ModelError(f"'{self.path}' is not an artefact: 'autofusion compile' writes one from a model")
        _, length, digest = _HEAD.unpack(bytes(self._bytes[: _HEAD.size]))
        data = bytes(self._bytes[_HEAD.size : _HEAD.size + length]) if length <= _LARGEST_MANIFEST else b""
        if len(data) != length or hashlib.sha256(data).digest() != digest:
            raise self._damaged("manifest")
        manifest = json.loads(data)
        if manifest.get("format") != FORMAT:
            raise ModelError(
                f"artefact '{self.path}' has format {manifest.get('format')}, expected {FORMAT}: it was written by "
                "another version of autofusion; compile the model again"
            )
        sections, at = {}, _HEAD.size + length
        for name, about in manifest["sections"].items():
            at += -at % ALIGNMENT
            sections[name] = _Section(at, about["length"], about["sha256"])
            at += about["length"]
            if at > self._bytes.size:
                raise self._damaged(name)
        if at != self._bytes.size:
            raise ModelError(
                f"artefact '{self.path}' is damaged: {self._bytes.size - at} bytes follow its last section"
            )
        return hashlib.sha256(data).hexdigest(), manifest, sections

    def _damaged(self, name: str) -> ModelError:
        return ModelError(
            f"artefact '{self.path}' is damaged: section '{name}' is not what was written; copy the file again, or "
            "compile the model again"
        )

    def check(self, *names: str) -> None:
        """Raise ModelError unless these sections are as they were written."""
        with self._lock:
            new = [name for name in names if name not in self._checked]
            pieces = [
                (name, start, wanted)
                for name in new
                for start, wanted in zip(
                    range(0, self._sections[name].length, PIECE), self._sections[name].sha256, strict=True
                )
            ]
            wrong: list[str] = []

            def work(first: int, step: int) -> None:
                for name, start, wanted in pieces[first::step]:
                    section = self._sections[name]
                    low = section.offset + start
                    high = min(low + PIECE, section.offset + section.length)
                    if hashlib.sha256(self._bytes[low:high].data).hexdigest() != wanted:
                        wrong.append(name)

            count = min(len(pieces), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
            helpers = [threading.Thread(target=work, args=(i, count)) for i in range(1, count)]
            for helper in helpers:
                helper.start()
            if count:
                work(0, count)
            for helper in helpers:
                helper.join()
            if wrong:
                raise self._damaged(wrong[0])
            self._checked.update(new)

    def section(self, name: str) -> np.ndarray:
        """The bytes of a section, checked; writing to them changes this process's copy."""
        if name not in self._sections:
            raise self._damaged(name)
        self.check(name)
        section = self._sections[name]
        return self._bytes[section.offset : section.offset + section.length]

    def json(self, name: str) -> Any:
        """A section that holds JSON."""
        return json.loads(bytes(self.section(name)))
