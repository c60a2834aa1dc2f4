"""LSTM with dynamically quantised products: a Scan over the steps, so that the numbers are those of the operator."""

from __future__ import annotations

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion.ir.types import TensorType
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.control import inside, with_body
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"


@converter("DynamicQuantizeLSTM", domain=_MS)
def dynamic_quantize_lstm(call: Call) -> list[Value | None]:
    """Operands as LSTM, with integer W and R [directions, inputs, 4 * hidden], then their scales and zero points."""
    if call.optional(4) is not None or call.optional(7) is not None:
        call.fail("sequence lengths and peepholes are not supported")
    if call.attr("activations") not in (None, ["Sigmoid", "Tanh", "Tanh"], ["Sigmoid", "Tanh", "Tanh"] * 2):
        call.fail(f"activations {call.attr('activations')} are not supported")
    if call.attr("clip") or call.attr("input_forget") or call.attr("layout"):
        call.fail("clip, input_forget and layout are not supported")
    direction = call.attr("direction", "forward")
    backwards = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[direction]
    runs = [_run(call, index, reverse) for index, reverse in enumerate(backwards)]
    results: list[Value | None] = []
    for index, axis in ((0, 1), (1, 0), (2, 0)):
        parts = [call.emit("Unsqueeze", run[index], call.ints([axis])) for run in runs]
        results.append(parts[0] if len(parts) == 1 else call.emit("Concat", *parts, axis=axis))
    return results


def _row(call: Call, value: Value, index: int) -> Value:
    return call.emit("Gather", value, call.ints(index), axis=0)


def _run(call: Call, index: int, reverse: int) -> tuple[Value, Value, Value]:
    """All hidden states [steps, batch, hidden], the last one, and the last cell state, of one direction."""
    x, hidden = call.operand(0), call.attr("hidden_size")
    w, r, bias = _row(call, call.operand(1), index), _row(call, call.operand(2), index), call.optional(3)
    w_scale, w_zero, r_scale, r_zero = (_row(call, call.operand(i), index) for i in (8, 9, 10, 11))
    batch = call.dim(x, 1)
    state = call.emit("Concat", batch, call.ints([hidden]), axis=0)
    zeros = call.emit("Expand", call.const(0, F32), state)
    h, c = (zeros if call.optional(i) is None else _row(call, call.operand(i), index) for i in (5, 6))
    steps = _product(call, x, w, w_scale, w_zero)  # quantised by the range of the whole sequence
    if bias is not None:
        halves = call.node("Split", [_row(call, bias, index)], {"axis": 0, "num_outputs": 2}, outputs=2).outputs
        steps = call.emit("Add", steps, call.emit("Add", *halves))
    step = inside(call, f"step{index}")
    h_type = TensorType(np.dtype(np.float32), (None, hidden))
    h0, c0 = step.graph.add_input("h", h_type), step.graph.add_input("c", h_type)
    gates_in = step.graph.add_input("gates", TensorType(np.dtype(np.float32), (None, 4 * hidden)))
    operands = [_captured(step, v) for v in (r, r_scale, r_zero)]
    gates = step.emit("Add", gates_in, _product(step, h0, *operands))
    i, o, f, g = step.node("Split", [gates], {"axis": 1, "num_outputs": 4}, outputs=4).outputs
    i, o, f = (step.emit("Sigmoid", gate) for gate in (i, o, f))
    c1 = step.emit("Add", step.emit("Mul", f, c0), step.emit("Mul", i, step.emit("Tanh", g)))
    h1 = step.emit("Mul", o, step.emit("Tanh", c1))
    for result in (h1, c1, h1):
        step.graph.add_output(result)
    attrs = {"num_scan_inputs": 1, "scan_input_directions": [reverse], "scan_output_directions": [reverse]}
    node = call.node("Scan", *with_body(call, step, [h, c, steps], **attrs), outputs=3)
    return node.outputs[2], node.outputs[0], node.outputs[1]


def _captured(step: Call, value: Value) -> Value:
    return step.graph.constant(value.const, value.name) if value.const is not None else step.scope.capture(value)


def _product(call: Call, x: Value, w: Value, scale: Value, zero: Value) -> Value:
    quantised, x_scale, x_zero = call.node("DynamicQuantizeLinear", [x], outputs=3).outputs
    product = call.emit("Cast", call.emit("MatMulInteger", quantised, w, x_zero, zero), to=F32)
    return call.emit("Mul", product, call.emit("Mul", x_scale, scale))
