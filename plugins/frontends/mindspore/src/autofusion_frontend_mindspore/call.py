"""What a converter works with: one primitive call, its operands and attributes, and the means to emit IR nodes for it.

Whether an argument of a primitive is an attribute or a trailing operand differs between primitives and between
versions of MindSpore, so converters ask for it by both: ``call.argument(2, "axis")``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofusion import frontends
from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Node, Value
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType
from autofusion_frontend_mindspore import dtypes
from autofusion_frontend_mindspore.abstract import Declared, ScalarType, Storage
from autofusion_frontend_mindspore.builder import Builder
from autofusion_frontend_mindspore.literals import as_python

_MISSING = object()


class Call(frontends.Call):
    """One primitive call while it is converted.

    ``args`` are the operands without monads: IR values, Python values and tuples of them; storage is read already,
    but in ``raw``. ``declared`` is what the node says about its result.
    """

    def __init__(
        self,
        builder: Builder,
        state: dict[Storage, Value],
        op: str,
        name: str,
        raw: Sequence[Any],
        attrs: Mapping[str, Any],
        declared: Declared,
    ) -> None:
        super().__init__(builder.graph, op, name, attrs=attrs)
        self.builder = builder
        self.state = state
        self.raw = list(raw)
        self.args = [read(arg, state) for arg in raw]
        self.declared = declared
        self.modifies: int | None = None
        """The operand that was modified in place."""

    # ---- reading -------------------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        """True if operand ``index`` is there and not None."""
        return index < len(self.args) and self.args[index] is not None

    def argument(self, index: int, name: str, default: Any = _MISSING) -> Any:
        """Operand ``index`` or attribute ``name`` as a Python value; raise ModelError if it is only known at run time.

        Without a default, raise ModelError if neither is there.
        """
        if 0 <= index < len(self.args):
            return self.python(self.args[index], name)
        if name in self.attrs:
            return as_python(self.attrs[name])
        if default is _MISSING:
            self.fail(f"it has neither operand {index} nor attribute '{name}'")
        return default

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute as a Python value, or ``default``."""
        return as_python(self.attrs[name]) if name in self.attrs else default

    def python(self, value: Any, name: str) -> Any:
        """A constant as numbers and tuples of numbers."""
        if isinstance(value, tuple):
            return tuple(self.python(item, name) for item in value)
        if isinstance(value, Value):
            if value.const is None:
                self.fail(f"'{name}' must be known when the model is loaded, but '{value.name}' is computed")
            return as_python(value.const)
        return as_python(value)

    def int_arguments(self, index: int, name: str, default: Any = _MISSING) -> tuple[int, ...]:
        """Like ``argument``, as a tuple of integers; a number is a tuple of one."""
        value = self.argument(index, name, default)
        if value is None:
            return ()
        return tuple(int(v) for v in value) if isinstance(value, tuple) else (int(value),)

    def tensor(self, index: int, dtype: np.dtype | None = None) -> Value:
        """Operand ``index`` as an IR value; a Python value becomes a constant, of element type ``dtype`` if given."""
        if index >= len(self.args):
            self.fail(f"operand {index} is missing")
        return self.as_tensor(self.args[index], dtype)

    def operand(self, index: int) -> Value:
        """Operand ``index`` as an IR value; raise ModelError if it is absent, or nothing that a tensor can hold."""
        return self.tensor(index)

    def as_tensor(self, value: Any, dtype: np.dtype | None = None) -> Value:
        """An abstract value as an IR value; ``dtype`` only matters for Python numbers."""
        if isinstance(value, Value):
            return value
        if isinstance(value, bool | int | float | complex) or (
            isinstance(value, tuple) and all(isinstance(v, bool | int | float) for v in value)
        ):
            return self.const(value, dtype or default_dtype(value))
        if isinstance(value, tuple) and all(isinstance(v, bool | int | float | Value) for v in value):
            parts = [self.emit("Reshape", self.as_tensor(v), self.ints([1])) for v in value]
            common = next((p.dtype for v, p in zip(value, parts, strict=True) if isinstance(v, Value)), None)
            return self.emit("Concat", *(self.cast(p, common) for p in parts), axis=0)
        self.fail(f"expected a tensor, found {describe(value)}")

    def tensors(self, index: int) -> list[Value]:
        """Operand ``index``, which must be a tuple, as IR values."""
        value = self.args[index] if index < len(self.args) else None
        if not isinstance(value, tuple):
            self.fail(f"operand {index} must be a tuple of tensors, found {describe(value)}")
        return [self.as_tensor(v) for v in value]

    def sizes(self, value: Any) -> Value:
        """A shape, which may hold numbers that are computed, as a vector of 64-bit integers."""
        if isinstance(value, int):
            value = (value,)
        if isinstance(value, tuple):
            if all(isinstance(v, int) for v in value):
                return self.ints(value)
            parts = [
                self.ints([v]) if isinstance(v, int) else self.emit("Reshape", self.cast(v, I64), self.ints([1]))
                for v in value
            ]
            return self.emit("Concat", *parts, axis=0)
        return self.cast(self.as_tensor(value), I64)

    def result_dtype(self, index: int | None = None) -> np.dtype | None:
        """The element type that the node declares for its result (or for element ``index`` of it)."""
        declared = self.declared
        if index is not None and isinstance(declared, tuple):
            declared = declared[index] if index < len(declared) else None
        return declared.dtype if isinstance(declared, TensorType | ScalarType) else None

    def type_id(self, number: Any) -> np.dtype:
        """The element type that an operand names, by number or as itself."""
        return number if isinstance(number, np.dtype) else dtypes.of_type_id(int(number), self.label)

    # ---- emitting ------------------------------------------------------------------------------------------

    def local(self, value: Value) -> Value:
        """``value`` as the graph of the builder may use it: captured, if it is from outside."""
        return self.builder.here(value)

    def infer(self, node: Node) -> None:
        """Give the results their types, and let the builder know them."""
        self.builder.own(node)
        infer_node(node)

    def const(self, data: Any, dtype: Any = None, name: str = "const") -> Value:
        """A constant."""
        return self.builder.constant(np.asarray(data, dtype), self.free_name(f"{self.name}/{name}"))

    def modify(self, index: int, value: Value) -> Value:
        """Let operand ``index`` be ``value`` from here on, under all its names; return it as the node's result."""
        self.modifies = index
        target = self.raw[index]
        if isinstance(target, Storage):
            value = self.cast(value, self.state[target].dtype)
            self.state[target] = value
        return value


def elements(call: Call, first: Any, *others: Any) -> Any:
    """``first``, and as many of the other results as the node declares; one that there is nothing for is None."""
    if not isinstance(call.declared, tuple):
        return first
    missing = len(call.declared) - 1 - len(others)
    return (first, *others[: len(call.declared) - 1], *[None] * missing)


def read(value: Any, state: Mapping[Storage, Value]) -> Any:
    """An abstract value with what its storage holds now."""
    if isinstance(value, Storage):
        return state[value]
    if isinstance(value, tuple):
        return tuple(read(item, state) for item in value)
    return value


def default_dtype(value: Any) -> np.dtype:
    """The element type that MindSpore gives a Python number."""
    items = value if isinstance(value, tuple) else (value,)
    if any(isinstance(v, complex) for v in items):
        return np.dtype(np.complex64)
    if any(isinstance(v, float) for v in items):
        return np.dtype(np.float32)
    return np.dtype(np.bool_) if items and all(isinstance(v, bool) for v in items) else np.dtype(np.int64)


def describe(value: Any) -> str:
    """An abstract value in a message."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"{value!r} ({type(value).__name__})"
