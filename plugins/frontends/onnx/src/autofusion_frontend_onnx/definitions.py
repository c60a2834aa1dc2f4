"""Operators written out as the function that ONNX defines them by."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx.defs import OpSchema

from autofusion.frontends import ModelError
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.proto import type_proto
from autofusion_frontend_onnx.schemas import schema


def written_out(call: Call) -> Sequence[Value | None] | None:
    """The results of the node's defining function, imported in its place; None if ONNX has no such function."""
    found = schema(call.op, call.version, call.domain)
    function = None if found is None else _definition(call, found)
    if found is None or function is None:
        return None
    defaults = [a.default_value for a in found.attributes.values() if a.default_value.type]
    attributes = [*defaults, *call.proto.attribute]
    return call.scope.inline(function, (call.domain, call.op, ""), attributes, call.inputs, call.name, call.outputs)


def _definition(call: Call, found: OpSchema) -> onnx.FunctionProto | None:
    function = onnx.FunctionProto()
    if found.has_context_dependent_function:
        types = [type_proto(None if v is None else v.type).SerializeToString() for v in call.inputs]
        try:
            function.ParseFromString(found.get_context_dependent_function(call.proto.SerializeToString(), types))
        except RuntimeError as error:  # what onnx raises for attributes and types that its definition does not expect
            raise ModelError(f"{call.label}: ONNX cannot write its definition out: {error}") from error
    elif found.has_function:
        function.ParseFromString(found.function_body.SerializeToString())
    if not function.node:
        return None
    if all(entry.domain for entry in function.opset_import):
        version = (
            found.since_version if not call.domain else call.scope.opsets.get("") or onnx.defs.onnx_opset_version()
        )
        function.opset_import.add(domain="", version=version)
    return function
