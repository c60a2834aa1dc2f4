"""TensorProto to array: inline data, and data in the files that MindSpore puts beside a graph above a gigabyte."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.mapped import map_file
from autofusion_frontend_mindspore import dtypes

_HEADER = 64
"""Bytes before the data in a parameter file; the first is 1 for little endian."""


def to_array(tensor: Any, folder: Path, owner: str) -> np.ndarray:
    """The data of ``tensor`` (read-only); raise ModelError, naming ``owner``, if it is not what the tensor declares."""
    dtype = dtypes.of_tensor(tensor.data_type, owner)
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise ModelError(f"{owner} has shape {list(shape)}: the size of stored data must be known")
    if tensor.compression_type:
        raise ModelError(
            f"{owner} is compressed (quantised by MindSpore), which cannot be read; export it uncompressed"
        )
    if dtype.kind == "O":
        raise ModelError(f"{owner} is a tensor of strings, which cannot be read")
    expected = math.prod(shape) * dtype.itemsize
    if tensor.HasField("external_data"):
        return _external(tensor.external_data, expected, folder, owner).view(dtype).reshape(shape)
    data = tensor.raw_data
    if len(data) != expected:
        raise ModelError(
            f"{owner} is declared {dtype}{list(shape)}, which is {expected} bytes, but holds {len(data)}; "
            "is the file truncated, or were its parameters left out?"
        )
    return np.frombuffer(data, dtype).reshape(shape)


def _external(where: Any, expected: int, folder: Path, owner: str) -> np.ndarray:
    location = PurePosixPath(where.location)
    if not where.location or location.is_absolute() or ".." in location.parts:
        raise ModelError(
            f"{owner} says its data is in '{where.location}', expected a path below the graph file's folder"
        )
    path = folder / location
    if not path.is_file():
        raise ModelError(
            f"{owner} has its data in '{where.location}', which is not in '{folder}'; keep it beside the graph"
        )
    size, offset, length = path.stat().st_size, where.offset, where.length
    if length != expected:
        raise ModelError(
            f"{owner} is declared with {expected} bytes, but says that it has {length} in '{where.location}'"
        )
    if offset < _HEADER or offset + length > size:
        raise ModelError(
            f"{owner} has its data at bytes {offset} to {offset + length} of '{where.location}', which has {size} "
            f"(the first {_HEADER} are its header); the file is truncated or belongs to another graph"
        )
    with path.open("rb") as file:
        if file.read(1) != b"\x01":
            raise ModelError(
                f"'{where.location}', where {owner} has its data, does not begin with the header of a parameter file; "
                "it is encrypted, was written on a big-endian machine, or is another kind of file"
            )
    if not expected:
        return np.empty(0, np.uint8)
    return map_file(path, offset, expected)
