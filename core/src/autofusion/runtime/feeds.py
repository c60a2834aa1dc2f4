"""Whether what a caller passes fits the inputs of a model, and as which arrays it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autofusion.errors import InputError
from autofusion.faults import require_own
from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import Value
from autofusion.ir.types import Dim, TensorType


def not_a_mapping(inputs: object, expected: str) -> InputError:
    """The error for a list of arrays, None and so on; ``expected`` are the inputs of the model."""
    return InputError(
        f"expected a mapping from input names to arrays ({expected}), found {_described(inputs)}; "
        "inputs in order are given by calling the session: session(x, ...)"
    )


def missing_shapes(values: Sequence[Value]) -> InputError:
    """The error for inputs whose shapes nobody states: all of them, with an example of the right rank."""
    shapes = {value.name: _example(value.shape) for value in values}
    stated = ", ".join(f"'{name}': {shape}" for name, shape in shapes.items())
    line = " ".join(f"--shape {name}:{','.join(map(str, shape))}" for name, shape in shapes.items())
    what = ", ".join(f"'{value.name}' {value.type}" for value in values)
    return InputError(
        f"input{'s' if len(values) > 1 else ''} {what} {'have' if len(values) > 1 else 'has'} open dims: state the "
        f"shape{'s' if len(values) > 1 else ''}, as in shapes={{{stated}}} (on the command line: {line})"
    )


def _example(dims: Sequence[Dim] | None) -> tuple[int, ...]:
    """A shape that fits ``dims``: one image or text of usual size."""
    if dims is None:
        return (1, 3, 224, 224)
    large = 224 if len(dims) >= 4 else 128
    return tuple(
        d if isinstance(d, int) else 1 if axis == 0 and len(dims) > 1 else large for axis, d in enumerate(dims)
    )


def _described(given: object) -> str:
    if given is None:
        return "None"
    if isinstance(given, list | tuple):
        return f"a {type(given).__name__} of {len(given)}"
    return f"an object of type {type(given).__name__}"


def checked(value: Value, given: Any) -> Any:
    if not isinstance(value.type, TensorType):
        return given
    given = _array(value, value.type.dtype, given)
    if given.dtype != value.type.dtype and not (value.type.dtype.kind == "O" and given.dtype.kind in "USO"):
        raise InputError(
            f"input '{value.name}' has the wrong dtype: expected {dtype_name(value.type.dtype)} ({value.type.dtype}), "
            f"found {given.dtype}; convert it with .astype(...)"
        )
    check_shape(value, given.shape)
    return given.astype(object) if given.dtype.kind in "US" else given


def _array(value: Value, dtype: np.dtype, given: Any) -> np.ndarray:
    """``given`` as an array: numbers and lists in ``dtype`` if that loses nothing but digits, arrays as they are,
    tensors of other libraries (DLPack) without a copy.
    """
    if isinstance(given, np.ndarray):
        return given if given.dtype.isnative else given.astype(given.dtype.newbyteorder("="))
    try:
        of_library = hasattr(given, "__dlpack__") and not hasattr(given, "__array__")
        array = np.from_dlpack(given) if of_library else np.asarray(given)
        if not of_library and array.dtype != dtype and np.can_cast(array.dtype, dtype, "same_kind"):
            array = array.astype(dtype)
    except Exception as error:  # whatever the caller's object raises
        require_own(error)
        array, reason = None, f": {error}"
    else:
        reason = ""
    if array is None or (array.dtype.kind == "O" and dtype.kind != "O"):
        raise InputError(
            f"input '{value.name}' is not a tensor: expected an array of {dtype_name(dtype)}, "
            f"found {type(given).__name__}{reason}"
        )
    return array


def check_shape(value: Value, shape: tuple[int, ...]) -> None:
    declared = value.shape
    if declared is None:
        return
    if len(shape) != len(declared):
        raise InputError(
            f"input '{value.name}' has the wrong rank: "
            f"expected {len(declared)} dims {value.type}, found shape {list(shape)}"
        )
    for axis, (want, found) in enumerate(zip(declared, shape, strict=True)):
        if isinstance(want, int) and want != found:
            raise InputError(
                f"input '{value.name}' has the wrong shape: "
                f"expected {value.type}, found {list(shape)} (axis {axis} is {found}, not {want})"
            )
