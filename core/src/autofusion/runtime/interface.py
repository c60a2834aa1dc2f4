"""What a caller sees of a compiled model, whatever runs it: names in, names out, inputs checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from autofusion.errors import InputError, nearest
from autofusion.ir.graph import Graph
from autofusion.runtime.feeds import checked, not_a_mapping


class Interface(ABC):
    """The inputs and outputs of ``graph``."""

    graph: Graph
    _fitting: list[Any] = []  # noqa: RUF012  replaced, never changed
    """Element types and shapes of inputs that were found to fit the model."""

    @abstractmethod
    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run on ``inputs`` by name; return the outputs by name."""

    @abstractmethod
    def _require_open(self) -> None:
        """Raise InputError once the session is closed."""

    @abstractmethod
    def _agree(self, shapes: Mapping[str, Any]) -> None:
        """Called with the shapes of the inputs that were given, by name."""

    def __call__(self, *inputs: Any) -> Any:
        """Run on the inputs in order; return the output, or a tuple of them."""
        if len(inputs) > len(self.graph.inputs):
            raise InputError(
                f"expected at most {len(self.graph.inputs)} inputs ({self._signature()}), found {len(inputs)}"
            )
        results = self.run({v.name: x for v, x in zip(self.graph.inputs, inputs, strict=False)})
        values = tuple(results.values())
        return values[0] if len(values) == 1 else values

    def arguments(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The inputs in the graph's order, checked and with defaults filled in."""
        if not isinstance(inputs, Mapping):
            raise not_a_mapping(inputs, self._signature())
        self._require_open()
        found = [inputs.get(v.name) for v in self.graph.inputs]
        kinds = [(x.dtype, x.shape) if isinstance(x, np.ndarray) else None for x in found]
        if kinds == self._fitting and len(inputs) == len(found) and None not in kinds:
            return found
        given = self._checked_arguments(inputs)
        if all(a is b for a, b in zip(given, found, strict=True)):
            self._fitting = kinds
        return given

    def _checked_arguments(self, inputs: Mapping[str, Any]) -> list[Any]:
        names = [v.name for v in self.graph.inputs]
        for name in inputs:
            if name not in names:
                raise InputError(f"the model has no input '{name}'; expected {self._signature()}{nearest(name, names)}")
        given = []
        for value in self.graph.inputs:
            if value.name in inputs:
                given.append(checked(value, inputs[value.name]))
            elif value.default is not None:
                given.append(value.default)
            else:
                raise InputError(f"input '{value.name}' is missing; expected {self._signature()}")
        arrays = zip(self.graph.inputs, given, strict=True)
        self._agree({v.name: x.shape for v, x in arrays if v.name in inputs and isinstance(x, np.ndarray)})
        return given

    def check(self, name: str, given: Any) -> None:
        """Raise InputError unless ``given`` alone, whatever the other inputs are, fits the input ``name``."""
        for value in self.graph.inputs:
            if value.name == name:
                checked(value, given)
                return
        raise InputError(f"the model has no input '{name}'; expected {self._signature()}")

    def _signature(self) -> str:
        return ", ".join(f"'{v.name}' {v.type}" for v in self.graph.inputs) or "no inputs"
