"""RNN, GRU and LSTM: one layout, whatever the version."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter


@converter("RNN", "GRU", "LSTM")
def recurrent(call: Call) -> list[Value]:
    """Batch-major layouts become time-major ones between Transposes."""
    attrs = call.without("layout", "output_sequence")
    if attrs.get("direction") == "foward":  # the default's spelling in the first version
        attrs["direction"] = "forward"
    if not call.attr("layout", 0):
        return call.result(attrs=attrs)
    operands = list(call.inputs)
    for index in (0, 5, 6):  # the sequence, the initial hidden state, the initial cell state
        value = call.optional(index)
        if value is not None:
            operands[index] = call.emit("Transpose", value, perm=[1, 0, 2])
    made = call.node(call.op, operands, attrs, outputs=len(call.outputs)).outputs
    results = [call.emit("Transpose", made[0], perm=[2, 0, 1, 3])]
    return results + [call.emit("Transpose", state, perm=[1, 0, 2]) for state in made[1:]]
