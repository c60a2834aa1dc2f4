"""Model file to Graph: the entry of the frontend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autofusion.frontends import ConverterTable, LoadOptions, OptionError, naming_file, nearest
from autofusion.ir.graph import Graph, Value
from autofusion_frontend_tensorflow import complexes, cutting, ends, files
from autofusion_frontend_tensorflow.library import Library
from autofusion_frontend_tensorflow.registry import TABLE
from autofusion_frontend_tensorflow.scope import Model, Scope
from autofusion_frontend_tensorflow.source import Body, Ref, main_body, parse_ref
from autofusion_frontend_tensorflow.structurize import structurize


def load_model(path: Path, options: LoadOptions) -> Graph:
    """Read the model at ``path``; raise ModelError if it cannot be read, OptionError if the options do not fit it."""
    if options.key is not None:
        raise OptionError(f"'{path}' is a TensorFlow model, which cannot be encrypted; leave the key out")
    with naming_file(path):
        return import_graph(files.read(path, options.signature), path, options)


def import_graph(source: files.Source, path: Path, options: LoadOptions) -> Graph:
    """The IR graph of a parsed model."""
    written = main_body(source.graph)
    converters = TABLE.extended(options.converters)
    outputs = _outputs(source, written, options.outputs, converters)
    ranks = {name: len(shape) for name, shape in options.shapes.items()}
    model = Model(path, Library(source.graph, converters.output_names), converters, ranks=ranks)
    graph = Graph(path.stem)
    scope = Scope(model, graph, structurize(written))
    chosen = cutting.preset(scope, source, options.inputs)
    values = scope.resolve([ref for _, ref in outputs])
    if not chosen:
        fed = ends.placeholders(written, [ref[0] for _, ref in outputs])
        scope.resolve([(name, 0) for name in fed if name in scope.body.nodes])
    for (name, _), value in zip(outputs, values, strict=True):
        complexes.refuse(value, f"the output '{name}'")
        graph.add_output(value, name)
    graph.prune()
    graph.sort()
    _order_inputs(graph, scope, source, chosen)
    return graph


def _outputs(
    source: files.Source, body: Body, wanted: Sequence[str], converters: ConverterTable
) -> list[tuple[str, Ref]]:
    if not wanted:
        stated = list(source.outputs.items())
        return stated or [(ends.name_of(ref), ref) for ref in ends.unread(body, converters.output_names)]
    found = []
    for name in wanted:
        ref = source.outputs.get(name) or parse_ref(name)
        if ref[0] not in body.nodes:
            near = nearest(name, [*source.outputs, *body.nodes])
            raise OptionError(f"the model has no node '{name}' to be an output{near}")
        found.append((name, ref))
    return found


def _order_inputs(graph: Graph, scope: Scope, source: files.Source, chosen: Sequence[Value]) -> None:
    """Inputs in the order of the signature or the file; those that the user named must suffice."""
    if chosen:
        missing = [v.name for v in graph.inputs if v.use_count and v not in chosen]
        if missing:
            names = ", ".join(v.name for v in chosen)
            raise OptionError(f"inputs {names} do not suffice: the outputs also need {', '.join(missing)}")
        graph.inputs[:] = chosen
        return
    public = {ref: name for name, ref in source.inputs.items()}
    place: dict[Any, int] = {name: i for i, name in enumerate([*(r[0] for r in public), *scope.body.nodes])}
    values = sorted(graph.inputs, key=lambda v: place[v.name])
    for value in values:
        value.name = public.get((value.name, 0), value.name)
    graph.inputs[:] = values
