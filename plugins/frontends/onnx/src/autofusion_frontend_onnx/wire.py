"""The message of a large model without its weights: they stay in the file, from where they are mapped.

The message is walked by the rules of the protobuf encoding, down to the fields of the main graph's initialisers. An
initialiser with much raw data is written again as one with external data that lies in the model file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from onnx import TensorProto

from autofusion.ir.mapped import map_file

IN_MODEL_FILE = "\0"
"""The location of external data that lies in the model file itself; no file can have the name."""
FILE_BYTES, TENSOR_BYTES = 1 << 23, 1 << 16
"""Smaller files are read, and smaller initialisers copied."""
_GRAPH = 7
_INITIALIZER = 5
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_Field = tuple[int, int, int, int]
"""Number, where the field begins, where its content begins (of bytes and messages), and where it ends."""


def read_without_weights(path: Path) -> bytes | None:
    """The message with large initialisers as external data in the file itself; None if it is small or damaged."""
    if path.stat().st_size < FILE_BYTES:
        return None
    try:
        data = memoryview(map_file(path, 0, path.stat().st_size))
        return b"".join(_rewritten(data, 0, len(data), _GRAPH, _graph))
    except (IndexError, ValueError):
        return None


def _fields(data: memoryview, start: int, end: int) -> Iterator[_Field]:
    position = start
    while position < end:
        begin = position
        tag, position = _varint(data, position)
        kind = tag & 7
        content = position
        if kind == _BYTES:
            length, content = _varint(data, position)
            position = content + length
        elif kind == _VARINT:
            _, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("a group")
        if position > end:
            raise ValueError("a field ends behind its message")
        yield tag >> 3 if kind == _BYTES else -(tag >> 3), begin, content, position


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = data[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    for shift in range(7, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number of more than ten bytes")


def _rewritten(
    data: memoryview, start: int, end: int, number: int, write: Callable[[memoryview, int, int], bytes | None]
) -> Iterator[bytes | memoryview]:
    """The message with its fields ``number`` as ``write`` writes their content; None leaves a field as it is."""
    kept = start
    for field, begin, content, stop in _fields(data, start, end):
        if field == number:
            made = write(data, content, stop)
            if made is not None:
                yield data[kept:begin]
                yield _encoded(number << 3 | _BYTES) + _encoded(len(made))
                yield made
                kept = stop
    yield data[kept:end]


def _graph(data: memoryview, start: int, end: int) -> bytes:
    return b"".join(_rewritten(data, start, end, _INITIALIZER, _tensor))


def _tensor(data: memoryview, start: int, end: int) -> bytes | None:
    if end - start < TENSOR_BYTES:
        return None
    fields = list(_fields(data, start, end))
    numbers = [abs(field[0]) for field in fields]
    raw = [field for field in fields if field[0] == _RAW_DATA]
    if len(raw) != 1 or _EXTERNAL_DATA in numbers or _DATA_LOCATION in numbers:
        return None
    _, begin, content, stop = raw[0]
    if stop - content < TENSOR_BYTES:
        return None
    where = TensorProto(data_location=TensorProto.EXTERNAL)
    for key, value in (("location", IN_MODEL_FILE), ("offset", str(content)), ("length", str(stop - content))):
        where.external_data.add(key=key, value=value)
    return bytes(data[start:begin]) + bytes(data[stop:end]) + where.SerializeToString()


def _encoded(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
