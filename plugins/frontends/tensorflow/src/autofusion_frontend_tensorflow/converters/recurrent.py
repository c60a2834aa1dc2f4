"""Recurrent cells and layers that TensorFlow has as one operator (LSTMBlockCell, BlockLSTM, GRUBlockCell)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.bodies import BodyBuilder, outer
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter

_RESULTS = ("i", "cs", "f", "o", "ci", "co", "h")
_STATE, _HIDDEN = _RESULTS.index("cs"), _RESULTS.index("h")


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of an LSTM: the recurrent part, and for the peepholes the diagonals of input, forget and output gate."""

    recurrent: Value
    peepholes: Sequence[Value]


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the attributes say. ``order`` is that of the gates in weights and bias; a clip of 0 is none."""

    order: str
    forget_bias: float
    clip: float
    peephole: bool


def _kind(call: Call, forget_bias: float, clip: float) -> _Kind:
    return _Kind(
        "ifgo" if call.op.endswith("V2") else "igfo",
        float(call.attr("forget_bias", forget_bias)),
        max(float(call.attr("cell_clip", clip)), 0.0),
        bool(call.attr("use_peephole", False)),
    )


def _step(call: Call, kind: _Kind, projected: Value, state: Value, hidden: Value, weights: _Weights) -> list[Value]:
    """One step from the projected operand [batch, 4 hidden]: the gates, the state, and what the cell puts out.

    i, f, o = sigmoid of their gate, g = tanh; c = clip(g i + c' f); h = tanh(c) o, where the gates of i and f also see
    the state before, that of o the state after, each times a diagonal (the peepholes).
    """
    gates = call.emit("Add", projected, call.emit("MatMul", hidden, weights.recurrent))
    parts = dict(zip(kind.order, _quarters(call, gates, 1), strict=True))
    if kind.forget_bias:
        parts["f"] = call.emit("Add", parts["f"], call.like(kind.forget_bias, parts["f"]))
    if kind.peephole:
        for name, diagonal in zip("if", weights.peepholes, strict=False):
            parts[name] = call.emit("Add", parts[name], call.emit("Mul", state, diagonal))
    i, f = call.emit("Sigmoid", parts["i"]), call.emit("Sigmoid", parts["f"])
    g = call.emit("Tanh", parts["g"])
    after = call.emit("Add", call.emit("Mul", g, i), call.emit("Mul", state, f))
    if kind.clip:
        after = call.emit("Clip", after, call.like(-kind.clip, after), call.like(kind.clip, after))
    if kind.peephole:
        parts["o"] = call.emit("Add", parts["o"], call.emit("Mul", after, weights.peepholes[2]))
    o, shown = call.emit("Sigmoid", parts["o"]), call.emit("Tanh", after)
    return [i, after, f, o, g, shown, call.emit("Mul", shown, o)]


def _split_weights(call: Call, weights: Value, x: Value) -> tuple[Value, Value]:
    """The rows that the operand meets, and those that the last output meets."""
    size = call.dim(x, -1)
    end, axis = call.ints([np.iinfo(np.int64).max]), call.ints([0])
    return call.emit("Slice", weights, call.ints([0]), size, axis), call.emit("Slice", weights, size, end, axis)


@converter("LSTMBlockCell", outputs=_RESULTS)
def lstm_cell(call: Call) -> list[Value]:
    """Operands: x, state, hidden, weights, three diagonals, bias."""
    x, state, hidden, weights, *diagonals, bias = (call.operand(i) for i in range(8))
    own, recurrent = _split_weights(call, weights, x)
    projected = call.emit("Add", call.emit("MatMul", x, own), bias)
    return _step(call, _kind(call, 1.0, 3.0), projected, state, hidden, _Weights(recurrent, diagonals))


@converter("BlockLSTM", "BlockLSTMV2", outputs=_RESULTS)
def lstm_layer(call: Call) -> list[Value | None]:
    """Operands: number of steps, x [steps, batch, size], state, hidden, weights, three diagonals, bias.

    Steps beyond the number give zeros. The operator LSTM of the IR where it computes all that is wanted; it clips the
    gates and not the state, and gives the state of the last step only.
    """
    length, x, state, hidden, weights, *diagonals, bias = (call.operand(i) for i in range(9))
    kind = _kind(call, 1.0 if call.op == "BlockLSTM" else 0.0, 3.0 if call.op == "BlockLSTM" else 0.0)
    own, recurrent = _split_weights(call, weights, x)
    steps = call.emit("Min", call.vector(length), call.dim(x, 0))
    if steps.const is None or steps.const.tolist() != [x.shape[0] if x.shape else None]:
        x = call.emit("Slice", x, call.ints([0]), steps, call.ints([0]))
    wanted = [i for i in range(len(_RESULTS)) if call.scope.wanted(call.source, i)]
    if wanted == [_HIDDEN] and not kind.clip:
        found = {_HIDDEN: _lstm(call, kind, x, state, hidden, own, _Weights(recurrent, diagonals), bias)}
    else:
        projected = call.emit("Add", call.emit("MatMul", x, own), bias)
        made = _scanned(call, kind, projected, state, hidden, _Weights(recurrent, diagonals))
        found = {i: made[i] for i in wanted}
    missing = call.emit("Sub", call.dim(call.operand(1), 0), steps)
    if missing.const is None or missing.const.any():
        amounts = call.emit("Concat", call.ints([0, 0, 0]), missing, call.ints([0, 0]), axis=0)
        found = {i: call.emit("Pad", value, amounts) for i, value in found.items()}
    return [found.get(i) for i in range(len(_RESULTS))]


def _scanned(
    call: Call, kind: _Kind, projected: Value, state: Value, hidden: Value, weights: _Weights
) -> Sequence[Value]:
    """The steps as a Scan over the projected operand."""
    captured = outer([weights.recurrent, *weights.peepholes])
    builder = BodyBuilder(call, "step")
    before = [builder.input(name, value.type) for name, value in (("state", state), ("hidden", hidden))]
    row = builder.input("projected", call.emit("Gather", projected, call.ints(0), axis=0).type)
    builder.capture(captured)
    inside = _Weights(builder.inside(weights.recurrent), [builder.inside(v) for v in weights.peepholes])
    made = _step(call.within(builder.graph), kind, row, *before, inside)
    body = builder.finish([made[_STATE], made[_HIDDEN], *made])
    node = call.node(
        "Scan",
        [state, hidden, projected, *captured],
        {"body": body, "num_scan_inputs": 1, "captures": len(captured)},
        outputs=2 + len(made),
    )
    return node.outputs[2:]


def _lstm(
    call: Call, kind: _Kind, x: Value, state: Value, hidden: Value, own: Value, weights: _Weights, bias: Value
) -> Value:
    """The steps as the operator LSTM, whose gates are in the order i, o, f, g: all that the cell puts out."""

    def blocks(value: Value, axis: int) -> Value:
        parts = dict(zip(kind.order, _quarters(call, value, axis), strict=True))
        if axis == 0 and kind.forget_bias:
            parts["f"] = call.emit("Add", parts["f"], call.like(kind.forget_bias, bias))
        return call.emit("Concat", *(parts[name] for name in "iofg"), axis=axis)

    w, r = (call.unsqueeze(call.transpose(blocks(part, 1), [1, 0]), 0) for part in (own, weights.recurrent))
    b = blocks(bias, 0)
    b = call.unsqueeze(call.emit("Concat", b, call.emit("Mul", b, call.like(0, b)), axis=0), 0)
    i, f, o = weights.peepholes
    p = call.unsqueeze(call.emit("Concat", i, o, f, axis=0), 0) if kind.peephole else None
    first = [call.unsqueeze(value, 0) for value in (hidden, state)]
    width = weights.recurrent.shape[0] if weights.recurrent.shape else None
    if not isinstance(width, int):
        call.fail("the shape of its weights must be known; save the model with the shape of its inputs")
    made = call.node("LSTM", [x, w, r, b, None, *first, p], {"hidden_size": width}, outputs=1).output
    return call.squeeze(made, 1)


def _quarters(call: Call, value: Value, axis: int) -> Sequence[Value]:
    if value.const is not None:
        return [call.const(part) for part in np.split(value.const, 4, axis)]
    return call.node("Split", [value], {"axis": axis, "num_outputs": 4}, outputs=4).outputs


@converter("GRUBlockCell", outputs=("r", "u", "c", "h"))
def gru_cell(call: Call) -> list[Value]:
    """Operands: x, hidden, weights of both gates and of the candidate, their biases.

    r, u = sigmoid([x, h'] W + b); c = tanh([x, r h'] V + d); h = (1 - u) c + u h'.
    """
    x, hidden, gate_weights, weights, gate_bias, bias = (call.operand(i) for i in range(6))
    both = call.emit("MatMul", call.emit("Concat", x, hidden, axis=1), gate_weights)
    gates = call.emit("Sigmoid", call.emit("Add", both, gate_bias))
    r, u = call.node("Split", [gates], {"axis": 1, "num_outputs": 2}, outputs=2).outputs
    reset = call.emit("Concat", x, call.emit("Mul", r, hidden), axis=1)
    c = call.emit("Tanh", call.emit("Add", call.emit("MatMul", reset, weights), bias))
    fresh = call.emit("Mul", call.emit("Sub", call.like(1, u), u), c)
    return [r, u, c, call.emit("Add", fresh, call.emit("Mul", u, hidden))]
