"""The ``onnx.backend.base`` interface, so that tools and suites that drive ONNX backends drive Autofusion.

    import autofusion.backend as backend
    outputs = backend.run_model(model, [x])

Needs the ``onnx`` package and an installed ONNX frontend; nothing else in core imports this module.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from autofusion.errors import InputError
from autofusion.runtime.compile import compile
from autofusion.runtime.session import Session


class AutofusionRep(BackendRep):
    """A prepared model: a session behind the interface's calling convention."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run on a sequence of inputs in the model's order, a mapping by name, or a single array."""
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        else:
            given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            names = [value.name for value in self.session.graph.inputs]
            if len(given) > len(names):
                raise InputError(f"expected at most {len(names)} inputs ({', '.join(names)}), found {len(given)}")
            feeds = dict(zip(names, given, strict=False))
        results = self.session.run({name: _as_input(value) for name, value in feeds.items()})
        return tuple(namedtupledict("Outputs", list(results))(*results.values()))


class AutofusionBackend(Backend):
    """Prepares and runs ONNX models on the CPU; ``level`` and further options are those of ``autofusion.compile``."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> AutofusionRep:
        """Compile a model."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(model, str(path))
            return AutofusionRep(compile(path, **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays; its results' types are inferred."""
        names = [name for name in node.input if name]
        arrays = [np.asarray(array) for array in inputs]
        given = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", given, results)
        return cls.run_model(onnx.helper.make_model(graph), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for the CPU."""
        return device.split(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """True for every model: what cannot run raises an error that says why."""
        return cls.supports_device(device)


def _as_input(value: Any) -> Any:
    return np.asarray(value) if np.isscalar(value) else value


prepare = AutofusionBackend.prepare
run_model = AutofusionBackend.run_model
run_node = AutofusionBackend.run_node
supports_device = AutofusionBackend.supports_device
is_compatible = AutofusionBackend.is_compatible
