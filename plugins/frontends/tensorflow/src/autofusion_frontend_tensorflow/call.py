"""What a converter works with: one source node, its operands and attributes, and the means to emit IR nodes for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from autofusion.frontends import ModelError
from autofusion.ir.dtypes import I64
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_node, merge_types
from autofusion.ir.types import TensorType
from autofusion_frontend_tensorflow.folding import fold
from autofusion_frontend_tensorflow.sizes import known_dims

_BY_SHAPE = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""Operators whose result has the shape that an operand says."""

if TYPE_CHECKING:
    from autofusion_frontend_tensorflow.scope import Scope
    from autofusion_frontend_tensorflow.source import SourceNode


class Call:
    """One source node while it is converted.

    ``inputs`` are its operands, in TensorFlow's order and layout. A converter returns one value for each result, in
    TensorFlow's layout too: what the IR wants otherwise is between Transposes.
    """

    def __init__(self, scope: Scope, source: SourceNode, name: str, inputs: Sequence[Value]) -> None:
        self.scope = scope
        self.source = source
        self.op = source.op
        self.name = name
        self.inputs = list(inputs)
        self.made: list[Node] = []

    # ---- reading -------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that nodes are emitted into."""
        return self.scope.graph

    @property
    def label(self) -> str:
        """How messages name the node."""
        return f"node '{self.name}' ({self.op})"

    def fail(self, why: str) -> NoReturn:
        """Raise ModelError about this node."""
        raise ModelError(f"{self.label}: {why}")

    def operand(self, index: int) -> Value:
        """Operand ``index``; raise ModelError if it is absent."""
        if index >= len(self.inputs):
            self.fail(f"operand {index} is missing")
        return self.inputs[index]

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or ``default``: files leave out attributes that have TensorFlow's default."""
        return self.source.attr(name, default)

    def dtype_attr(self, name: str, default: Any) -> np.dtype:
        """An attribute that is an element type which the IR has."""
        given = self.attr(name)
        if given is None:
            return np.dtype(default)
        if given.dtype is None:
            self.fail(f"'{name}' is {given}, which is no type of a tensor here")
        dtype: np.dtype = given.dtype
        return dtype

    def known(self, index: int, what: str) -> np.ndarray:
        """The data of operand ``index``, which must be constant; ``what`` says what it is."""
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
        if value.shape is None:
            self.fail(
                f"the rank of '{value.name}' is not known, and {self.op} depends on it; save the model with the shape "
                "of its inputs, or state it (--shape, shapes= in Python)"
            )
        return len(value.shape)

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front; raise ModelError if there is none."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def dtype(self, value: Value) -> np.dtype:
        """The element type of ``value``; raise ModelError if it is not known."""
        if value.dtype is None:
            self.fail(f"the element type of '{value.name}' is not known, and {self.op} depends on it")
        return value.dtype

    def within(self, graph: Graph) -> Call:
        """The same node, emitting into ``graph``: a body of control flow."""
        from autofusion_frontend_tensorflow.scope import Scope

        scope = self.scope
        inner = Scope(scope.model, graph, scope.body, prefix=scope.prefix, depth=scope.depth)
        return Call(inner, self.source, self.name, self.inputs)

    # ---- emitting ------------------------------------------------------------------------------------------

    def node(
        self, op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Any] | None = None, *, outputs: int = 1
    ) -> Node:
        """Emit a node and infer its types."""
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        name = f"{self.name}/{op.rsplit('::', 1)[-1]}"
        node = self.graph.node(op, operands, attrs, outputs=outputs, name=name, origin=(self.name,))
        self.made.append(node)
        infer_node(node)
        if op in _BY_SHAPE:
            self._refine(node, _BY_SHAPE[op])
        return node

    def _refine(self, node: Node, operand: int) -> None:
        """A result whose shape is an operand: that may be known in part where inference only sees a computed vector."""
        value, target = node.output, node.inputs[operand]
        if target is None or target.const is not None or not isinstance(value.type, TensorType):
            return
        dims = known_dims(target)
        if dims is None or any(isinstance(d, int) and (d < 1 if node.op != "ConstantOfShape" else d < 0) for d in dims):
            return
        if node.op == "Expand":  # a size of the target may be smaller than that of the operand
            dims = tuple(d if isinstance(d, int) and d > 1 else None for d in dims)
            if value.type.rank != len(dims):
                return
        value.type = merge_types(value.type, value.type.with_shape(dims))

    def emit(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Emit a one-result node; return its result, which is a constant where all operands are and it is cheap."""
        if inputs and all(v is None or v.const is not None for v in inputs):
            data = fold(op, attrs, [None if v is None else v.const for v in inputs])
            if data is not None:
                return self.const(data, name=op)
        return self.node(op, inputs, attrs).output

    def const(self, data: Any, dtype: Any = None, name: str = "const") -> Value:
        """A constant."""
        return self.graph.constant(np.asarray(data, dtype), f"{self.name}/{name}")

    def ints(self, data: Sequence[int] | int, name: str = "const") -> Value:
        """A constant of 64-bit integers: a vector, or a scalar for a number."""
        return self.const(data, np.int64, name)

    def like(self, data: float, value: Value) -> Value:
        """A scalar of the element type of ``value``."""
        return self.const(data, self.dtype(value))

    # ---- common steps --------------------------------------------------------------------------------------

    def cast(self, value: Value, to: Any) -> Value:
        """``value`` as element type ``to``."""
        to = np.dtype(to)
        return value if value.dtype == to else self.emit("Cast", value, to=to)

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
        """``value`` in another shape, where 0 means 0 as in TensorFlow."""
        target = self.ints(shape) if not isinstance(shape, Value) else shape
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
        dims = value.shape
        if dims is not None and all(isinstance(d, int) for d in dims):
            return self.ints([int(d) for d in dims])  # type: ignore[arg-type]
        return self.emit("Shape", value)

    def dim(self, value: Value, axis: int) -> Value:
        """Size of one axis as a vector of one 64-bit integer, constant if it is known."""
        rank = self.rank(value)
        assert value.shape is not None
        size = value.shape[axis]
        if isinstance(size, int):
            return self.ints([size])
        axis %= rank
        return self.emit("Shape", value, start=axis, end=axis + 1)
