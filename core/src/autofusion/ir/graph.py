"""Graph, Node and Value: a static-single-assignment dataflow graph that rules edit in place.

Uses are kept both ways (``Value.producer``, ``Value.uses``), edits are O(1), and the node order is only made
topological again by ``Graph.sort``, so that a thousand rewrites cost one sort. Subgraphs (control-flow bodies,
bodies of fused nodes) are attributes, and they see nothing of the graph around them: whatever they capture is an
explicit operand of their node. A captured value therefore has a visible use, and no rule can forget it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.errors import GraphError
from autofusion.ir.description import Description
from autofusion.ir.types import TensorType, Type, of_array

FUSED = "Fused"
"""Operator name of a node that stands for its ``body`` (attributes ``kind``, ``rule``, ``body``)."""
NOT_CONVERTED = "not_converted"
"""Attribute of a node that a frontend left as its source has it: why its converter could not say it in other words."""


class Value:
    """One result of a node, a graph input, or a constant.

    ``const`` holds the data of a constant (read-only array) and is None otherwise. ``default`` is the stored value
    of a graph input that the caller may override: it must never be treated as constant.
    """

    __slots__ = ("_graph_outputs", "_uses", "const", "default", "index", "name", "producer", "type")

    def __init__(
        self,
        name: str,
        type: Type | None = None,
        producer: Node | None = None,
        index: int = 0,
        const: np.ndarray | None = None,
        default: np.ndarray | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.producer = producer
        self.index = index
        self.const = const
        self.default = default
        self._uses: dict[tuple[Node, int], None] = {}
        self._graph_outputs = 0

    @property
    def uses(self) -> list[tuple[Node, int]]:
        """(consumer, operand index) pairs, in the order in which they were made. Graph outputs are not among them."""
        return list(self._uses)

    @property
    def consumers(self) -> list[Node]:
        """The distinct consuming nodes, in order."""
        if len(self._uses) == 1:
            return [node for node, _ in self._uses]
        return list({node: None for node, _ in self._uses})

    @property
    def is_output(self) -> bool:
        """True if the value is an output of its graph: someone outside sees it."""
        return self._graph_outputs > 0

    @property
    def is_constant(self) -> bool:
        """True if the data is known and nobody may override it."""
        return self.const is not None

    @property
    def use_count(self) -> int:
        """Uses by nodes plus uses as a graph output."""
        return len(self._uses) + self._graph_outputs

    def escapes(self, nodes: Container[Node]) -> bool:
        """True if somebody besides ``nodes`` uses the value: another node, or whoever runs the graph."""
        if self._graph_outputs:
            return True
        for consumer, _ in self._uses:
            if consumer not in nodes:
                return True
        return False

    @property
    def tensor(self) -> TensorType:
        """The type as a tensor type; raise GraphError if it is unknown or another kind of type."""
        if not isinstance(self.type, TensorType):
            raise GraphError(f"value '{self.name}' has type {self.type}, expected a tensor type; run inference first")
        return self.type

    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """The shape of a tensor, or None if it (or its rank) is unknown."""
        return self.type.shape if isinstance(self.type, TensorType) else None

    @property
    def dtype(self) -> np.dtype | None:
        """The element type of a tensor, or None."""
        return self.type.dtype if isinstance(self.type, TensorType) else None

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Node:
    """One operator application.

    ``op`` is the ONNX operator name, or ``"domain::Name"`` outside the default domain. An absent optional operand
    is None. ``origin`` holds the names of the source-model nodes that this node stands for: reports use them.
    """

    __slots__ = ("attrs", "graph", "inputs", "name", "op", "origin", "outputs")

    def __init__(
        self,
        graph: Graph,
        op: str,
        attrs: Mapping[str, Any],
        name: str,
        origin: tuple[str, ...],
        inputs: Iterable[Value | None] = (),
    ) -> None:
        self.graph: Graph | None = graph
        self.op = op
        self.attrs: dict[str, Any] = dict(attrs)
        self.name = name
        self.origin = origin
        self.inputs: list[Value | None] = list(inputs)
        self.outputs: list[Value] = []
        for index, value in enumerate(self.inputs):
            if value is not None:
                value._uses[(self, index)] = None

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def operand(self, index: int) -> Value | None:
        """Operand ``index``, or None if it is absent or past the end."""
        return self.inputs[index] if index < len(self.inputs) else None

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or ``default``; see ``operators.attribute`` for the schema's default."""
        return self.attrs.get(name, default)

    def set_input(self, index: int, value: Value | None) -> None:
        """Replace operand ``index`` and keep the uses of both values right."""
        old = self.inputs[index]
        if old is not None:
            del old._uses[(self, index)]
        self.inputs[index] = value
        if value is not None:
            value._uses[(self, index)] = None

    def add_input(self, value: Value | None) -> None:
        """Append an operand."""
        self.inputs.append(None)
        self.set_input(len(self.inputs) - 1, value)

    @property
    def body(self) -> Graph:
        """The meaning of a fused node, in ordinary operators."""
        body = self.attrs.get("body")
        if not isinstance(body, Graph):
            raise GraphError(f"node '{self.name}' ({self.op}) has no body")
        return body

    @property
    def label(self) -> str:
        """How reports name the node, by the first source-model node that it stands for: ``Conv 'conv1'``."""
        return f"{self.op} '{self.origin[0] if self.origin else self.name}'"

    def __repr__(self) -> str:
        operands = ", ".join("-" if v is None else f"%{v.name}" for v in self.inputs)
        return f"{', '.join(f'%{v.name}' for v in self.outputs)} = {self.op}({operands})"


class Graph:
    """Inputs, nodes and outputs; the node order is topological after ``sort``.

    ``description`` is what the model file says about itself, if its frontend tells; copies of a graph have none.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.description: Description | None = None
        self.inputs: list[Value] = []
        self.output_names: list[str] = []
        self._outputs: list[Value] = []
        self._nodes: dict[Node, None] = {}
        self._names: dict[str, int] = {}
        self._value_names: dict[str, int] = {}

    # ---- reading -------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order (a new list: safe to edit the graph while walking it)."""
        return list(self._nodes)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The output values; ``output_names`` are the names that the caller knows them by."""
        return tuple(self._outputs)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: Node) -> bool:
        return node in self._nodes

    def constants(self) -> list[Value]:
        """Every constant that a node or an output uses, each once, in order of first use."""
        seen: dict[Value, None] = {}
        for node in self._nodes:
            for value in node.inputs:
                if value is not None and value.const is not None:
                    seen[value] = None
        for value in self._outputs:
            if value.const is not None:
                seen[value] = None
        return list(seen)

    def values(self) -> Iterator[Value]:
        """Inputs, then the results of every node in order. Constants are not included."""
        yield from self.inputs
        for node in self._nodes:
            yield from node.outputs

    # ---- building ------------------------------------------------------------------------------------------

    def unique_value_name(self, name: str) -> str:
        """``name``, or the first of ``name_1``, ``name_2``... that no value of the graph has yet."""
        return _unique(self._value_names, name)

    def unique_node_name(self, name: str) -> str:
        """``name``, or the first of ``name_1``, ``name_2``... that no node of the graph has yet."""
        return _unique(self._names, name)

    def add_input(self, name: str, type: Type | None, default: np.ndarray | None = None) -> Value:
        """Append a graph input; ``default`` makes it optional for the caller, who may still override it."""
        value = Value(_unique(self._value_names, name), type, default=default)
        self.inputs.append(value)
        return value

    def constant(self, data: np.ndarray, name: str = "const") -> Value:
        """Make a constant value. The array is marked read-only: constants are shared, so nobody may edit them."""
        array = read_only(data)
        return Value(_unique(self._value_names, name), of_array(array), const=array)

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Any] | None = None,
        *,
        outputs: int | Sequence[Type | None] = 1,
        output_names: Sequence[str] = (),
        name: str = "",
        origin: Iterable[str] = (),
    ) -> Node:
        """Append a node. ``outputs`` is their number, or their types; ``name`` is made unique."""
        types: Sequence[Type | None] = [None] * outputs if isinstance(outputs, int) else outputs
        name = _unique(self._names, name or op.rsplit("::", 1)[-1])
        node = Node(self, op, attrs or {}, name, tuple(origin), inputs)
        for index, type_ in enumerate(types):
            wanted = output_names[index] if index < len(output_names) else (name if index == 0 else f"{name}.{index}")
            node.outputs.append(Value(_unique(self._value_names, wanted), type_, node, index))
        self._nodes[node] = None
        return node

    def add_output(self, value: Value, name: str | None = None) -> None:
        """Append an output; its public name defaults to the value's name."""
        self._outputs.append(value)
        self.output_names.append(value.name if name is None else name)
        value._graph_outputs += 1

    def set_output(self, index: int, value: Value) -> None:
        """Replace the value behind output ``index``; the public name stays."""
        self._outputs[index]._graph_outputs -= 1
        self._outputs[index] = value
        value._graph_outputs += 1

    # ---- editing -------------------------------------------------------------------------------------------

    def replace_uses(self, old: Value, new: Value) -> None:
        """Let every consumer of ``old``, graph outputs included, use ``new``."""
        if old is new:
            return
        for node, index in old.uses:
            node.set_input(index, new)
        for index, value in enumerate(self._outputs):
            if value is old:
                self.set_output(index, new)

    def remove(self, node: Node) -> None:
        """Remove a node whose results nobody uses; raise GraphError otherwise."""
        for value in node.outputs:
            if value.use_count:
                users = [n.label for n in value.consumers] + (["a graph output"] if value.is_output else [])
                raise GraphError(f"{node.label} cannot be removed: '{value.name}' is used by {', '.join(users)}")
        self.drop(node)

    def drop(self, node: Node) -> None:
        """Remove a node without asking whether somebody uses its results: the caller knows that nobody does."""
        for index, value in enumerate(node.inputs):
            if value is not None:
                del value._uses[(node, index)]
        node.inputs = [None] * len(node.inputs)
        del self._nodes[node]
        node.graph = None

    def prune(self) -> int:
        """Remove every node that no output depends on; return how many."""
        live: set[Node] = set()
        stack = [v.producer for v in self._outputs if v.producer is not None]
        while stack:
            node = stack.pop()
            if node in live:
                continue
            live.add(node)
            stack.extend(v.producer for v in node.inputs if v is not None and v.producer is not None)
        dead = [n for n in self._nodes if n not in live]
        for node in dead:
            self.drop(node)
        return len(dead)

    def sort(self) -> None:
        """Make the node order topological, moving as little as possible; raise GraphError on a cycle."""
        done: dict[Node, None] = {}
        for node in self._nodes:
            if node in done:
                continue
            for value in node.inputs:
                if value is not None and value.producer is not None and value.producer not in done:
                    self._sort_from(node, done)
                    break
            else:
                done[node] = None
        self._nodes = done

    def _sort_from(self, root: Node, done: dict[Node, None]) -> None:
        """Append ``root`` to ``done``, after all that it needs and that is not there yet."""
        visiting: set[Node] = set()
        stack: list[tuple[Node, int]] = [(root, 0)]
        while stack:
            node, next_input = stack.pop()
            if node in done:
                continue
            visiting.add(node)
            while next_input < len(node.inputs):
                value = node.inputs[next_input]
                next_input += 1
                producer = value.producer if value is not None else None
                if producer is not None and producer not in done:
                    if producer in visiting:
                        raise GraphError(f"graph '{self.name}' has a cycle through {producer.label}")
                    if producer not in self._nodes:
                        raise GraphError(f"{node.label} uses {producer.label}, which is not in graph '{self.name}'")
                    stack.append((node, next_input))
                    stack.append((producer, 0))
                    break
            else:
                visiting.discard(node)
                done[node] = None

    # ---- copying -------------------------------------------------------------------------------------------

    def copy(self) -> Graph:
        """A graph that can be edited alone. Constant data is shared (it is read-only); attributes are copied
        shallowly.
        """
        new, _ = self.copy_with_map()
        return new

    def copy_with_map(self) -> tuple[Graph, dict[Value, Value]]:
        """Like ``copy``; also return the map from the old values to the new ones."""
        new = Graph(self.name)
        new._names, new._value_names = dict(self._names), dict(self._value_names)
        values: dict[Value, Value] = {}
        for value in self.inputs:
            values[value] = Value(value.name, value.type, default=value.default)
            new.inputs.append(values[value])
        for node in self._nodes:
            copy_node(node, new, values)
        for value, name in zip(self._outputs, self.output_names, strict=True):
            new.add_output(_mapped(value, values), name)
        return new, values


def read_only(data: np.ndarray) -> np.ndarray:
    """``data`` as constants have it: row-major, and nobody may write to it."""
    array = np.asarray(data)
    flags = array.flags
    if not flags.c_contiguous:
        array = array.copy(order="C")
        flags = array.flags
    if flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def copy_node(node: Node, into: Graph, values: dict[Value, Value]) -> Node:
    """Append a copy of ``node`` to ``into`` with the same names; ``values`` maps operands and receives the results.

    The caller makes the names unique where ``into`` may have them already. Constants are copied on demand; any
    other operand must already be in ``values``.
    """
    inputs = [value if value is None else values.get(value) or _mapped(value, values) for value in node.inputs]
    new = Node(into, node.op, node.attrs, node.name, node.origin, inputs)
    for value in node.outputs:
        result = values[value] = Value(value.name, value.type, new, value.index)
        new.outputs.append(result)
    into._nodes[new] = None
    return new


def _mapped(value: Value, values: dict[Value, Value]) -> Value:
    if value not in values:
        if value.const is None:
            raise GraphError(f"value '{value.name}' is used before it is defined")
        values[value] = Value(value.name, value.type, const=value.const)
    return values[value]


def _unique(taken: dict[str, int], name: str) -> str:
    if name not in taken:
        taken[name] = 0
        return name
    while True:
        taken[name] += 1
        candidate = f"{name}_{taken[name]}"
        if candidate not in taken:
            taken[candidate] = 0
            return candidate
