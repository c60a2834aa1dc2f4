"""Inputs and outputs that are bound before a run, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion.onnxruntime.values import OrtValue, cpu, over_memory

if TYPE_CHECKING:
    from autofusion.onnxruntime.session import InferenceSession


class IOBinding:
    """What ``InferenceSession.run_with_iobinding`` takes and gives.

    Raises RuntimeError for an unknown input; unknown outputs are told by the run.
    """

    def __init__(self, session: InferenceSession) -> None:
        known = (*session.get_inputs(), *session.get_overridable_initializers())
        self._names = frozenset(each.name for each in known)
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, OrtValue | None] = {}
        """Where each output goes; None for new memory."""
        self.results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Take an input from an array."""
        self.inputs[self._known(name)] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Take an input from memory that the caller keeps."""
        cpu(device_type)
        self.inputs[self._known(name)] = over_memory(buffer_ptr, shape, element_type)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Take an input from a value."""
        self.inputs[self._known(name)] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output: in new memory, or where ``buffer_ptr`` points."""
        cpu(device_type)
        fixed = None
        if buffer_ptr is not None and shape is not None:
            fixed = OrtValue(over_memory(buffer_ptr, shape, element_type))
        self.outputs[name] = fixed

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Ask for an output in the memory of a value."""
        self.outputs[name] = ortvalue

    def synchronize_inputs(self) -> None:
        """Nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for."""

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order in which they were bound."""
        return list(self.results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The results of the last run as arrays of their own."""
        return [value.numpy().copy() if value.is_tensor() else value._value for value in self.results]

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self.outputs.clear()
        self.results = []

    def keep(self, results: Sequence[Any]) -> None:
        """Take over the results of a run; raise RuntimeError if one does not fit the memory that it was bound to."""
        kept = []
        for (name, place), result in zip(self.outputs.items(), results, strict=True):
            if place is None:
                kept.append(OrtValue(result))
                continue
            array = place.numpy()
            if array.shape != result.shape or array.dtype != result.dtype:
                raise RuntimeError(
                    f"output '{name}' is {result.dtype}{list(result.shape)}, "
                    f"and the memory that it is bound to is {array.dtype}{list(array.shape)}"
                )
            array[...] = result
            kept.append(place)
        self.results = kept

    def _known(self, name: str) -> str:
        if name not in self._names:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        return name
