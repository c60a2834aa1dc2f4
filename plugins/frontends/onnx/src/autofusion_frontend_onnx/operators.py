"""Brings one source node into the IR: checks it against its operator's schema, then converts it or passes it through."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import onnx
from autofusion.errors import AutofusionError, ModelError, UnsupportedOperatorError, nearest
from autofusion.ir import operators
from autofusion.ir.graph import Graph, Value
from onnx.defs import OpSchema

from autofusion_frontend_onnx import converters  # noqa: F401  (imported to register)
from autofusion_frontend_onnx.attributes import dtype_attribute, kind_of, text
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.proto import type_proto
from autofusion_frontend_onnx.registry import find_converter

_FORGOTTEN = frozenset({"consumed_inputs"})
"""Attributes of old operator versions that never had a meaning for the result."""


def convert(call: Call) -> Sequence[Value | None]:
    """Emit IR nodes for ``call``; return its results. Everything that goes wrong is a ModelError that names the node."""
    try:
        function = find_converter(call.domain, call.op, call.version)
        if not call.domain and (function is None or schema(call.op, call.version) is not None):
            check(call)
        results = passed_through(call) if function is None else function(call)
    except (ModelError, UnsupportedOperatorError):
        raise
    except AutofusionError as error:
        raise ModelError(f"{call.label}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A converter reads attributes and operands as their schema has them; a damaged model may hold anything.
        raise ModelError(f"{call.label}: it cannot be read: {error}") from error
    values = [results] if isinstance(results, Value) else list(results)
    _name(call, values)
    return values


def _name(call: Call, values: Sequence[Value | None]) -> None:
    """Results that a converter made under passing names get those of the source."""
    names = call.scope.value_names(call.outputs)
    for value, name in zip(values, names, strict=False):
        fresh = value is not None and value.producer in call.made and value.name not in names
        if value is not None and name and fresh:
            value.name = call.graph.unique_value_name(name)


# ---- the default domain ------------------------------------------------------------------------------------


@cache
def schema(op: str, version: int) -> OpSchema | None:
    """The operator's schema at ``version`` of the default operator set, or None."""
    if not onnx.defs.has(op, ""):
        return None
    try:
        return onnx.defs.get_schema(op, version, "")
    except onnx.defs.SchemaError:
        return None


@cache
def _names() -> frozenset[str]:
    return frozenset(s.name for s in onnx.defs.get_all_schemas() if not s.domain)


def check(call: Call) -> OpSchema:
    """The schema of a node of the default domain; raise ModelError if the node does not fit it."""
    if not call.version:
        raise ModelError(f"node '{call.name}' ({call.op}): the model imports no version of the default operator set")
    found = schema(call.op, call.version)
    if found is None:
        if call.op in _names():
            first = min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if _is(s, call.op))
            raise UnsupportedOperatorError(
                f"{call.label}: operator '{call.op}' first appears in operator set {first}; export the model again, "
                "or correct the version that it imports"
            )
        raise UnsupportedOperatorError(
            f"{call.label}: the ONNX operator set has no operator '{call.op}'{nearest(call.op, _names())}; "
            "if it is a custom operator, its nodes must name a domain"
        )
    least, most = found.min_input, found.max_input
    if not least <= len(call.inputs) <= most:
        call.fail(f"it has {len(call.inputs)} operands; expected {least}" + (f" to {most}" if most != least else ""))
    for index in range(least):
        if call.inputs[index] is None and _single(found, index):
            call.fail(f"operand {index} ('{found.inputs[index].name}') is absent, and it is not optional")
    if len(call.outputs) > found.max_output:
        call.fail(f"it has {len(call.outputs)} results; expected at most {found.max_output}")
    for attribute in call.proto.attribute:
        said = found.attributes.get(attribute.name)
        if said is None:
            if attribute.name in call.attrs and attribute.name not in _FORGOTTEN:
                call.fail(f"unknown attribute '{attribute.name}'{nearest(attribute.name, found.attributes)}")
        elif not attribute.ref_attr_name and kind_of(attribute) not in (said.type.value, 0):
            call.fail(f"attribute '{attribute.name}' has type {kind_of(attribute)}; expected {said.type.name}")
    for name, said in found.attributes.items():
        if said.required and name not in call.attrs:
            call.fail(f"attribute '{name}' is missing")
    return found


def _is(candidate: OpSchema, op: str) -> bool:
    return candidate.name == op and not candidate.domain


def _single(found: OpSchema, index: int) -> bool:
    at = min(index, len(found.inputs) - 1)
    return found.inputs[at].option == OpSchema.FormalParameterOption.Single


@cache
def _stated_defaults(op: str, version: int) -> tuple[tuple[str, Any], ...]:
    """Attribute defaults of the old version that the IR's version does not share: they have to be stated."""
    old, new = schema(op, version), schema(op, operators.OPSET)
    if old is None or new is None or old.since_version == new.since_version:
        return ()
    found = []
    for name, attribute in old.attributes.items():
        if name in new.attributes and attribute.default_value.type:
            value = onnx.helper.get_attribute_value(attribute.default_value)
            now = new.attributes[name].default_value
            if not now.type or onnx.helper.get_attribute_value(now) != value:
                found.append((name, text(value) if isinstance(value, bytes) else value))
    return tuple(found)


def passed_through(call: Call) -> Sequence[Value | None]:
    """The node as it is, but for element types, bodies, and defaults that have changed since its version."""
    op = f"{call.domain}::{call.op}" if call.domain else call.op
    if not call.domain:
        if schema(call.op, operators.OPSET) is None and operators.find(call.op) is None:
            expanded = _by_definition(call)
            if expanded is not None:
                return expanded
        for name in _FORGOTTEN:
            call.attrs.pop(name, None)
        for name, value in _stated_defaults(call.op, call.version):
            call.attrs.setdefault(name, value)
        for name in operators.DTYPE_ATTRIBUTES & call.attrs.keys():
            call.attrs[name] = dtype_attribute(call.attrs[name], f"attribute '{name}' of {call.label}")
    captures = import_bodies(call)
    return call.result(op, [*_padded(call), *captures] if captures else call.inputs)


def _padded(call: Call) -> list[Value | None]:
    # Trailing absent operands were cut off; where captures follow, operands must keep their places.
    count = len(call.proto.input)
    return call.inputs + [None] * (count - len(call.inputs))


def import_bodies(call: Call) -> list[Value]:
    """Replace the graph attributes by imported bodies; return what they capture, the same operands for each of them."""
    sources = {n: v for n, v in call.attrs.items() if isinstance(v, onnx.GraphProto)}
    for name, value in call.attrs.items():
        if isinstance(value, list) and value and isinstance(value[0], onnx.GraphProto):
            call.fail(f"attribute '{name}' is a list of graphs, which no operator of the IR has")
    if not sources:
        return []
    bodies = {name: call.body(source, name) for name, source in sources.items()}
    captured = list(dict.fromkeys(outside for _, pairs in bodies.values() for outside, _ in pairs))
    for name, (body, pairs) in bodies.items():
        call.attrs[name] = share_captures(body, pairs, captured)
    call.attrs["captures"] = len(captured)
    return captured


def share_captures(body: Graph, pairs: Sequence[tuple[Value, Value]], captured: Sequence[Value]) -> Graph:
    """Make the trailing inputs of ``body`` stand for ``captured``, in that order."""
    own = {outside: inside for outside, inside in pairs}
    explicit = [v for v in body.inputs if v not in set(own.values())]
    last = [own[v] if v in own else body.add_input(v.name, v.type) for v in captured]
    body.inputs[:] = [*explicit, *last]
    return body


def _by_definition(call: Call) -> Sequence[Value | None] | None:
    """An operator newer than the IR's operator set, written out as the function that ONNX defines it by."""
    found = schema(call.op, call.version)
    if found is None:
        return None
    function = definition(call, found)
    if function is None:
        return None
    key = ("", call.op, "")
    return call.scope.inline(function, key, call.proto.attribute, call.inputs, call.name, call.outputs)


def definition(call: Call, found: OpSchema) -> onnx.FunctionProto | None:
    """The function body of an operator's schema for this node, or None if it has none."""
    function = onnx.FunctionProto()
    version = min(found.since_version, onnx.defs.onnx_opset_version())
    if found.has_context_dependent_function:
        types = [onnx.TypeProto() if v is None else type_proto(v.type) for v in call.inputs]
        data = found.get_context_dependent_function(call.proto.SerializeToString(), [t.SerializeToString() for t in types])
        function.ParseFromString(data)
    elif found.has_function:
        function.CopyFrom(onnx.FunctionProto.FromString(found.function_body.SerializeToString()))
    if not function.node:
        return None
    if not function.opset_import:
        function.opset_import.add(domain="", version=version)
    return function
