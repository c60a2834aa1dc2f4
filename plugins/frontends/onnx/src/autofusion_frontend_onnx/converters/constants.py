"""Constant nodes become constants of the graph."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter


@converter("Constant")
def constant(call: Call) -> Value:
    """Exactly one of the value attributes holds the data; it says the element type too."""
    if len(call.attrs) != 1:
        call.fail(f"it states {sorted(call.attrs) or 'no value'}; expected exactly one value attribute")
    ((name, value),) = call.attrs.items()
    match name:
        case "value" | "sparse_value":
            data = np.asarray(value)
        case "value_float" | "value_floats":
            data = np.asarray(value, np.float32)
        case "value_int" | "value_ints":
            data = np.asarray(value, np.int64)
        case _:
            data = np.asarray(value, object)
    return call.graph.constant(data, call.scope.value_names(call.outputs)[0])
