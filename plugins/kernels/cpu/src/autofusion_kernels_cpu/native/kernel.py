"""A kernel by its structure: what its code depends on, its buffers and parameters by name, and its steps.

A family describes a kernel without writing it::

    kernel = Kernel("scale", isa, structure_text(form), ("x", "y"), ("n", "factor"), partial(_emit, form=form))
    step = kernel.step({"x": x_view, "y": y_view}, {"n": 10, "factor": bits})

`emit(f)` writes the code into a function whose `f.buffer` and `f.param` have these names; it is only called if no
process has compiled this structure before. A step is given the same names, so that neither side counts positions.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.kernels import KernelError, TensorView
from autofusion_kernels_cpu.codegen.builder import Function, Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.native.program import NativeStep, Ref

Source = Ref | TensorView | np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """`name` and `detail` say everything that the code depends on besides the instruction set (see `structure_text`).

    A step may have more after the named parameters: `data`, int64, which the code reads behind `len(params)`; and more
    buffers, which it reads behind `len(buffers)`.
    """

    name: str
    isa: Isa
    detail: str
    buffers: tuple[str, ...]
    params: tuple[str, ...]
    emit: Callable[[Function], None]
    structure: str = field(init=False)
    """Equal for kernels of equal code, different for others."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "structure", f"{self.name}|{self.detail}")

    @property
    def address(self) -> int:
        """Where the code lies in this process, compiled or loaded on first use."""
        return jit().address(self)

    def module(self) -> Module:
        """The code, written out."""
        module = Module(self.isa)
        with module.kernel(self.name, self.buffers, self.params) as f:
            self.emit(f)
        return module

    def step(
        self,
        buffers: Mapping[str, Source],
        params: Mapping[str, int],
        data: Sequence[int] | np.ndarray = (),
        more: Sequence[Source] = (),
        *,
        label: str = "",
        workers: int = 0,
        barrier: bool = True,
    ) -> NativeStep:
        """One call of the kernel. Raises KernelError where the names are not exactly the kernel's."""
        numbers = self.numbers(params, data)
        refs = [as_ref(buffers[name]) for name in self.buffers if name in buffers]
        if len(refs) != len(self.buffers) or len(buffers) != len(self.buffers):
            raise self._mismatch("buffers", self.buffers, buffers)
        refs += map(as_ref, more)
        return NativeStep(self.address, tuple(refs), numbers, barrier, label or self.name, workers)

    def numbers(self, params: Mapping[str, int], data: Sequence[int] | np.ndarray = ()) -> np.ndarray:
        """Parameters and data as the code reads them."""
        count = len(self.params)
        if len(params) != count or any(name not in params for name in self.params):
            raise self._mismatch("parameters", self.params, params)
        result = np.empty(count + len(data), np.int64)
        result[:count] = [params[name] for name in self.params]
        if len(data):
            result[count:] = data
        return result

    def _mismatch(self, what: str, expected: Sequence[str], found: Mapping[str, object]) -> KernelError:
        missing, unknown = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
        return KernelError(f"kernel '{self.name}': {what} {missing} are missing, {unknown} are not known")


def as_ref(source: Source) -> Ref:
    """The start of a view or an array."""
    return source if isinstance(source, Ref) else Ref(source)


def structure_text(*parts: object) -> str:
    """Text that is equal for equal parts, and different for others (also for 0.0 and -0.0, 1 and True).

    Raises TypeError for an object that has no such text, as functions and graph nodes.
    """
    return ",".join(map(_text, parts))


def _text(part: object) -> str:
    kind = type(part)
    if kind in _PLAIN:
        return repr(part)
    if kind is Isa:
        return part.name  # type: ignore[attr-defined]
    if kind is tuple or kind is list:
        return f"({','.join(map(_text, part))})"  # type: ignore[call-overload]
    if isinstance(part, enum.Enum):
        return f"{kind.__name__}.{part.name}"
    if isinstance(part, np.dtype):
        return dtype_name(part)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return f"{kind.__name__}({','.join([_text(getattr(part, name)) for name in _field_names(kind)])})"
    raise TypeError(f"a kernel's structure cannot hold a {kind.__name__}: expected numbers, texts and tuples")


_PLAIN = frozenset({str, int, float, bool, type(None)})


@functools.cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
