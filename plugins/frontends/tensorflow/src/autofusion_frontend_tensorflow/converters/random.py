"""Random numbers, which dropout of TensorFlow 1 leaves in a graph: multiplied away there, and random elsewhere."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def _drawn(call: Call, op: str) -> Value:
    dtype = call.dtype_attr("dtype", np.float32)
    shape = call.as_ints(call.operand(0))
    seed = int(call.attr("seed", 0)) or int(call.attr("seed2", 0))
    attrs = {"dtype": dtype} | ({"seed": float(seed)} if seed else {})
    return call.emit(f"{op}Like", call.emit("ConstantOfShape", shape, value=np.zeros(1, dtype)), **attrs)


@converter("RandomUniform")
def uniform(call: Call) -> Value:
    """Between 0 and 1."""
    return _drawn(call, "RandomUniform")


@converter("RandomStandardNormal")
def normal(call: Call) -> Value:
    """Mean 0, deviation 1."""
    return _drawn(call, "RandomNormal")
