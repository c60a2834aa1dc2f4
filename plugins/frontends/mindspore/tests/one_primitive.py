"""A MindIR with one primitive, built here: for those that MindSpore exports, but cannot run on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import autofusion as af
from autofusion_frontend_mindspore.protos import ATTRIBUTE_TYPES, model_proto

_KINDS = {bool: ("BOOL", "i"), int: ("INT64", "i"), float: ("FLOAT", "f"), str: ("STRING", "s")}
_NUMBERS = {
    "f4": 1,
    "u1": 2,
    "i1": 3,
    "u2": 4,
    "i2": 5,
    "i4": 6,
    "i8": 7,
    "b1": 9,
    "f2": 10,
    "f8": 11,
    "c8": 14,
    "c16": 15,
}


def tensor(proto: Any, array: np.ndarray, name: str = "") -> None:
    """Describe ``array``; with a name, also store its data."""
    proto.data_type = _NUMBERS[array.dtype.str[1:]]
    proto.dims.extend(array.shape)
    if name:
        proto.name, proto.raw_data = name, array.tobytes()


def kind_number(name: str) -> int:
    """The number of a kind of attribute."""
    return ATTRIBUTE_TYPES.index(name)


def literal(attribute: Any, value: Any, inside: bool = False) -> None:
    """Store a constant as MindSpore does: inside a tuple the repeated fields are used."""
    if isinstance(value, tuple):
        attribute.type = kind_number("TUPLE")
        for item in value:
            literal(attribute.values.add(), item, True)
    elif isinstance(value, np.ndarray):
        attribute.type = kind_number("TENSORS")
        tensor(attribute.tensors.add(), value, "value0")
    elif value is None:
        attribute.type = kind_number("NONE")
    else:
        kind, field = _KINDS[type(value)]
        attribute.type = kind_number(kind)
        data = value.encode() if isinstance(value, str) else int(value) if kind == "BOOL" else value
        if inside:
            getattr(attribute, {"i": "ints", "f": "floats", "s": "strings"}[field]).append(data)
        else:
            setattr(attribute, field, data)


def declare(attribute: Any, results: Any) -> None:
    """Say what a node gives: an array, or a tuple of them."""
    attribute.name = "shape"
    if isinstance(results, tuple):
        attribute.type = kind_number("TUPLE")
        for item in results:
            declare(attribute.values.add(), item)
    else:
        attribute.type = kind_number("TENSORS")
        tensor(attribute.tensors.add(), np.asarray(results))


class OnePrimitive:
    """Builds the model; ``inputs`` are the arrays among the operands."""

    def __init__(self, primitive: str, operands: tuple[Any, ...], attrs: dict[str, Any], results: Any) -> None:
        self.model = model_proto()
        self.model.ir_version, self.model.producer_name, self.model.model_version = "1.1", "MindSpore", "2.10.0"
        self.model.mind_ir_version, self.model.little_endian = 3, True
        self.graph = self.model.graph
        self.graph.name = "main"
        self.inputs: list[np.ndarray] = []
        names = [self._operand(operand) for operand in operands]
        table = self.model.primitives.add(name=f"{primitive}:1", op_type=primitive, prim_type=2)
        for name, value in attrs.items():
            attribute = table.attribute.add(name=name)
            literal(attribute, value)
        self._node(f"REF::{primitive}:1", names, "result")
        if results is not None:
            declare(self.graph.node[-1].attribute.add(), results)
        self.graph.output.add(name="result")

    def then(self, primitive: str, operands: tuple[Any, ...], attrs: dict[str, Any], results: Any) -> None:
        """Put one more primitive behind the last one; its first operand is what that gives."""
        names = [self.graph.output[0].name, *(self._operand(operand) for operand in operands)]
        number = len(self.model.primitives)
        table = self.model.primitives.add(name=f"{primitive}:{number}", op_type=primitive, prim_type=2)
        for name, value in attrs.items():
            literal(table.attribute.add(name=name), value)
        self.graph.output[0].name = self._node(f"REF::{primitive}:{number}", names, f"result{number}")
        declare(self.graph.node[-1].attribute.add(), results)

    def take(self, number: int) -> None:
        """Let the model's result be one element of the primitive's, which is a tuple."""
        self.model.primitives.add(name="TupleGetItem:0", op_type="TupleGetItem", prim_type=1)
        operands = [self.graph.output[0].name, self._operand(number)]
        self.graph.output[0].name = self._node("REF::TupleGetItem:0", operands, f"element{number}")

    def _node(self, op: str, inputs: list[str], name: str) -> str:
        self.graph.node.add(input=inputs, output=[name], name=name, op_type=op)
        return name

    def _operand(self, operand: Any) -> str:
        if isinstance(operand, np.ndarray | np.generic):
            operand = np.asarray(operand)
            name = f"main:x{len(self.inputs)}"
            tensor(self.graph.input.add(name=name).tensor.add(), operand)
            self.inputs.append(operand)
            return name
        if isinstance(operand, tuple) and any(isinstance(item, np.ndarray) for item in operand):
            if not any(p.name == "MakeTuple:0" for p in self.model.primitives):
                self.model.primitives.add(name="MakeTuple:0", op_type="MakeTuple", prim_type=1)
            parts = [self._operand(item) for item in operand]
            return self._node("REF::MakeTuple:0", parts, f"tuple{len(self.graph.node)}")
        name = self._node("Constant", [], f"constant{len(self.graph.node)}")
        attribute = self.graph.node[-1].attribute.add(name="value")
        literal(attribute, operand)
        return name


def run(
    folder: Path,
    primitive: str,
    operands: tuple[Any, ...],
    attrs: dict[str, Any],
    results: Any,
    element: int | None = None,
    level: str = "off",
) -> list[Any]:
    """What the primitive gives, or one element of it; ``results`` are only declared."""
    built = OnePrimitive(primitive, operands, attrs, results)
    if element is not None:
        built.take(element)
    path = folder / "one.mindir"
    path.write_bytes(built.model.SerializeToString())
    session = af.compile(path, level=level, threads=1)
    given = session.run({f"x{i}": x for i, x in enumerate(built.inputs)})
    return [np.asarray(given[name]) for name in session.graph.output_names if name.startswith("out")]
