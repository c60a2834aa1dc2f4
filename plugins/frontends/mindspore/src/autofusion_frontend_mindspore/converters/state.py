"""Primitives that write: to parameters, and to tensors in place."""

from __future__ import annotations

from collections.abc import Callable

from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.converters.arithmetic import scaled
from autofusion_frontend_mindspore.registry import TABLE, converter


@converter("Assign", "InplaceCopy")
def assign(call: Call) -> Value:
    """The second operand, in the shape of the first."""
    target, value = call.tensor(0), call.tensor(1)
    if target.shape != value.shape:
        value = call.emit("Expand", value, call.emit("Shape", target))
    return call.modify(0, value)


def _updated(op: str) -> Callable[[Call], Value]:
    def convert(call: Call) -> Value:
        target = call.tensor(0)
        return call.modify(0, call.emit(op, target, call.cast(call.tensor(1, target.dtype), target.dtype)))

    return convert


converter("AssignAdd")(_updated("Add"))
converter("AssignSub")(_updated("Sub"))


def _scaled(op: str) -> Callable[[Call], Value]:
    def convert(call: Call) -> Value:
        return call.modify(0, scaled(call, op))

    return convert


converter("InplaceAddExt", "InplaceAddsExt")(_scaled("Add"))
converter("InplaceSubExt", "InplaceSubScalar")(_scaled("Sub"))


def _in_place(primitive: str, meaning: str) -> None:
    def convert(call: Call) -> Value:
        function = TABLE.find(meaning)
        assert function is not None
        result = function(call)
        assert isinstance(result, Value)
        return call.modify(0, result)

    converter(primitive)(convert)


for _primitive, _meaning in {
    "InplaceMul": "Mul",
    "InplaceMuls": "Muls",
    "InplaceDiv": "Div",
    "InplaceDivs": "Divs",
    "InplaceDivMod": "DivMod",
    "InplaceDivMods": "DivMods",
    "InplaceFloorDivide": "FloorDiv",
    "InplaceFloorDivides": "FloorDivScalar",
    "InplaceRemainderTensorTensor": "RemainderTensorTensor",
    "InplaceRemainderTensorScalar": "RemainderTensorScalar",
    "InplaceReLU": "ReLU",
    "InplaceSigmoid": "Sigmoid",
    "InplaceTanh": "Tanh",
    "InplaceExp": "Exp",
    "InplaceLog": "Log",
    "InplaceFloor": "Floor",
    "InplaceClampScalar": "ClampScalar",
    "InplaceClampTensor": "ClampTensor",
    "InplaceHardtanh": "Hardtanh",
    "InplaceElu": "EluExt",
    "InplaceSiLU": "SiLU",
    "InplaceThreshold": "Threshold",
    "InplaceMaskedFillScalar": "MaskedFillScalar",
    "InplaceMaskedFillTensor": "MaskedFill",
}.items():
    _in_place(_primitive, _meaning)


def _filled(call: Call) -> Value:
    target = call.tensor(0)
    number = call.cast(call.tensor(1, target.dtype), target.dtype)
    return call.modify(0, call.emit("Expand", number, call.emit("Shape", target)))


converter("InplaceFillScalar", "InplaceFillTensor")(_filled)


@converter("InplaceZero")
def zero(call: Call) -> Value:
    """Zeros."""
    target = call.tensor(0)
    return call.modify(0, call.emit("Expand", call.like(0, target), call.emit("Shape", target)))


def _scattered(reduction: str, whole: bool) -> Callable[[Call], Value]:
    """(target, indices, updates): of whole places, or of rows."""

    def convert(call: Call) -> Value:
        target, index = call.tensor(0), call.cast(call.tensor(1), I64)
        if not whole:
            index = call.emit("Unsqueeze", index, call.ints([call.rank(index)]))
        updates = call.cast(call.tensor(2), target.dtype)
        if reduction == "sub":
            updates = call.emit("Neg", updates)
        how = "add" if reduction == "sub" else reduction
        return call.modify(0, call.emit("ScatterND", target, index, updates, reduction=how))

    return convert


for _name, _how in {"Update": "none", "Add": "add", "Sub": "sub", "Mul": "mul", "Max": "max", "Min": "min"}.items():
    converter(f"Scatter{_name}")(_scattered(_how, False))
    converter(f"ScatterNd{_name}")(_scattered(_how, True))
