"""Operators written out as the function that ONNX defines them by."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx.defs import OpSchema

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.proto import type_proto
from autofusion_frontend_onnx.schemas import schema


def written_out(call: Call) -> Sequence[Value | None] | None:
    """The results of the node's defining function, imported in its place; None if ONNX has no such function."""
    found = schema(call.op, call.version)
    function = None if found is None else _definition(call, found)
    if function is None:
        return None
    return call.scope.inline(
        function, (call.domain, call.op, ""), call.proto.attribute, call.inputs, call.name, call.outputs
    )


def _definition(call: Call, found: OpSchema) -> onnx.FunctionProto | None:
    function = onnx.FunctionProto()
    if found.has_context_dependent_function:
        types = [type_proto(None if v is None else v.type).SerializeToString() for v in call.inputs]
        function.ParseFromString(found.get_context_dependent_function(call.proto.SerializeToString(), types))
    elif found.has_function:
        function.ParseFromString(found.function_body.SerializeToString())
    if not function.node:
        return None
    if not function.opset_import:
        function.opset_import.add(domain="", version=found.since_version)
    return function
