"""Canonical text form of a graph: ``to_text`` prints it, ``from_text`` reads it back.

One graph has one text: results are numbered in order, constants by first use, attributes are sorted, and names nobody
outside can see are left out. Golden tests and dumps compare as plain text, and a test reads like what it tests:

    graph @bias_relu(%x: f32[N, 768], %b: f32[768] = dense<sha256:0a1b2c3d> : f32[768]) -> (y: f32[N, 3072]) {
      %c0 = constant dense<sha256:4e5f6071> : f32[768, 3072]
      %0 = MatMul(%x, %c0) : f32[N, 3072]
      %1 = Clip(%0, _, %c1) : f32[N, 3072]
      return %1
    }

Bodies of fused and control-flow nodes follow their node as a block. ``//`` begins a comment. ``_`` is an absent
operand, ``?`` an unknown dim or type, ``[*]`` an unknown rank. With names, each node also says its own and its
origin's: ``@ "relu_1" from ["model/relu"]``. A text written by hand may leave out the types of results (`` : ...``) and
have them inferred.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.errors import GraphError
from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.literals import (
    F64,
    SeededConstants,
    Tokens,
    build_tensor,
    digest,
    element_text,
    element_value,
    name_text,
    operator_text,
    tensor_text,
    type_text,
    value_text,
)
from autofusion.ir.types import OptionalType, SequenceType, TensorType, Type

__all__ = ["SeededConstants", "digest", "from_text", "to_text"]


# ---- printing ----------------------------------------------------------------------------------------------


def to_text(graph: Graph, *, with_names: bool = False, aliases: Mapping[str, str] | None = None) -> str:
    """The text form, ending in a newline. ``with_names`` keeps the names of all values and nodes, and the origins.

    ``aliases`` maps digests to the digests to print instead. Raise GraphError for an attribute that has no text form.
    """
    return "\n".join(_Printer(with_names, aliases or {}).graph(graph, "", outermost=True)) + "\n"


class _Printer:
    def __init__(self, with_names: bool, aliases: Mapping[str, str]) -> None:
        self.with_names = with_names
        self.aliases = aliases

    def graph(self, graph: Graph, indent: str, *, outermost: bool) -> list[str]:
        public = outermost or self.with_names
        names = self._names(graph, public)
        inputs = ", ".join(self._input(v, names) for v in graph.inputs)
        outputs = ", ".join(
            f"{name_text(name)}: {type_text(value.type)}" if public else type_text(value.type)
            for value, name in zip(graph.outputs, graph.output_names, strict=True)
        )
        head = f"graph @{name_text(graph.name)}" if public else "graph"
        lines = [f"{head}({inputs}) -> ({outputs}) {{"]
        inner = indent + "  "
        for value in graph.constants():
            assert value.const is not None
            lines.append(f"{inner}{names[value]} = constant {tensor_text(value.const, self.aliases)}")
        for node in graph.nodes:
            lines.extend(self._node(node, names, inner))
        lines.append(f"{inner}return {', '.join(_shown(v, names) for v in graph.outputs)}".rstrip())
        lines.append(f"{indent}}}")
        return lines

    def _names(self, graph: Graph, public: bool) -> dict[Value, str]:
        """What every value is called. Inputs of the outermost graph keep their names, because callers use them."""
        if self.with_names:
            return _own_names([*graph.values(), *graph.constants()])
        taken = {v.name for v in graph.inputs} if public else set()
        names = {
            v: value_text(v.name) if public else name
            for v, name in zip(graph.inputs, _numbers("i", len(graph.inputs), set()), strict=True)
        }
        constants = graph.constants()
        names.update(zip(constants, _numbers("c", len(constants), taken), strict=True))
        results = [v for node in graph.nodes for v in node.outputs]
        names.update(zip(results, _numbers("", len(results), taken), strict=True))
        return names

    def _input(self, value: Value, names: Mapping[Value, str]) -> str:
        default = "" if value.default is None else f" = {tensor_text(value.default, self.aliases)}"
        return f"{names[value]}: {type_text(value.type)}{default}"

    def _node(self, node: Node, names: Mapping[Value, str], indent: str) -> list[str]:
        results = ", ".join(names[v] for v in node.outputs)
        operands = ", ".join("_" if v is None else _shown(v, names) for v in node.inputs)
        line = f"{indent}{results}{' = ' if results else ''}{operator_text(node.op)}({operands})"
        plain = {k: v for k, v in sorted(node.attrs.items()) if not isinstance(v, Graph)}
        if plain:
            line += f" {{{', '.join(f'{name_text(k)} = {self._attribute(node, k, v)}' for k, v in plain.items())}}}"
        if node.outputs:
            line += f" : {', '.join(type_text(v.type) for v in node.outputs)}"
        if self.with_names:
            line += f" @ {json.dumps(node.name)}"
            if node.origin:
                line += f" from [{', '.join(map(json.dumps, node.origin))}]"
        bodies = {k: v for k, v in sorted(node.attrs.items()) if isinstance(v, Graph)}
        if not bodies:
            return [line]
        lines = [line + " {"]
        for name, body in bodies.items():
            first, *rest = self.graph(body, indent + "  ", outermost=False)
            lines += [f"{indent}  {name_text(name)} = {first}", *rest]
        return [*lines, f"{indent}}}"]

    def _attribute(self, node: Node, name: str, value: Any) -> str:
        if value is None:
            return "none"
        if isinstance(value, bool | np.bool_):
            return "true" if value else "false"
        if isinstance(value, int | np.integer):
            return str(int(value))
        if isinstance(value, float | np.floating):
            return element_text(float(value), F64)
        if isinstance(value, str):
            return json.dumps(value)
        if isinstance(value, np.dtype):
            return dtype_name(value)
        if isinstance(value, TensorType | SequenceType | OptionalType):
            return type_text(value)
        if isinstance(value, np.ndarray):
            return tensor_text(value, self.aliases)
        if isinstance(value, list | tuple):
            return f"[{', '.join(self._attribute(node, name, v) for v in value)}]"
        raise GraphError(f"{node.label}: attribute '{name}' of type {type(value).__name__} has no text form")


def _own_names(values: Sequence[Value]) -> dict[Value, str]:
    """Every value's own name; a name that is taken already (constants copied from elsewhere) gets a number."""
    names: dict[Value, str] = {}
    taken: dict[str, int] = {}
    for value in values:
        name = value.name
        while name in taken:
            taken[value.name] += 1
            name = f"{value.name}_{taken[value.name]}"
        taken[name] = 0
        names[value] = value_text(name)
    return names


def _numbers(prefix: str, count: int, taken: set[str]) -> list[str]:
    """The first ``count`` of %prefix0, %prefix1... that are not taken."""
    result: list[str] = []
    number = 0
    while len(result) < count:
        if f"{prefix}{number}" not in taken:
            result.append(f"%{prefix}{number}")
        number += 1
    return result


def _shown(value: Value, names: Mapping[Value, str]) -> str:
    """The value's name; its own if it does not belong to the graph, so that a broken graph can be looked at."""
    return names.get(value) or value_text(value.name)


# ---- reading -----------------------------------------------------------------------------------------------


def from_text(text: str, constants: Mapping[str, np.ndarray] | SeededConstants | None = None) -> Graph:
    """The graph that ``text`` describes.

    Large constants are digests in the text: ``constants`` maps digests to arrays, or makes data (``SeededConstants``).
    Raise GraphError with the line and what was expected if the text does not follow the grammar.
    """
    parser = _Parser(Tokens(text), {} if constants is None else constants)
    graph = parser.graph()
    if parser.tokens.kind != "end":
        raise parser.tokens.fail("the end of the text")
    return graph


class _Parser:
    def __init__(self, tokens: Tokens, constants: Mapping[str, np.ndarray] | SeededConstants) -> None:
        self.tokens = tokens
        self.constants = constants

    def graph(self) -> Graph:
        tokens = self.tokens
        tokens.expect("graph")
        graph = Graph(tokens.name("a graph name") if tokens.accept("@") else "graph")
        values: dict[str, Value] = {}
        tokens.expect("(")
        while not tokens.accept(")"):
            if graph.inputs:
                tokens.expect(",")
            name = self._new_name(values)
            tokens.expect(":")
            type_ = tokens.type()
            values[name] = graph.add_input(name, type_, self.tensor() if tokens.accept("=") else None)
        tokens.expect("->")
        declared = self._declared_outputs()
        tokens.expect("{")
        while not tokens.accept("return"):
            self._statement(graph, values)
        for index, (public, type_) in enumerate(declared):
            if index:
                tokens.expect(",")
            value = self._value(values)
            if value.type is not None and value.type != type_:
                raise GraphError(
                    f"line {tokens.line}: output {index} was declared {type_text(type_)}, "
                    f"but {value_text(value.name)} is {type_text(value.type)}"
                )
            graph.add_output(value, public)
        tokens.expect("}")
        return graph

    def _declared_outputs(self) -> list[tuple[str | None, Type | None]]:
        tokens = self.tokens
        tokens.expect("(")
        result: list[tuple[str | None, Type | None]] = []
        while not tokens.accept(")"):
            if result:
                tokens.expect(",")
            if tokens.kind == "mark":  # an unknown type
                result.append((None, tokens.type()))
                continue
            first = tokens.name("an output name or a type")
            if tokens.accept(":"):
                result.append((first, tokens.type()))
            elif tokens.accept("("):
                inner = tokens.type()
                if inner is None or first not in ("seq", "optional"):
                    raise tokens.fail("a type")
                tokens.expect(")")
                result.append((None, SequenceType(inner) if first == "seq" else OptionalType(inner)))
            else:
                result.append((None, tokens.tensor_type(first)))
        return result

    def _new_name(self, values: Mapping[str, Value]) -> str:
        line = self.tokens.line
        name = self.tokens.value()
        if name in values:
            raise GraphError(f"line {line}: {value_text(name)} is already defined")
        return name

    def _value(self, values: Mapping[str, Value]) -> Value:
        line = self.tokens.line
        name = self.tokens.value()
        if name not in values:
            raise GraphError(f"line {line}: {value_text(name)} is used before it is defined")
        return values[name]

    def _statement(self, graph: Graph, values: dict[str, Value]) -> None:
        tokens = self.tokens
        names: list[str] = []
        if tokens.kind == "value":
            names.append(self._new_name(values))
            while tokens.accept(","):
                names.append(self._new_name(values))
            tokens.expect("=")
            if tokens.accept("constant"):
                values[names[0]] = graph.constant(self.tensor(), names[0])
                return
        op = tokens.name("an operator, a value or 'return'")
        operands = self._operands(values)
        attrs = self._attributes() if tokens.accept("{") else {}
        types: list[Type | None] = []
        line = tokens.line
        if tokens.accept(":"):
            types.append(tokens.type())
            while tokens.accept(","):
                types.append(tokens.type())
        else:
            types = [None] * len(names)
        if len(types) != len(names):
            raise GraphError(f"line {line}: expected {len(names)} types, one for each result, found {len(types)}")
        name, origin = self._provenance()
        if tokens.accept("{"):
            attrs |= self._attributes()
        node = graph.node(op, operands, attrs, outputs=types, output_names=names, name=name, origin=origin)
        values.update(zip(names, node.outputs, strict=True))

    def _operands(self, values: Mapping[str, Value]) -> list[Value | None]:
        tokens = self.tokens
        tokens.expect("(")
        operands: list[Value | None] = []
        while not tokens.accept(")"):
            if operands:
                tokens.expect(",")
            operands.append(None if tokens.accept("_") else self._value(values))
        return operands

    def _provenance(self) -> tuple[str, Sequence[str]]:
        tokens = self.tokens
        if not tokens.accept("@"):
            return "", ()
        name = tokens.name("a node name")
        origin: list[str] = []
        if tokens.accept("from"):
            tokens.expect("[")
            while not tokens.accept("]"):
                if origin:
                    tokens.expect(",")
                origin.append(tokens.name("an origin"))
        return name, origin

    def _attributes(self) -> dict[str, Any]:
        """The rest of ``{name = value, ...}``; bodies stand one below the other, without commas."""
        tokens = self.tokens
        attrs: dict[str, Any] = {}
        while not tokens.accept("}"):
            name = tokens.name("an attribute name")
            tokens.expect("=")
            if tokens.text == "graph" and tokens.kind == "name":
                attrs[name] = self.graph()
                continue
            attrs[name] = self._attribute()
            if tokens.text != "}":
                tokens.expect(",")
        return attrs

    def _attribute(self) -> Any:
        tokens = self.tokens
        if tokens.kind == "string":
            return json.loads(tokens.advance())
        if tokens.kind == "number":
            text = tokens.text
            if text.lstrip("-").isdigit():
                return int(tokens.advance())
            return float(self._element(F64))
        if tokens.accept("["):
            items: list[Any] = []
            while not tokens.accept("]"):
                if items:
                    tokens.expect(",")
                items.append(self._attribute())
            return items
        if tokens.text == "dense":
            return self.tensor()
        name = tokens.take("name", "an attribute value")
        if name in ("true", "false", "none"):
            return {"true": True, "false": False, "none": None}[name]
        if name in ("seq", "optional"):
            tokens.expect("(")
            inner = tokens.type()
            if inner is None:
                raise tokens.fail("a known type")
            tokens.expect(")")
            return SequenceType(inner) if name == "seq" else OptionalType(inner)
        return tokens.tensor_type(name) if tokens.text == "[" else tokens.dtype(name)

    def tensor(self) -> np.ndarray:
        """``dense<...> : type``. The elements are read before the type is known, so their tokens are kept."""
        tokens = self.tokens
        tokens.expect("dense")
        tokens.expect("<")
        line = tokens.line
        wanted = tokens.advance().removeprefix("sha256:") if tokens.kind == "digest" else None
        raw = [] if wanted else self._raw_elements()
        tokens.expect(">")
        tokens.expect(":")
        type_ = tokens.type()
        if not isinstance(type_, TensorType) or not type_.is_static:
            raise GraphError(f"line {line}: a tensor must have a static type, found {type_text(type_)}")
        try:
            if wanted is not None:
                return self._by_digest(wanted, type_)
            return build_tensor(_elements(raw, type_.dtype), type_)
        except (ValueError, OverflowError) as error:
            raise GraphError(f"line {line}: not a tensor of type {type_text(type_)}: {error}") from None

    def _raw_elements(self) -> list[tuple[str, str]]:
        """(kind, text) of every element; brackets only show the shape, which the type states again."""
        tokens = self.tokens
        raw: list[tuple[str, str]] = []
        while tokens.text != ">" or tokens.kind != "mark":
            if tokens.kind in ("number", "string", "name"):
                raw.append((tokens.kind, tokens.advance()))
            elif tokens.text in ("[", "]", "(", ")", ","):
                tokens.advance()
            else:
                raise tokens.fail("an element")
        return raw

    def _element(self, dtype: np.dtype) -> Any:
        try:
            return element_value(self.tokens.text, dtype)
        except ValueError:
            raise self.tokens.fail(f"a number of type {dtype_name(dtype)}") from None
        finally:
            self.tokens.advance()

    def _by_digest(self, wanted: str, type_: TensorType) -> np.ndarray:
        if isinstance(self.constants, SeededConstants):
            return self.constants.make(wanted, type_)
        if wanted not in self.constants:
            raise ValueError(f"no data was given for digest {wanted}; pass it in 'constants', or SeededConstants()")
        array = self.constants[wanted]
        if array.dtype != type_.dtype or array.shape != type_.shape:
            raise ValueError(f"the data given for digest {wanted} is {array.dtype}{list(array.shape)}")
        return array


def _elements(raw: Sequence[tuple[str, str]], dtype: np.dtype) -> list[Any]:
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        numbers = [element_value(text, part) for _, text in raw]
        return [complex(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    if dtype.kind == "O":
        return [json.loads(text) for _, text in raw]
    return [element_value(text, dtype) for _, text in raw]
