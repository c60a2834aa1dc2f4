"""Values on the CPU: an OrtValue shares its memory with the NumPy array that it was made from."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from autofusion.ir.types import of_array
from autofusion.onnxruntime.signature import element_dtype, element_number, type_name


class OrtDevice:
    """A device; there is only the CPU here."""

    def __init__(self, name: str = "cpu", index: int = 0) -> None:
        self._name, self._index = name, index

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of that name; raise RuntimeError unless it is the CPU."""
        return OrtDevice(cpu(ort_device_name), device_id)

    def device_id(self) -> int:
        """The number of the device."""
        return self._index

    def device_type(self) -> int:
        """0: the CPU."""
        return 0

    def device_mem_type(self) -> int:
        """0: ordinary memory."""
        return 0


class OrtValue:
    """A tensor (``array`` is a NumPy array) or a sequence of them (a list)."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: np.ndarray, device_type: Any = "cpu", device_id: int = 0) -> OrtValue:
        """A tensor over the memory of ``numpy_obj``; raise RuntimeError if it is not an array of numbers."""
        cpu(device_type)
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OUS":
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        return cls(np.ascontiguousarray(numpy_obj).reshape(numpy_obj.shape))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: Any = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A tensor of new memory."""
        cpu(device_type)
        return cls(np.empty(tuple(shape), element_dtype(element_type)))

    def numpy(self) -> np.ndarray:
        """The tensor as an array, over the same memory; raise RuntimeError for a sequence."""
        if not isinstance(self._value, np.ndarray):
            raise RuntimeError("Only OrtValues that are Tensors are currently supported")
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype, copy=copy)

    def to_dlpack(self) -> Any:
        """The tensor for another framework, over the same memory."""
        return self.numpy().__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    @classmethod
    def from_dlpack(cls, data: Any) -> OrtValue:
        """A tensor over the memory of another framework's."""
        return cls(np.from_dlpack(data))

    def shape(self) -> list[int]:
        """The sizes of a tensor."""
        return list(self.numpy().shape)

    def data_type(self) -> str:
        """``tensor(float)`` and the like."""
        if isinstance(self._value, np.ndarray):
            return type_name(of_array(self._value))
        items = self._value or [np.empty(0, np.float32)]
        return f"seq({type_name(of_array(items[0]))})"

    def element_type(self) -> int:
        """The number of the element type in ONNX."""
        return element_number(self.numpy().dtype)

    def device_name(self) -> str:
        """``cpu``."""
        return "cpu"

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.numpy().ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        """Bytes of a tensor."""
        return int(self.numpy().nbytes)

    def has_value(self) -> bool:
        """False for an optional value that is absent."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """True for a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """False: there are none here."""
        return False

    def is_tensor_sequence(self) -> bool:
        """True for a sequence of tensors."""
        return isinstance(self._value, list)

    def update_inplace(self, data: np.ndarray) -> None:
        """Copy ``data`` over the tensor; raise RuntimeError if it has another size."""
        array = self.numpy()
        if data.nbytes != array.nbytes or data.dtype != array.dtype:
            raise RuntimeError("The input size of numpy arrays does not match the size of the OrtValue.")
        array[...] = data.reshape(array.shape)


def plain(value: Any) -> Any:
    """The array, list or object in an OrtValue; anything else as it is."""
    return value._value if isinstance(value, OrtValue) else value


def cpu(device: Any) -> str:
    """``cpu``; raise RuntimeError if ``device``, a name or an OrtDevice, is something else."""
    if isinstance(device, OrtDevice) or str(device).lower() == "cpu":
        return "cpu"
    raise RuntimeError(f"device '{device}' is not available: models run on the CPU here")


def over_memory(address: int, shape: Sequence[int], element_type: Any) -> np.ndarray:
    """An array over memory that the caller keeps alive."""
    dtype = element_dtype(element_type)
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not count:
        return np.empty(tuple(shape), dtype)
    memory = np.ctypeslib.as_array((ctypes.c_ubyte * count).from_address(address))
    return memory.view(dtype).reshape(tuple(shape))
