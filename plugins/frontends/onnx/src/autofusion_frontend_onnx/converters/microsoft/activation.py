"""The Gelu family, and the activations that fused operators name in an attribute."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"
_PARAMETERS = {
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
}
_PLAIN = frozenset({"Relu", "Tanh", "Sigmoid", "HardSwish", "Softplus", "Softsign"})


def activated(call: Call, x: Value, name: str | None, parameters: Sequence[float]) -> Value:
    """``x`` after the activation ``name``; ``parameters`` in the order of the operator's attributes."""
    if not name:
        return x
    if name in _PLAIN:
        return call.emit(name, x)
    if name == "Clip" and len(parameters) == 2:
        low, high = (call.like(p, x, n) for p, n in zip(parameters, ("min", "max"), strict=True))
        return call.emit("Clip", x, low, high)
    if name in _PARAMETERS:
        return call.emit(name, x, **dict(zip(_PARAMETERS[name], parameters, strict=False)))
    call.fail(f"activation '{name}' with parameters {list(parameters)} is not known")


@converter("Gelu", domain=_MS)
def gelu(call: Call) -> list[Value]:
    """The exact form."""
    return call.result(attrs={"approximate": "none"})


@converter("BiasGelu", domain=_MS)
def bias_gelu(call: Call) -> list[Value]:
    """The exact form of a sum."""
    total = call.emit("Add", call.operand(0), call.operand(1))
    return call.result("Gelu", [total], {"approximate": "none"})


@converter("FastGelu", domain=_MS)
def fast_gelu(call: Call) -> list[Value]:
    """The tanh form, of a sum if there is a bias."""
    x, bias = call.operand(0), call.optional(1)
    total = x if bias is None else call.emit("Add", x, bias)
    return call.result("Gelu", [total], {"approximate": "tanh"})


@converter("QuickGelu", domain=_MS)
def quick_gelu(call: Call) -> list[Value]:
    """x * sigmoid(alpha * x)."""
    x = call.operand(0)
    scaled = call.emit("Mul", x, call.like(call.attr("alpha", 1.702), x, "alpha"))
    return call.result("Mul", [x, call.emit("Sigmoid", scaled)], {})


@converter("BiasAdd", domain=_MS)
def bias_add(call: Call) -> list[Value]:
    """x + bias + skip."""
    return call.result("Add", [call.emit("Add", call.operand(0), call.operand(1)), call.operand(2)], {})


@converter("BiasSoftmax", domain=_MS)
def bias_softmax(call: Call) -> list[Value]:
    """softmax(x + bias) over the axes from ``axis`` on; an outer bias skips the axes between the batch and ``axis``."""
    x, bias, axis = call.operand(0), call.operand(1), call.attr("axis", 1)
    rank, axis = call.rank(x), call.axis(axis, x)
    if not call.attr("is_inner_broadcast", 1):
        missing = rank - call.rank(bias)
        if missing > 0:
            bias = call.emit("Unsqueeze", bias, call.ints(list(range(axis - missing, axis)), "axes"))
    total = call.emit("Add", x, bias)
    if axis == rank - 1:
        return call.result("Softmax", [total], {"axis": -1})
    flat = call.emit("Softmax", call.emit("Flatten", total, axis=axis), axis=1)
    return call.result("Reshape", [flat, call.emit("Shape", total)], {"allowzero": 1})
