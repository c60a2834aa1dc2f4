"""Damages models at random: their bytes, or the fields of their messages (which gets past the parser more often)."""

from __future__ import annotations

import random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_NUMBERS = (0, 1, -1, 2, 3, 7, 100, 2**31 - 1, -(2**31), 2**62, -(2**63))
_WORDS = ("", "x", "y", "Loop", "If", "com.microsoft", "NOTSET", "SAME_UPPER", "linear", "weights.bin", "../w")
_FLOATS = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)


def damaged_bytes(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """``data`` with a few bytes changed, removed, repeated, cut off, or taken from another file."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        if not made:
            break
        at = chance.randrange(len(made))
        match chance.randrange(7):
            case 0:
                made[at] = chance.randrange(256)
            case 1:
                made[at] ^= 1 << chance.randrange(8)
            case 2:
                made[at:at] = chance.randbytes(chance.randrange(1, 8))
            case 3:
                del made[at : at + chance.randrange(1, 16)]
            case 4:
                del made[at:]
            case 5:
                start = chance.randrange(len(made))
                made[at:at] = made[start : start + chance.randrange(1, 40)]
            case _:
                other = chance.choice(others)
                start = chance.randrange(len(other))
                made[at:at] = other[start : start + chance.randrange(1, 100)]
    return bytes(made)


def damaged_fields(data: bytes, chance: random.Random) -> bytes:
    """``data`` as a model with a few fields changed, removed, repeated or put in another order."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        message: Any = model
        while True:
            inner = _messages(message)
            if not inner or chance.random() < 0.15:
                break
            message = chance.choice(inner)
        _change(message, chance)
    return model.SerializeToString()


def _is_list(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def _messages(message: Message) -> list[Message]:
    found: list[Message] = []
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            found.extend(value if _is_list(field) else [value])
    return found


def _change(message: Message, chance: random.Random) -> None:
    filled = [field for field, _ in message.ListFields()]
    fields = filled if filled and chance.random() < 0.8 else list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = chance.choice(fields)
    name, values = field.name, getattr(message, field.name)
    if _is_list(field):
        if not len(values):
            if field.type != FieldDescriptor.TYPE_MESSAGE:
                values.append(_value(field, chance))
            return
        at = chance.randrange(len(values))
        match chance.randrange(4):
            case 0:
                del values[at]
            case 1 if field.type == FieldDescriptor.TYPE_MESSAGE:
                values.add().CopyFrom(values[at])
            case 2:
                items = list(values)
                chance.shuffle(items)
                copies = [type(i).FromString(i.SerializeToString()) if isinstance(i, Message) else i for i in items]
                del values[:]
                values.extend(copies)
            case _ if field.type != FieldDescriptor.TYPE_MESSAGE:
                values[at] = _value(field, chance)
    elif field.type == FieldDescriptor.TYPE_MESSAGE or chance.random() < 0.2:
        message.ClearField(name)
    else:
        setattr(message, name, _value(field, chance))


def _value(field: FieldDescriptor, chance: random.Random) -> Any:
    if field.type in _FLOATS:
        return chance.choice((0.0, -1.0, 1.5, 1e30, float("nan"), float("inf")))
    if field.type == FieldDescriptor.TYPE_STRING:
        return chance.choice(_WORDS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.choice((b"", b"\xff", b"NOTSET", b"bilinear", chance.randbytes(chance.randrange(40))))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return chance.choice([v.number for v in field.enum_type.values])
    number = chance.choice(_NUMBERS)
    if field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32):
        return max(min(number, 2**31 - 1), -(2**31))
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_UINT32):
        return abs(number) % 2**32
    return number
