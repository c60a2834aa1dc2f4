"""Control flow in other forms: the batched Scan of operator set 8, and SequenceMap as the Loop that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion.ir.types import SequenceType, TensorType
from autofusion_frontend_onnx.bodies import import_bodies
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter


def inside(call: Call, name: str) -> Call:
    """The same source node, to emit the nodes of a graph inside the current one."""
    scope = call.scope.child(f"{call.name}/{name}")
    return Call(scope, call.proto, call.domain, call.version, f"{call.name}/{name}", [], dict(call.attrs))


@converter("Scan", since=8, before=9)
def batched_scan(call: Call) -> list[Value]:
    """A Scan over the batch, around a Scan over the sequence; sequences may be shorter than the longest one."""
    lengths, operands = call.optional(0), [call.operand(i) for i in range(1, len(call.inputs))]
    count = int(call.attr("num_scan_inputs"))
    within = inside(call, "batch")
    own = [within.graph.add_input(v.name, _without_batch(v)) for v in operands]
    states, sequences = own[: len(own) - count], own[len(own) - count :]
    length = None
    if lengths is not None:
        length = within.graph.add_input("length", TensorType(lengths.dtype or I64, ()))
        length = within.emit("Reshape", within.emit("Cast", length, to=I64), within.ints([1]))
        longest = within.emit("Shape", sequences[0], start=0, end=1)
        zero = within.ints([0])
        sequences = [within.emit("Slice", s, zero, length, zero) for s in sequences]
    within.attrs = {"body": call.attr("body"), "num_scan_inputs": count}
    if call.attr("directions"):
        within.attrs["scan_input_directions"] = call.attr("directions")
    captured = import_bodies(within)
    inner = within.node("Scan", [*states, *sequences, *captured], within.attrs, outputs=len(call.proto.output))
    results = list(inner.outputs)
    if length is not None:
        missing = within.emit("Concat", within.ints([0]), within.emit("Sub", longest, length), axis=0)
        for index in range(len(states), len(results)):
            results[index] = within.emit("Pad", results[index], missing, None, within.ints([0]))
    for result in results:
        within.graph.add_output(result)
    explicit = operands if lengths is None else [*operands, lengths]
    return call.result("Scan", *with_body(call, within, explicit, num_scan_inputs=len(explicit)))


def _without_batch(value: Value) -> TensorType | None:
    if not isinstance(value.type, TensorType) or not value.type.shape:
        return None
    return value.type.with_shape(value.type.shape[1:])


def with_body(
    call: Call, within: Call, operands: Sequence[Value | None], **attrs: Any
) -> tuple[list[Value | None], dict[str, Any]]:
    captured = [outside for outside, _ in within.scope.captures]
    return [*operands, *captured], {"body": within.graph, "captures": len(captured), **attrs}


@converter("SequenceMap")
def sequence_map(call: Call) -> list[Value]:
    """A Loop over the elements, whose carried sequences grow by one result each time."""
    source = call.attr("body")
    first = call.operand(0)
    within = inside(call, "loop")
    scope, graph = within.scope, within.graph
    index = graph.add_input("index", TensorType(I64, ()))
    proceed = graph.add_input("proceed", TensorType(BOOL, ()))
    grown = [graph.add_input(f"sequence.{i}", None) for i in range(len(source.output))]
    for info, value in zip(source.input, call.inputs, strict=True):
        if value is None:
            call.fail(f"operand '{info.name}' is absent")
        outside = scope.capture(value)
        is_sequence = value is first or isinstance(value.type, SequenceType)
        scope.values[info.name] = within.emit("SequenceAt", outside, index) if is_sequence else outside
    results = _nodes_of(within, source)
    graph.add_output(within.emit("Identity", proceed))
    empty = []
    for carried, result in zip(grown, results, strict=True):
        dtype = call.dtype(result)
        carried.type = SequenceType(TensorType(dtype, None))
        graph.add_output(within.emit("SequenceInsert", carried, result))
        empty.append(call.emit("SequenceEmpty", dtype=dtype))
    trips = call.emit("SequenceLength", first)
    return call.result("Loop", *with_body(call, within, [trips, call.const(True, np.bool_, "true"), *empty]))


def _nodes_of(within: Call, source: onnx.GraphProto) -> list[Value]:
    scope = within.scope
    scope.declare([*source.value_info, *source.output])
    scope.store(source)
    scope.nodes(source.node, [info.name for info in source.input])
    return [scope.read(info.name, f"graph '{source.name}'") for info in source.output]
