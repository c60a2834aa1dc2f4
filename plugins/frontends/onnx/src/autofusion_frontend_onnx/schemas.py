"""Operator schemas of the default domain, as the installed onnx ships them: what a node may say at some version."""

from __future__ import annotations

from functools import cache

import onnx
from onnx.defs import OpSchema

from autofusion.frontends import ModelError, UnsupportedOperatorError, nearest
from autofusion_frontend_onnx.attributes import kind_of
from autofusion_frontend_onnx.call import Call

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
    if not least <= max(len(call.proto.input), len(call.inputs)) <= most:
        call.fail(
            f"it has {len(call.proto.input)} operands; expected {least}" + (f" to {most}" if most != least else "")
        )
    for index in range(least):
        if call.operand(index) is None and _single(found, index):
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


def _is(candidate: OpSchema, op: str) -> bool:
    return candidate.name == op and not candidate.domain


def _single(found: OpSchema, index: int) -> bool:
    at = min(index, len(found.inputs) - 1)
    return found.inputs[at].option == OpSchema.FormalParameterOption.Single
