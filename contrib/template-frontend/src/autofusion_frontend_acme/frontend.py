"""Read ``.acme`` models: JSON with inputs, layers and weights. Every layer becomes operators of the IR (ONNX's)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.frontends import GraphError, LoadOptions, ModelError, Oracle, UnsupportedOperatorError, nearest
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType

MAGIC = b'{"acme": 1'
Layer = Mapping[str, Any]


class AcmeFrontend:
    """See ``autofusion.frontends.Frontend``."""

    name = "acme"
    version = version("autofusion-frontend-acme")
    suffixes: Sequence[str] = (".acme",)

    def recognises(self, path: Path) -> bool:
        """True if the file begins as such models do; never raises."""
        try:
            return path.read_bytes()[: len(MAGIC)] == MAGIC
        except OSError:
            return False

    def load(self, path: Path, options: LoadOptions) -> Graph:
        """The graph; whatever is wrong with the file is a ModelError that names it."""
        try:
            model = json.loads(path.read_bytes())
            graph = _Reader(model).graph(list(options.outputs) or model["outputs"])
        except ModelError as error:
            raise type(error)(f"'{path}': {error}") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, GraphError, OverflowError) as error:
            raise ModelError(f"'{path}' is no .acme model: {type(error).__name__}: {error}") from error
        for name in options.inputs:
            if name not in [v.name for v in graph.inputs]:
                raise ModelError(f"'{path}' has no input '{name}'{nearest(name, [v.name for v in graph.inputs])}")
        return graph

    def reference(self, path: Path, options: LoadOptions) -> Oracle:
        """The model run by its own framework; there is none for this format."""
        from autofusion.frontends import PluginError

        raise PluginError("no framework runs .acme models; compare with stored outputs")


class _Reader:
    def __init__(self, model: Mapping[str, Any]) -> None:
        self._model, self._graph = model, Graph(str(model.get("name", "acme")))
        self._values: dict[str, Value] = {}

    def graph(self, outputs: Sequence[str]) -> Graph:
        for name, shape in self._model["inputs"].items():
            self._values[name] = self._graph.add_input(name, TensorType(np.dtype(np.float32), tuple(map(int, shape))))
        for name, weight in self._model["weights"].items():
            data = np.asarray(weight["data"], np.float32).reshape(weight["shape"])
            self._values[name] = self._graph.constant(data, name)
        for layer in self._model["layers"]:
            kind = layer["type"]
            if kind not in LAYERS:
                hint = nearest(str(kind), LAYERS)
                raise UnsupportedOperatorError(f"layer '{layer['name']}' is of type '{kind}', which is unknown{hint}")
            self._values[layer["name"]] = LAYERS[kind](self, layer)
        for name in outputs:
            self._graph.add_output(self.value(name), name)
        infer_graph(self._graph)
        return self._graph

    def value(self, name: str) -> Value:
        if name not in self._values:
            raise ModelError(f"there is no value '{name}'{nearest(str(name), self._values)}")
        return self._values[name]

    def node(self, layer: Layer, op: str, *operands: Value, **attrs: Any) -> Value:
        """A node that stands for the layer: reports speak in the names of ``origin``."""
        return self._graph.node(op, operands, attrs, name=layer["name"], origin=[str(layer["name"])]).output


def _dense(reader: _Reader, layer: Layer) -> Value:
    product = reader.node(layer, "MatMul", reader.value(layer["input"]), reader.value(layer["weight"]))
    return reader.node(layer, "Add", product, reader.value(layer["bias"]))


def _softmax(reader: _Reader, layer: Layer) -> Value:
    return reader.node(layer, "Softmax", reader.value(layer["input"]), axis=-1)


LAYERS: Mapping[str, Callable[[_Reader, Layer], Value]] = {
    "dense": _dense,
    "relu": lambda reader, layer: reader.node(layer, "Relu", reader.value(layer["input"])),
    "softmax": _softmax,
}
