"""Operators that compute nothing: constants, inputs, Identity in all its forms, and calls of functions."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion.ir.types import Dim, TensorType
from autofusion_frontend_tensorflow import lists
from autofusion_frontend_tensorflow.attributes import ShapeAttribute
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.converters.fourier import constant as complex_constant
from autofusion_frontend_tensorflow.registry import converter

_SAME = (
    "CheckNumerics",
    "CheckNumericsV2",
    "DeepCopy",
    "EnsureShape",
    "Identity",
    "OptimizationBarrier",
    "PreventGradient",
    "ReadVariableOp",
    "Snapshot",
    "StopGradient",
)
_INPUTS = ("Placeholder", "PlaceholderV2")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "RemoteCall")
lists.AWARE.update(_SAME, _CALLS, {"IdentityN"})


@converter("Const", "HostConst")
def constant(call: Call) -> Value:
    """The data as stored."""
    data = call.attr("value")
    if data is None:
        call.fail("it has no value")
    return complex_constant(call, data) if data.dtype.kind == "c" else call.graph.constant(data, call.name)


@converter(*_INPUTS)
def placeholder(call: Call) -> Value:
    """A graph input."""
    if call.scope.depth:
        call.fail("a function may not have placeholders")
    dims = call.attr("shape", ShapeAttribute(None)).dims
    stated = call.attr("_output_shapes")
    if dims is None and stated:
        dims = stated[0].dims
    if dims is None and call.name in call.scope.model.ranks:
        dims = (None,) * call.scope.model.ranks[call.name]
    if str(call.attr("dtype")) == "DT_RESOURCE":
        call.fail(f"it stands for a variable, {_NOT_FROZEN}")
    return call.graph.add_input(call.name, TensorType(call.dtype_attr("dtype", "float32"), _free(call, dims)))


@converter(*_SAME)
def same(call: Call) -> Value:
    """The operand itself."""
    return call.operand(0)


@converter("PlaceholderWithDefault")
def placeholder_with_default(call: Call) -> Value:
    """Its default, unless the user names it as an input: it is a switch of training, as long as there are real inputs.

    In a graph without any, it is the input, which may be left out.
    """
    default = call.operand(0)
    if call.scope.depth or default.const is None or any(n.op in _INPUTS for n in call.scope.body.nodes.values()):
        return default
    type_ = TensorType(default.const.dtype, _free(call, call.attr("shape", ShapeAttribute(None)).dims))
    return call.graph.add_input(call.name, type_, default.const)


def _free(call: Call, dims: tuple[int | None, ...] | None) -> tuple[Dim, ...] | None:
    """``dims`` with a symbol for each that is not known, so that equal sizes can be told downstream."""
    return None if dims is None else tuple(f"{call.name}.{axis}" if d is None else d for axis, d in enumerate(dims))


@converter("IdentityN")
def same_each(call: Call) -> list[Value]:
    """Each operand itself."""
    return call.inputs


@converter(*_CALLS)
def function_call(call: Call) -> list[Value]:
    """The function's nodes, in place."""
    function = call.attr("f")
    if function is None:
        call.fail("it does not say which function it calls")
    return call.scope.inlined(call.scope.model.library.body(function.name, call.label), call.inputs, call.name)


_NOT_FROZEN = (
    "whose value is not in this file: the graph is not frozen. Give the SavedModel folder instead, or freeze the graph "
    "with convert_variables_to_constants_v2 of tensorflow.python.framework"
)


@converter("VarHandleOp", "VariableV2", "Variable", "VarIsInitializedOp")
def variable(call: Call) -> Value:
    """Weights that are not in the file."""
    call.fail(f"it is a variable, {_NOT_FROZEN}")
