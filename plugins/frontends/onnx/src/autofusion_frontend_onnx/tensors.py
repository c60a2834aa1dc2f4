"""TensorProto to arrays: every element type, packed 4- and 2-bit ones, sparse ones, and data kept in other files.

Sizes are checked before anything is allocated, so a damaged or hostile file costs an error and not the memory. External
data is mapped, not read: weights beyond the memory's size load at once.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path, PurePosixPath

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autofusion.frontends import GraphError, ModelError
from autofusion.ir.dtypes import dtype_name
from autofusion.ir.mapped import map_file
from autofusion_frontend_onnx.wire import IN_MODEL_FILE, TENSOR_BYTES

_BITS: dict[int, int] = {
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.FLOAT4E2M1: 4,
}
for _name in ("INT2", "UINT2"):
    if _name in TensorProto.DataType.keys():
        _BITS[TensorProto.DataType.Value(_name)] = 2
_MOST_SPARSE_BYTES = 1 << 31
_WORDS: dict[int, int] = {TensorProto.COMPLEX64: 2, TensorProto.COMPLEX128: 2}


def element_type(number: int) -> np.dtype | None:
    """The dtype of an ONNX element type; None for UNDEFINED; raise ModelError if the IR cannot hold it."""
    if number == TensorProto.UNDEFINED:
        return None
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(number))
        dtype_name(dtype)
    except (KeyError, ValueError, TypeError, GraphError):
        known = TensorProto.DataType.items()
        name = next((n for n, v in known if v == number), str(number))
        raise ModelError(f"element type {name} is not supported") from None
    return dtype


def to_array(proto: TensorProto, file: Path | None, what: str) -> np.ndarray:
    """The data of ``proto``, of the model in ``file``, read-only where it is shared with a file.

    ``what`` names the tensor in errors.
    """
    dtype = element_type(proto.data_type)
    if dtype is None:
        raise ModelError(f"{what} does not say its element type")
    dims = tuple(proto.dims)
    if any(d < 0 for d in dims):
        raise ModelError(f"{what} has shape {list(dims)}; expected no negative size")
    if proto.HasField("segment"):
        raise ModelError(
            f"{what} is stored in segments, which ONNX deprecated; save the model again with a current onnx"
        )
    count = math.prod(dims)
    if proto.data_location == TensorProto.EXTERNAL:
        return _external(proto, dtype, dims, file, what)
    if proto.data_type == TensorProto.STRING:
        _check_size(what, len(proto.string_data), count, "strings")
        strings = np.empty(count, dtype=object)
        strings[:] = [s.decode("utf-8", "surrogateescape") for s in proto.string_data]
        return strings.reshape(dims)
    if proto.HasField("raw_data"):
        raw = proto.raw_data
        _check_size(what, len(raw), _raw_bytes(proto.data_type, dtype, count), "bytes of raw data")
        return _from_bytes(np.frombuffer(raw, np.uint8), proto.data_type, dtype, dims)
    field = helper.tensor_dtype_to_field(proto.data_type)
    stored = len(getattr(proto, field))
    wanted = count * _WORDS.get(proto.data_type, 1)
    if proto.data_type in _BITS:
        wanted = -(-count * _BITS[proto.data_type] // 8)
    _check_size(what, stored, wanted, f"values in {field}")
    return np.asarray(numpy_helper.to_array(proto), dtype).reshape(dims)


def sparse_to_array(proto: onnx.SparseTensorProto, file: Path | None, what: str) -> np.ndarray:
    """The dense form of a sparse tensor (zeros where nothing is stored)."""
    values = to_array(proto.values, file, f"the values of sparse {what}").reshape(-1)
    indices = to_array(proto.indices, file, f"the indices of sparse {what}").astype(np.int64, copy=False)
    dims = tuple(proto.dims)
    if any(d < 0 for d in dims) or math.prod(dims) * max(values.itemsize, 1) > _MOST_SPARSE_BYTES:
        raise ModelError(f"sparse {what} of shape {list(dims)} is too large to be made dense")
    size = math.prod(dims)
    if indices.ndim == 2 and indices.shape == (len(values), len(dims)):
        if ((indices < 0) | (indices >= np.array(dims, np.int64))).any():
            raise ModelError(f"sparse {what} of shape {list(dims)} has an index outside of it")
        flat = np.ravel_multi_index(tuple(indices.T), dims) if len(dims) else np.zeros(len(values), np.int64)
    elif indices.shape == (len(values),):
        if ((indices < 0) | (indices >= size)).any():
            raise ModelError(f"sparse {what} of shape {list(dims)} has an index outside of it")
        flat = indices
    else:
        raise ModelError(
            f"sparse {what} has indices of shape {indices.shape}; "
            f"expected ({len(values)},) or ({len(values)}, {len(dims)})"
        )
    dense = np.zeros(size, values.dtype)
    dense[flat] = values
    return dense.reshape(dims)


def _check_size(what: str, found: int, expected: int, unit: str) -> None:
    if found != expected:
        raise ModelError(f"{what} has {found} {unit}; expected {expected} for its shape; the file is damaged")


def _raw_bytes(data_type: int, dtype: np.dtype, count: int) -> int:
    return -(-count * _BITS[data_type] // 8) if data_type in _BITS else count * dtype.itemsize


def _from_bytes(raw: np.ndarray, data_type: int, dtype: np.dtype, dims: tuple[int, ...]) -> np.ndarray:
    bits = _BITS.get(data_type)
    if bits is not None:
        count, per_byte = math.prod(dims), 8 // bits
        parts = np.empty((len(raw), per_byte), np.uint8)
        for i in range(per_byte):
            parts[:, i] = (raw >> (i * bits)) & ((1 << bits) - 1)
        if dtype.name.startswith("int"):
            # The element types of fewer than 8 bits live in whole bytes, with their sign extended.
            sign = 1 << (bits - 1)
            return ((parts.astype(np.int8) ^ sign) - sign).reshape(-1)[:count].astype(dtype).reshape(dims)
        return parts.reshape(-1)[:count].view(dtype).reshape(dims)
    if raw.ctypes.data % dtype.alignment and raw.nbytes < TENSOR_BYTES:  # of large ones, no copy is made
        raw = np.frombuffer(raw.tobytes(), np.uint8)
    array = raw.view(dtype).reshape(dims)
    return array.byteswap() if sys.byteorder == "big" and dtype.itemsize > 1 else array


def _external(proto: TensorProto, dtype: np.dtype, dims: tuple[int, ...], file: Path | None, what: str) -> np.ndarray:
    said = {entry.key: entry.value for entry in proto.external_data}
    location = said.get("location", "")
    path = file if file is not None and location == IN_MODEL_FILE else external_path(location, file, what)
    if proto.data_type == TensorProto.STRING:
        raise ModelError(f"{what} is a string tensor in external data, which ONNX does not allow")
    expected = _raw_bytes(proto.data_type, dtype, math.prod(dims))
    try:
        offset, length = int(said.get("offset", 0)), int(said.get("length", expected))
    except ValueError:
        raise ModelError(f"{what} has external data with an offset or length that is not a number: {said}") from None
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ModelError(
            f"{what} has its data in '{location}', which cannot be read: {error.strerror}; "
            "keep the file beside the model"
        ) from error
    _check_size(what, length, expected, f"bytes of external data in '{location}'")
    if offset < 0 or offset + length > size:
        raise ModelError(
            f"{what} has its data at bytes {offset} to {offset + length} of '{location}', which has {size} bytes; "
            "the file is truncated or belongs to another model"
        )
    if not length:
        return np.empty(dims, dtype)
    try:
        raw = map_file(path, offset, length)
    except (OSError, ValueError) as error:
        raise ModelError(f"{what} has its data in '{location}', which cannot be mapped: {error}") from error
    return _from_bytes(raw, proto.data_type, dtype, dims)


def external_path(location: str, file: Path | None, what: str) -> Path:
    """Where external data lies; raise ModelError if that is not a plain file inside the model's folder.

    Symbolic links are followed to what lies inside of it, or beside the file that the model itself is a link to: stores
    of models keep all files in one folder, under other names, and lay links to them.
    """
    if file is None:
        raise ModelError(f"{what} has external data, but the model does not come from a file")
    parts = PurePosixPath(location.replace("\\", "/"))
    if not location or "\0" in location:
        raise ModelError(f"{what} has external data without a file name")
    if parts.is_absolute() or ".." in parts.parts or ":" in "".join(parts.parts[:1]):
        raise ModelError(
            f"{what} has its data in '{location}', outside of the model's folder; only files inside of it are read"
        )
    path = folder = file.parent
    linked = False
    for part in parts.parts:
        path = path / part
        linked = linked or path.is_symlink()
    if linked:
        path = Path(os.path.realpath(path))
        if not any(path.is_relative_to(inside) for inside in (_real(folder), _real(file).parent)):
            raise ModelError(
                f"{what} has its data in '{location}', which is a symbolic link that leads out of the model's folder; "
                "put the file itself there"
            )
    if path.is_dir() or path == folder:
        raise ModelError(f"{what} has its data in '{location}', which is a folder; expected a file")
    return path


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
