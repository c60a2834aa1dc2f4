"""Element types as a MindIR numbers them: one way in tensors and attributes, another in operands such as Cast's."""

from __future__ import annotations

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.dtypes import dtype_from_name

_TENSOR = {
    1: "f32",
    2: "u8",
    3: "i8",
    4: "u16",
    5: "i16",
    6: "i32",
    7: "i64",
    8: "str",
    9: "bool",
    10: "f16",
    11: "f64",
    12: "u32",
    13: "u64",
    14: "c64",
    15: "c128",
    16: "bf16",
    17: "f64",
}
_TYPE_ID = {
    30: "bool",
    31: "i64",
    32: "i8",
    33: "i16",
    34: "i32",
    35: "i64",
    36: "u64",
    37: "u8",
    38: "u16",
    39: "u32",
    40: "u64",
    41: "f32",
    42: "f16",
    43: "f32",
    44: "f64",
    45: "bf16",
    51: "c64",
    52: "c128",
}


def of_tensor(number: int, owner: str) -> np.dtype:
    """The element type that ``TensorProto.data_type`` numbers; ``owner`` is named if there is none."""
    if number not in _TENSOR:
        raise ModelError(f"{owner} has element type {number}, which Autofusion does not have")
    return dtype_from_name(_TENSOR[number])


def of_type_id(number: int, owner: str) -> np.dtype:
    """The element type that an operand (of Cast, Argmax...) numbers."""
    if number not in _TYPE_ID:
        raise ModelError(f"{owner} names element type {number}, which Autofusion does not have")
    return dtype_from_name(_TYPE_ID[number])
