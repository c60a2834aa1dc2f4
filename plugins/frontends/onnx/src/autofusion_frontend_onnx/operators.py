"""Brings one source node into the IR: checks it against its operator's schema, then converts it or passes it on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import onnx

from autofusion.frontends import DAMAGE, Converter, naming_node
from autofusion.ir import operators
from autofusion.ir.graph import NOT_CONVERTED, Value
from autofusion_frontend_onnx.attributes import text
from autofusion_frontend_onnx.bodies import import_bodies
from autofusion_frontend_onnx.call import Call, NotConvertible
from autofusion_frontend_onnx.definitions import written_out
from autofusion_frontend_onnx.registry import find_converter, operator_name
from autofusion_frontend_onnx.schemas import FORGOTTEN, check, schema
from autofusion_frontend_onnx.tensors import element_type

DOMAIN_VERSION = "domain_version"
"""Attribute of opaque nodes: the version of their domain that the model imports, where that is not the first."""


def convert(call: Call) -> Sequence[Value | None]:
    """Emit IR nodes for ``call``; return its results. Whatever goes wrong is a ModelError that names the node."""
    # Converters of other domains may come from anywhere, and raise anything.
    with naming_node(call.label, (Exception,) if call.domain else DAMAGE):
        function = find_converter(call.scope.model.converters, call.domain, call.op, call.version)
        if not call.domain:
            if function is None or schema(call.op, call.version) is not None:
                check(call)
            _element_types(call)
        results = _converted(call, function)
    values = [results] if isinstance(results, Value) else list(results)
    call.name_results(values, call.scope.value_names(call.outputs))
    return values


def _converted(call: Call, function: Converter | None) -> Value | Sequence[Value | None]:
    if function is None:
        return passed_through(call)
    inputs, attrs, outputs = list(call.inputs), dict(call.attrs), list(call.outputs)
    try:
        return function(call)
    except NotConvertible as error:
        call.undo()
        call.inputs, call.attrs, call.outputs = inputs, attrs | {NOT_CONVERTED: error.reason}, outputs
        return passed_through(call)


def _element_types(call: Call) -> None:
    """Attributes that number an element type name it from here on; 0 is "unstated"."""
    for name in operators.DTYPE_ATTRIBUTES & call.attrs.keys():
        if isinstance(call.attrs[name], int):
            dtype = element_type(call.attrs.pop(name))
            if dtype is not None:
                call.attrs[name] = dtype


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
    if call.domain or schema(call.op, operators.OPSET) is None:
        results = written_out(call)
        if results is not None:
            return results
    if not call.domain:
        for name in FORGOTTEN:
            call.attrs.pop(name, None)
        for name, value in _stated_defaults(call.op, call.version):
            call.attrs.setdefault(name, value)
    elif call.version > 1:
        call.attrs[DOMAIN_VERSION] = call.version
    captures = import_bodies(call)
    return call.result(operator_name(call.domain, call.op), [*_padded(call), *captures] if captures else call.inputs)


def _padded(call: Call) -> list[Value | None]:
    # Trailing absent operands were cut off; where captures follow, operands must keep their places.
    count = len(call.proto.input)
    return call.inputs + [None] * (count - len(call.inputs))
