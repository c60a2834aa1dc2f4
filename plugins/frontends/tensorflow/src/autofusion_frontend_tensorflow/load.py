"""Model file to Graph: the entry of the frontend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autofusion.frontends import LoadOptions, ModelError, OptionError, UnsupportedOperatorError, nearest
from autofusion.ir.graph import Graph, Value
from autofusion_frontend_tensorflow import complexes, cutting, ends, files, unknown
from autofusion_frontend_tensorflow.raising import raised
from autofusion_frontend_tensorflow.registry import output_names
from autofusion_frontend_tensorflow.scope import Model, Scope
from autofusion_frontend_tensorflow.source import Body, Library, Ref, main_body, parse_ref


def load_model(path: Path, options: LoadOptions) -> Graph:
    """Read the model at ``path``; raise ModelError if it cannot be read, OptionError if the options do not fit it."""
    if options.key is not None:
        raise OptionError(f"'{path}' is a TensorFlow model, which cannot be encrypted; leave the key out")
    try:
        return import_graph(files.read(path, options.signature), path, options)
    except ModelError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"'{path}': {error}") from error
    except RecursionError as error:
        raise ModelError(f"'{path}' is nested too deep to be read") from error


def import_graph(source: files.Source, path: Path, options: LoadOptions) -> Graph:
    """The IR graph of a parsed model."""
    written = main_body(source.graph)
    outputs = _outputs(source, written, options.outputs)
    model = Model(path, Library(source.graph, output_names), ranks={n: len(s) for n, s in options.shapes.items()})
    graph = Graph(path.stem)
    scope = Scope(model, graph, raised(written))
    chosen = cutting.preset(scope, source, options.inputs)
    try:
        values = scope.resolve([ref for _, ref in outputs])
    except UnsupportedOperatorError as error:
        raise UnsupportedOperatorError(f"{error}{unknown.rest(scope, [ref for _, ref in outputs])}") from error
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


def _outputs(source: files.Source, body: Body, wanted: Sequence[str]) -> list[tuple[str, Ref]]:
    if not wanted:
        return list(source.outputs.items()) or [(ends.name_of(ref), ref) for ref in ends.unread(body)]
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
