"""Objects of many kernels linked into one image: position-independent code that runs wherever it is mapped.

Generated code is self-contained: its only relocations are differences between places of one object (code to its
constants), so linking is laying sections out and adding up. The image needs no linker to be loaded, hence no LLVM.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.kernels import KernelError

_MACHINES = {62: "x86-64"}
_ALLOCATED, _PROGBITS, _RELA, _PC32, _PLT32 = 2, 1, 4, 2, 4
_SECTION, _SYMBOL, _ADDEND = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_WORD = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class _Section:
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class _Object:
    """A relocatable ELF file of 64 bits, little-endian."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        machine = struct.unpack_from("<H", data, 18)[0] if data[:6] == b"\x7fELF\x02\x01" else -1
        if machine not in _MACHINES:
            raise KernelError(
                f"machine code cannot be linked for a file: expected ELF objects for {', '.join(_MACHINES.values())}, "
                f"found machine {machine}"
            )
        (start,) = struct.unpack_from("<Q", data, 40)
        (count,) = struct.unpack_from("<H", data, 60)
        rows = [_SECTION.unpack_from(data, start + _SECTION.size * i) for i in range(count)]
        self.sections = [_Section(r[1], r[2], r[4], r[5], r[6], r[7], r[8]) for r in rows]

    def symbols(self, table: int) -> Iterator[tuple[str, int, int]]:
        """(name, section, value) of every symbol of the table in section ``table``."""
        section = self.sections[table]
        names = self.sections[section.link].offset
        for at in range(section.offset, section.offset + section.size, _SYMBOL.size):
            name, _, _, index, value, _ = _SYMBOL.unpack_from(self.data, at)
            yield self.data[names + name : self.data.index(b"\0", names + name)].decode(), index, value


def link(objects: Sequence[bytes]) -> tuple[bytes, dict[str, int]]:
    """One image of ``objects``, and where each exported function starts in it.

    Raises KernelError for what a self-contained object does not have: another machine, a symbol from outside, data that
    is written to.
    """
    image = bytearray()
    functions: dict[str, int] = {}
    for data in objects:
        parsed = _Object(data)
        places: dict[int, int] = {}
        for index, section in enumerate(parsed.sections):
            if not section.flags & _ALLOCATED or not section.size:
                continue
            if section.type != _PROGBITS or section.flags & 1:
                raise KernelError("machine code cannot be linked for a file: it has data that is written to")
            image += bytes(-len(image) % max(section.alignment, 1))
            places[index] = len(image)
            image += data[section.offset : section.offset + section.size]
        for index, section in enumerate(parsed.sections):
            if section.type == _RELA and section.info in places:
                _relocate(image, parsed, section, places)
            elif section.type == 2:
                for name, own, value in parsed.symbols(index):
                    if name and own in places:
                        functions[name] = places[own] + value
    return bytes(image), functions


def _relocate(image: bytearray, parsed: _Object, section: _Section, places: Mapping[int, int]) -> None:
    symbols = list(parsed.symbols(section.link))
    for at in range(section.offset, section.offset + section.size, _ADDEND.size):
        offset, what, addend = _ADDEND.unpack_from(parsed.data, at)
        name, own, value = symbols[what >> 32]
        if what & 0xFFFFFFFF not in (_PC32, _PLT32) or own not in places:
            raise KernelError(
                f"machine code cannot be linked for a file: relocation {what & 0xFFFFFFFF} against '{name}' leaves it"
            )
        place = places[section.info] + offset
        _WORD.pack_into(image, place, places[own] + value + addend - place)


_mapped: list[mmap.mmap] = []
"""Code lives until the process ends, like that of the compiler."""


def map_code(image: np.ndarray) -> int:
    """The address of a copy of ``image`` (uint8) that can be executed and not be written to.

    Raises KernelError where the system does not allow it.
    """
    if sys.platform not in ("linux", "darwin") or not image.size:
        raise KernelError(f"machine code from a file cannot be mapped on {sys.platform}")
    pages = mmap.mmap(-1, image.size)
    pages.write(image.data)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(address, image.size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise KernelError(f"machine code from a file cannot be made executable (error {ctypes.get_errno()})")
    _mapped.append(pages)
    return address
