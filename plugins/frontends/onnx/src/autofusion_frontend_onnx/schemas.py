"""Operator schemas of the default domain, as the installed onnx ships them: what a node may say at some version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx
from onnx.defs import OpSchema

from autofusion.frontends import ModelError, UnsupportedOperatorError, by_operator, listed, nearest
from autofusion_frontend_onnx.attributes import kind_of
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.functions import FunctionKey, with_bodies
from autofusion_frontend_onnx.proto import domain_name
from autofusion_frontend_onnx.registry import TABLE

FORGOTTEN = frozenset({"consumed_inputs"})
"""Attributes of old operator versions that never had a meaning for the result."""


@cache
def schema(op: str, version: int, domain: str = "") -> OpSchema | None:
    """The operator's schema at ``version`` of the domain's operator set, or None."""
    if not onnx.defs.has(op, domain):
        return None
    try:
        return onnx.defs.get_schema(op, version, domain)
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
        raise UnsupportedOperatorError(_unknown(call))
    least, most = found.min_input, found.max_input
    if not least <= max(len(call.proto.input), len(call.inputs)) <= most:
        call.fail(
            f"it has {len(call.proto.input)} operands; expected {least}" + (f" to {most}" if most != least else "")
        )
    for index in range(least):
        if call.optional(index) is None and _single(found, index):
            call.fail(f"operand {index} ('{found.inputs[index].name}') is absent, and it is not optional")
    if len(call.outputs) > found.max_output:
        call.fail(f"it has {len(call.outputs)} results; expected at most {found.max_output}")
    for attribute in call.proto.attribute:
        said = found.attributes.get(attribute.name)
        if said is None:
            if attribute.name in call.attrs and attribute.name not in FORGOTTEN:
                call.fail(f"unknown attribute '{attribute.name}'{nearest(attribute.name, found.attributes)}")
        elif not attribute.ref_attr_name and kind_of(attribute) not in (said.type.value, 0):
            call.fail(f"attribute '{attribute.name}' has type {kind_of(attribute)}; expected {said.type.name}")
    for name, said in found.attributes.items():
        if said.required and name not in call.attrs:
            call.fail(f"attribute '{name}' is missing")
    return found


def _unknown(call: Call) -> str:
    found = by_operator(call.scope.model.unknown() or [(call.op, call.name)])
    if len(found) == 1:
        ((op, names),) = found.items()
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        return f"node '{names[0]}'{more} is of operator '{op}', {_advice(op, call.version)}"
    hints = {op: _advice(op, call.version) for op in found}
    return f"these operators of the model are unknown: {listed(found, hints)}"


def _advice(op: str, version: int) -> str:
    if op not in _names():
        return (
            f"which the ONNX operator set {version} does not have: if it is a custom operator, its nodes must name a "
            f"domain{nearest(op, _names())}"
        )
    first = min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if _is(s, op))
    return f"which first appears in operator set {first}: export the model again, or correct the version it imports"


def _is(candidate: OpSchema, op: str) -> bool:
    return candidate.name == op and not candidate.domain


def _single(found: OpSchema, index: int) -> bool:
    at = min(index, len(found.inputs) - 1)
    return found.inputs[at].option == OpSchema.FormalParameterOption.Single


def unknown_nodes(model: onnx.ModelProto, functions: Mapping[FunctionKey, onnx.FunctionProto]) -> list[tuple[str, str]]:
    """(operator, name) of every node of the default domain that its operator set does not have, functions included."""
    parts = [(model.graph.node, model.opset_import, "")]
    parts += [(f.node, f.opset_import or model.opset_import, f"{f.name}/") for f in model.functions]
    found = []
    for nodes, imports, prefix in parts:
        version = next((entry.version for entry in imports if not domain_name(entry.domain)), 0)
        for node in with_bodies(nodes):
            key = domain_name(node.domain), node.op_type, node.overload
            if key[0] or key in functions or TABLE.find(node.op_type, version) is not None:
                continue
            if schema(node.op_type, version) is None:
                found.append((node.op_type, prefix + (node.name or next(iter(node.output), ""))))
    return found
