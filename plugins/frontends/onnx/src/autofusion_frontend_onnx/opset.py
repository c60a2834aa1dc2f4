"""The lowest operator set in which a graph means the same: the lower it is, the more tools take the exported model."""

from __future__ import annotations

from functools import cache

import onnx

from autofusion.ir.graph import Node
from autofusion.ir.operators import OPSET
from autofusion.ir.types import OptionalType, SequenceType, TensorType, Type
from autofusion_frontend_onnx.registry import TABLE
from autofusion_frontend_onnx.schemas import schema

LOWEST = 17
"""Older than this nothing that still matters is limited to."""


@cache
def _versions(op: str) -> tuple[int, ...]:
    """The versions of the operator, newest first."""
    found = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op and not s.domain}
    return tuple(sorted(found, reverse=True))


def lowest_opset(node: Node) -> int:
    """The lowest operator set that has ``node`` with the meaning of the IR's; 1 for operators of other domains."""
    if "::" in node.op:
        return 1
    versions = _versions(node.op)
    known = [v for v in versions if v <= OPSET]
    if not known:
        return versions[-1] if versions else OPSET
    best = known[0]
    for version in known[1:]:
        if not _same(node, version, best):
            break
        best = version
    return best


def _same(node: Node, version: int, newer: int) -> bool:
    old, new = schema(node.op, version), schema(node.op, newer)
    if old is None or new is None or old.deprecated:
        return False
    if TABLE.find(node.op, version) is not TABLE.find(node.op, newer):
        return False
    explicit = node.inputs[: len(node.inputs) - int(node.attr("captures", 0))]
    if not old.min_input <= len(explicit) <= old.max_input or len(node.outputs) > old.max_output:
        return False
    for name, attribute in new.attributes.items():
        was = old.attributes.get(name)
        if name in node.attrs:
            if was is None or was.type != attribute.type:
                return False
        elif was is not None and was.default_value != attribute.default_value:
            return False
    return all(
        value is None or value.type is None or _spelled(value.type) in _allowed(node.op, version, index)
        for index, value in enumerate(explicit)
    )


@cache
def _allowed(op: str, version: int, index: int) -> frozenset[str]:
    found = schema(op, version)
    assert found is not None
    formal = found.inputs[min(index, len(found.inputs) - 1)]
    return frozenset(formal.types)


def _spelled(type_: Type) -> str:
    if isinstance(type_, SequenceType):
        return f"seq({_spelled(type_.element)})"
    if isinstance(type_, OptionalType):
        return f"optional({_spelled(type_.element)})"
    assert isinstance(type_, TensorType)
    number = onnx.helper.np_dtype_to_tensor_dtype(type_.dtype)
    name = onnx.TensorProto.DataType.Name(number).lower()
    return f"tensor({name})"
