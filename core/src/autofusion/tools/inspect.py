"""What a model file holds, without compiling it: inputs, outputs, operators, weights, what the file says of itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autofusion.ir.graph import Graph, Node
from autofusion.ir.shared import constants
from autofusion.ir.types import TensorType
from autofusion.plugins.registry import default_registry
from autofusion.runtime.compile import load


def inspect(path: Path, **loading: Any) -> dict[str, Any]:
    """Plain data of the model at ``path``; ``loading`` are keywords of ``autofusion.load``."""
    frontend = default_registry().frontend_for(path)
    graph = load(path, **loading)
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    arrays = {id(v.const): v.const for v in constants(graph) if v.const is not None}.values()
    about = graph.description
    return {
        "model": path.name,
        "frontend": f"{frontend.name} {frontend.version}",
        "file_bytes": sum(file.stat().st_size for file in files),
        "weight_bytes": sum(array.nbytes for array in arrays),
        "parameters": sum(math.prod(array.shape) for array in arrays if array.dtype.kind in "fV"),
        "nodes": sum(1 for _ in _nodes(graph)),
        "operators": dict(Counter(node.op for node in _nodes(graph)).most_common()),
        "inputs": [_value(v.name, v.type, v.default is not None) for v in graph.inputs],
        "outputs": [_value(n, v.type) for n, v in zip(graph.output_names, graph.outputs, strict=True)],
        "opsets": {} if about is None else dict(about.opsets),
        "producer": "" if about is None else about.producer,
        "properties": {} if about is None else dict(about.properties),
    }


def lines(data: Mapping[str, Any]) -> list[str]:
    """The data as text."""
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in data["opsets"].items())
    found = [
        f"{data['model']}: {data['file_bytes'] / 1e6:.1f} MB, {data['nodes']} nodes, {data['parameters']:,} parameters "
        f"({data['weight_bytes'] / 1e6:.1f} MB of weights)",
        f"  read by {data['frontend']}"
        + (f", operator sets {opsets}" if opsets else "")
        + (f", made by {data['producer']}" if data["producer"] else ""),
    ]
    for what in ("inputs", "outputs"):
        found.append(f"{what}:")
        found += [
            f"  {value['name']}  {value['type']}" + ("  (has a default)" if value.get("has_default") else "")
            for value in data[what]
        ] or ["  none"]
    found.append("operators:")
    width = max((len(name) for name in data["operators"]), default=0)
    found += [f"  {name:{width}}  {count}" for name, count in data["operators"].items()]
    if data["properties"]:
        found.append("properties:")
        found += [f"  {name}: {' '.join(str(text).split())[:100]}" for name, text in data["properties"].items()]
    return found


def _value(name: str, type_: object, has_default: bool = False) -> dict[str, Any]:
    shape = list(type_.shape) if isinstance(type_, TensorType) and type_.shape is not None else None
    return {"name": name, "type": str(type_), "shape": shape, "has_default": has_default}


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in node.attrs.values():
            if isinstance(body, Graph):
                yield from _nodes(body)
