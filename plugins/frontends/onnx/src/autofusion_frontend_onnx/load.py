"""Model file to Graph: the entry of the frontend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import onnx

from autofusion.frontends import LoadOptions, OptionError, naming_file, nearest
from autofusion.ir.graph import Graph
from autofusion_frontend_onnx import proto
from autofusion_frontend_onnx.description import description
from autofusion_frontend_onnx.functions import functions_of
from autofusion_frontend_onnx.registry import TABLE
from autofusion_frontend_onnx.schemas import unknown_nodes
from autofusion_frontend_onnx.scope import Model, Scope
from autofusion_frontend_onnx.survey import survey


def load_model(path: Path, options: LoadOptions | None = None) -> Graph:
    """Read the model at ``path``; raise ModelError if it cannot be read, OptionError if the options do not fit it."""
    return import_model(proto.read_model(path, weights=False), path, options or LoadOptions())


def import_model(source: onnx.ModelProto, path: Path, options: LoadOptions) -> Graph:
    """The graph of a parsed model; external data lies in the folder of ``path``."""
    if options.key is not None:
        raise OptionError(f"'{path}' is an ONNX model, which cannot be encrypted; leave the key out")
    with naming_file(path):
        names, functions = survey(source), functions_of(source)
        converters = TABLE.extended(options.converters)
        model = Model(path, source.ir_version, functions, names, converters, partial(unknown_nodes, source, functions))
        graph = Graph(source.graph.name or path.stem)
        graph.description = description(source)
        scope = Scope(model, graph, proto.opsets(source.opset_import, source.ir_version, f"'{path}'"))
        scope.graph_of(source.graph, options.outputs)
        if options.inputs:
            _cut(scope, options.inputs)
        elif options.outputs:
            graph.prune()
    return graph


def _cut(scope: Scope, names: Sequence[str]) -> None:
    """Let the values that the user names be the inputs, in that order; raise OptionError if others are needed."""
    graph = scope.graph
    chosen = []
    for name in names:
        value = scope.lookup(name)
        if value is None or value.const is not None:
            raise OptionError(f"the model has no value '{name}' to be an input{nearest(name, scope.values)}")
        if value.producer is not None:
            value.name = graph.unique_value_name(f"{name}/replaced")
            cut = graph.add_input(name, value.type)
            cut.name = name
            graph.replace_uses(value, cut)
            value = cut
        chosen.append(value)
    graph.prune()
    needed = [v.name for v in graph.inputs if v not in chosen and v.use_count]
    if needed:
        raise OptionError(f"inputs {', '.join(names)} do not suffice: the outputs also need {', '.join(needed)}")
    graph.inputs[:] = chosen
