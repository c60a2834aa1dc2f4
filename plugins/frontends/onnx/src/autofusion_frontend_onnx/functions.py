"""The model's own functions, checked before any is written out: none calls itself, and the whole stays of a sane size.

A few functions that call each other twice each stand for as many nodes as one likes; counting them costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx

from autofusion.frontends import ModelError
from autofusion_frontend_onnx.proto import domain_name

FunctionKey = tuple[str, str, str]
"""Domain, name, overload."""

_MOST_NODES = 1_000_000
_DEEPEST = 64


def functions_of(model: onnx.ModelProto) -> dict[FunctionKey, onnx.FunctionProto]:
    """The model's functions by key; raise ModelError if one calls itself, or if they stand for too many nodes."""
    found: dict[FunctionKey, onnx.FunctionProto] = {}
    for function in model.functions:
        key = domain_name(function.domain), function.name, function.overload
        if key in found:
            raise ModelError(f"function '{function.name}' of domain '{function.domain}' is defined twice")
        found[key] = function
    if found:
        counts: dict[FunctionKey, int] = {}
        total = _count(model.graph.node, found, counts, ())
        if total > _MOST_NODES:
            raise ModelError(
                f"the model has {total} nodes once its functions are written out; at most {_MOST_NODES} are read"
            )
    return found


def _count(
    nodes: Sequence[onnx.NodeProto],
    functions: Mapping[FunctionKey, onnx.FunctionProto],
    counts: dict[FunctionKey, int],
    calls: tuple[FunctionKey, ...],
) -> int:
    if len(calls) > _DEEPEST:
        raise ModelError(f"functions call each other more than {_DEEPEST} levels deep, beginning with '{calls[0][1]}'")
    total = 0
    for node in with_bodies(nodes):
        key = domain_name(node.domain), node.op_type, node.overload
        total += 1
        if key not in functions:
            continue
        if key in calls:
            path = " -> ".join(k[1] for k in (*calls[calls.index(key) :], key))
            raise ModelError(f"function '{key[1]}' of domain '{key[0]}' calls itself: {path}")
        if key not in counts:
            counts[key] = _count(functions[key].node, functions, counts, (*calls, key))
        total += counts[key]
    return total


def with_bodies(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of their bodies at all depths."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                stack.extend(body.node)
