"""TensorFlow's Bucketize in the IR's operators: for each element, how many of the boundaries it has reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autofusion.ir.graph import Value
    from autofusion_frontend_tensorflow.call import Call


def bucketize(call: Call) -> Value:
    """Operand: numbers; attribute: the boundaries, in order. The result is int32."""
    import numpy as np

    x = call.cast(call.operand(0), np.float32)
    boundaries = call.const(call.attr("boundaries", []), np.float32, "boundaries")
    reached = call.emit("GreaterOrEqual", call.emit("Unsqueeze", x, call.ints([-1])), boundaries)
    return call.emit("ReduceSum", call.cast(reached, np.int32), call.ints([-1]), keepdims=0)
