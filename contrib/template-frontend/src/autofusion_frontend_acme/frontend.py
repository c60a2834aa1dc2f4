"""Read ``.acme`` models: JSON with inputs, layers and weights. Every layer becomes operators of the IR (ONNX's)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.frontends import (
    DAMAGE,
    LoadOptions,
    ModelError,
    PluginError,
    Reference,
    naming_file,
    naming_node,
    nearest,
)
from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import TensorType
from autofusion_frontend_acme.layers import TABLE, Call

MAGIC = b'{"acme": 1'


class AcmeFrontend:
    """See ``autofusion.frontends.Frontend``."""

    name = "acme"
    version = version("autofusion-frontend-acme")
    suffixes = (".acme",)

    def recognises(self, path: Path) -> bool:
        """True if the file begins as such models do; never raises."""
        try:
            return path.read_bytes()[: len(MAGIC)] == MAGIC
        except OSError:
            return False

    def load(self, path: Path, options: LoadOptions) -> Graph:
        """The graph; whatever is wrong with the file is a ModelError that names it."""
        with naming_file(path, (*DAMAGE, OSError)):
            return _graph(json.loads(path.read_bytes()), options)

    def reference(self, path: Path, options: LoadOptions) -> Reference:
        """The model run by its own framework; there is none for this format."""
        raise PluginError("no framework runs .acme models; compare with stored outputs")


def _graph(model: Mapping[str, Any], options: LoadOptions) -> Graph:
    graph = Graph(str(model.get("name", "acme")))
    table = TABLE.extended(options.converters)  # with what other packages add
    values: dict[str, Value] = {}
    for name, shape in model["inputs"].items():
        values[name] = graph.add_input(name, TensorType(np.dtype(np.float32), tuple(map(int, shape))))
    for name, weight in model["weights"].items():
        values[name] = graph.constant(np.asarray(weight["data"], np.float32).reshape(weight["shape"]), name)
    unknown = [(layer["type"], layer["name"]) for layer in model["layers"] if table.find(layer["type"]) is None]
    if unknown:
        raise table.unknown(unknown)  # all of them at once
    for layer in model["layers"]:
        operands = [_named(values, layer[key]) for key in ("input", "weight", "bias") if key in layer]
        call = Call(graph, layer["type"], layer["name"], operands, layer)
        with naming_node(call.label):
            values[call.name] = table.find(call.op)(call)
        call.name_results([values[call.name]], [call.name])
    for name in options.outputs or model["outputs"]:
        graph.add_output(_named(values, name), name)
    for name in options.inputs:
        if name not in model["inputs"]:
            raise ModelError(f"there is no input '{name}'{nearest(name, model['inputs'])}")
    return graph


def _named(values: Mapping[str, Value], name: str) -> Value:
    if name not in values:
        raise ModelError(f"there is no value '{name}'{nearest(str(name), values)}")
    return values[name]
