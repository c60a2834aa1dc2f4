"""What a converter works with: one source node, its operands and attributes, and the means to emit IR nodes for it.

Frontends derive from ``Call`` and add how their format is read. Every method means the same in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from autofusion.errors import ModelError
from autofusion.frontends.folding import fold
from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType


class Call:
    """One source node while it is converted: operator ``op``, called ``name``, which all emitted nodes have as origin.

    ``inputs`` are its operands, None for absent ones, and ``made`` the nodes emitted so far, into ``graph``.
    """

    def __init__(
        self,
        graph: Graph,
        op: str,
        name: str,
        inputs: Sequence[Value | None] = (),
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph = graph
        self.op = op
        self.name = name
        self.inputs: list[Value | None] = list(inputs)
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.made: list[Node] = []

    # ---- reading -------------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """How messages name the node."""
        return f"node '{self.name}' ({self.op})"

    def fail(self, why: str) -> NoReturn:
        """Raise ModelError about this node."""
        raise ModelError(f"{self.label}: {why}")

    def has(self, index: int) -> bool:
        """True if operand ``index`` is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def operand(self, index: int) -> Value:
        """Operand ``index``; raise ModelError if it is absent."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            self.fail(f"operand {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        """Operand ``index``, or None if it is absent."""
        return self.operand(index) if self.has(index) else None

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or ``default``."""
        return self.attrs.get(name, default)

    def known(self, index: int, what: str) -> np.ndarray:
        """The data of operand ``index``, called ``what`` in messages; raise ModelError if it is computed."""
        data = self.operand(index).const
        if data is None:
            self.fail(f"its {what} '{self.operand(index).name}' must be constant, found a computed value")
        return data

    def known_ints(self, index: int, what: str) -> list[int]:
        """A constant integer scalar or vector, as numbers."""
        return [int(x) for x in self.known(index, what).reshape(-1)]

    def known_int(self, index: int, what: str) -> int:
        """A constant of one integer."""
        numbers = self.known_ints(index, what)
        if len(numbers) != 1:
            self.fail(f"its {what} must be one number, found {numbers}")
        return numbers[0]

    def rank(self, value: Value) -> int:
        """The rank of ``value``; raise ModelError if it is not known."""
        if not isinstance(value.type, TensorType) or value.type.rank is None:
            self.fail(
                f"the rank of '{value.name}' is not known, and {self.op} depends on it; save the model with the shape "
                "of its inputs, or state it (--shape, shapes= in Python)"
            )
        return value.type.rank

    def axis(self, axis: int, of: Value | int) -> int:
        """``axis`` of a value (or of a rank) counted from the front; raise ModelError if there is no such axis.

        A scalar has axis 0 too: formats write it where they mean "the only one".
        """
        rank = of if isinstance(of, int) else self.rank(of)
        if not -rank <= axis < max(rank, 1):
            name = "" if isinstance(of, int) else f" '{of.name}' of"
            self.fail(f"axis {axis} is out of range for{name} rank {rank}")
        return axis + rank if axis < 0 else axis

    def dtype(self, value: Value) -> np.dtype:
        """The element type of ``value``; raise ModelError if it is not known."""
        if value.dtype is None:
            self.fail(f"the element type of '{value.name}' is not known, and {self.op} depends on it")
        return value.dtype

    def static_dim(self, value: Value, axis: int) -> int:
        """The size of an axis; raise ModelError if it is not known."""
        axis = self.axis(axis, value)
        size = value.shape[axis] if value.shape else None
        if not isinstance(size, int):
            self.fail(f"the size of axis {axis} of '{value.name}' is not known, and {self.op} needs it")
        return size

    # ---- for frontends to adapt ----------------------------------------------------------------------------

    def free_name(self, name: str) -> str:
        """``name``, changed if the source has it for something else."""
        return name

    def local(self, value: Value) -> Value:
        """``value`` as a node of ``graph`` may read it: by default it is of the same graph."""
        return value

    def infer(self, node: Node) -> None:
        """Give the results of a new node their types; raise ShapeError if its operands do not fit."""
        infer_node(node)

    # ---- emitting ------------------------------------------------------------------------------------------

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Any] | None = None,
        *,
        outputs: int = 1,
        name: str = "",
        output_names: Sequence[str] = (),
    ) -> Node:
        """Emit a node and infer its types. Absent operands at the end are left out."""
        operands = [None if v is None else self.local(v) for v in inputs]
        while operands and operands[-1] is None:
            operands.pop()
        name = name or self.free_name(f"{self.name}/{op.rsplit('::', 1)[-1]}")
        names = [output_names[i] if i < len(output_names) else "" for i in range(outputs)]
        names = [n or (name if outputs == 1 else f"{name}.{i}") for i, n in enumerate(names)]
        node = self.graph.node(op, operands, attrs, outputs=outputs, output_names=names, name=name, origin=(self.name,))
        self.made.append(node)
        self.infer(node)
        return node

    def emit(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Emit a one-result node; return its result, which is a constant where all operands are and it is cheap."""
        if inputs and all(v is None or v.const is not None for v in inputs):
            data = fold(op, attrs, [None if v is None else v.const for v in inputs])
            if data is not None:
                return self.const(data, name=op)
        return self.node(op, inputs, attrs).output

    def undo(self) -> None:
        """Remove what was emitted."""
        for node in reversed(self.made):
            self.graph.remove(node)
        self.made.clear()

    def name_results(self, values: Sequence[Value | None], names: Sequence[str]) -> None:
        """Give results that were made under passing names those of the source; an empty name is none."""
        for value, name in zip(values, names, strict=False):
            if value is not None and name and value.producer in self.made and value.name not in names:
                value.name = self.graph.unique_value_name(name)

    def const(self, data: Any, dtype: Any = None, name: str = "const") -> Value:
        """A constant."""
        return self.graph.constant(np.asarray(data, dtype), self.free_name(f"{self.name}/{name}"))

    def ints(self, data: Sequence[int] | int, name: str = "const") -> Value:
        """A constant of 64-bit integers: a vector, or a scalar for a number."""
        return self.const(data, np.int64, name)

    def like(self, data: float, value: Value, name: str = "const") -> Value:
        """A scalar of the element type of ``value``, known or not."""
        if value.dtype is not None:
            return self.const(data, value.dtype, name)
        return self.emit("CastLike", self.const(data, np.float32, name), value)

    # ---- common steps --------------------------------------------------------------------------------------

    def cast(self, value: Value, to: Any) -> Value:
        """``value`` as element type ``to``; itself if it has that already, or if ``to`` is None."""
        return value if to is None or value.dtype == np.dtype(to) else self.emit("Cast", value, to=np.dtype(to))

    def as_ints(self, value: Value) -> Value:
        """A shape, axis or index operand as the IR's 64-bit integers."""
        return self.cast(value, I64)

    def vector(self, value: Value) -> Value:
        """A scalar or vector of integers as a vector of 64-bit integers."""
        value = self.as_ints(value)
        return self.emit("Reshape", value, self.ints([-1])) if value.shape is None or len(value.shape) != 1 else value

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """``value`` with its axes in another order."""
        perm = list(perm)
        return value if perm == sorted(perm) else self.emit("Transpose", value, perm=perm)

    def reshape(self, value: Value, shape: Sequence[int] | Value) -> Value:
        """``value`` in another shape, in which 0 means 0, and not "as before"."""
        target = shape if isinstance(shape, Value) else self.ints(shape)
        zero = target.const is None or bool((target.const == 0).any())
        return self.emit("Reshape", value, target, **({"allowzero": 1} if zero else {}))

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """``value`` with axes of size 1 at these places of the result."""
        return self.emit("Unsqueeze", value, self.ints(axes))

    def squeeze(self, value: Value, *axes: int) -> Value:
        """``value`` without these axes."""
        return self.emit("Squeeze", value, self.ints(axes))

    def slice(self, value: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
        """Part of ``value`` along one axis."""
        return self.emit("Slice", value, *(self.ints([n]) for n in (start, end, axis, step)))

    def shape(self, value: Value) -> Value:
        """The shape of ``value`` as 64-bit integers, constant if it is known."""
        dims = [d for d in value.shape or () if isinstance(d, int)]
        known = value.shape is not None and len(dims) == len(value.shape)
        return self.ints(dims) if known else self.emit("Shape", value)

    def dim(self, value: Value, axis: int) -> Value:
        """Size of one axis as a vector of one 64-bit integer, constant if it is known."""
        if value.shape is not None:
            axis = self.axis(axis, value)
            size = value.shape[axis] if value.shape else None
            if isinstance(size, int):
                return self.ints([size])
        end = {} if axis == -1 else {"end": axis + 1}
        return self.emit("Shape", value, start=axis, **end)
