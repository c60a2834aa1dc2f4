"""Graph to ONNX model: standard operators only, so that any other tool can take what was folded and recomposed here.

A fused region becomes a model-local function whose body says what it means (or its body in place). What bodies of
control flow take as operands becomes names of the graph around them again, as ONNX has it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from autofusion.files import replacing, write_bytes
from autofusion.frontends import ModelError
from autofusion.ir.graph import FUSED, NOT_CONVERTED, Graph, Node, Value
from autofusion_frontend_onnx.operators import DOMAIN_VERSION
from autofusion_frontend_onnx.opset import LOWEST, lowest_opset
from autofusion_frontend_onnx.proto import type_proto
from autofusion_frontend_onnx.schemas import schema
from autofusion_frontend_onnx.write_attributes import attribute, tensor

FUNCTION_DOMAIN = "autofusion.fused"
_INSIDE_LIMIT = 1 << 30
"""Bytes of constants above which they are written beside the model: a protobuf message ends at twice that."""
_ALIGNMENT = 4096
_SMALL = 1024


def export_model(graph: Graph, path: Path, inline: bool = False, opset: int | None = None) -> None:
    """Write ``graph`` to ``path``; raise ModelError if it says something that ONNX cannot.

    ``inline`` writes fused regions as plain nodes. ``opset`` is the default operator set to declare: the lowest that
    has every node's meaning if it is not given.
    """
    writer = _Writer(inline, opset or max([LOWEST, *map(lowest_opset, _all_nodes(graph))]))
    model = writer.model(graph)
    large = [t for t in model.graph.initializer if len(t.raw_data) >= _SMALL]
    if sum(len(t.raw_data) for t in large) <= _INSIDE_LIMIT:
        with _complete_types(model):
            _check(model, graph)
        write_bytes(path, model.SerializeToString())
        return
    # The old files stay whole until the new ones are: the model may be read from them, or exported to itself.
    with tempfile.TemporaryDirectory(prefix=".", suffix=".tmp", dir=path.parent) as name:
        whole, beside = Path(name) / "model.onnx", Path(name) / (_utf8(path.name) + ".data")
        _move_out(large, beside)
        with _complete_types(model):
            whole.write_bytes(model.SerializeToString())
            _check(str(whole), graph)
        with replacing(path) as part:
            part.write_bytes(model.SerializeToString())
            beside.replace(path.with_name(beside.name))


def _move_out(tensors: Sequence[onnx.TensorProto], beside: Path) -> None:
    """Write the data of ``tensors`` to a file, and say there where it is."""
    with beside.open("wb") as file:
        for one in tensors:
            file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
            start, data = file.tell(), one.raw_data
            file.write(data)
            one.ClearField("raw_data")
            one.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", beside.name), ("offset", start), ("length", len(data))):
                one.external_data.add(key=key, value=str(value))


def _utf8(name: str) -> str:
    """A file name as a model may say it."""
    return name.encode("utf-8", "replace").decode("utf-8")


@contextmanager
def _complete_types(model: onnx.ModelProto) -> Iterator[None]:
    """The checker wants a type and a rank of every input and output; runtimes do not, and here they may be unknown."""
    infos = [v for v in (*model.graph.input, *model.graph.output) if not _has_rank(v.type)]
    kept = [onnx.TypeProto.FromString(v.type.SerializeToString()) for v in infos]
    stated = [v.HasField("type") for v in infos]
    for info in infos:
        tensor_type = info.type.tensor_type
        tensor_type.elem_type = tensor_type.elem_type or onnx.TensorProto.FLOAT
        tensor_type.shape.SetInParent()
    yield
    for info, type_, was in zip(infos, kept, stated, strict=True):
        info.ClearField("type")
        if was:
            info.type.CopyFrom(type_)


def _has_rank(type_: onnx.TypeProto) -> bool:
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return True
    return kind == "tensor_type" and type_.tensor_type.HasField("shape")


def _check(model: onnx.ModelProto | str, graph: Graph) -> None:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise ModelError(f"graph '{graph.name}' cannot be written as a valid ONNX model: {error}") from error


def _all_nodes(graph: Graph) -> list[Node]:
    """The ordinary nodes of the graph, of all bodies too."""
    found: list[Node] = []
    stack = [graph]
    while stack:
        for node in stack.pop().nodes:
            stack.extend(v for v in node.attrs.values() if isinstance(v, Graph))
            if node.op != FUSED:
                found.append(node)
    return found


@dataclass(slots=True)
class _Names:
    """The names of one namespace: the model with its bodies, or one function."""

    of: dict[Value, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    constants: dict[int, tuple[str, np.ndarray]] = field(default_factory=dict)

    def new(self, value: Value, wanted: str = "") -> str:
        """A name for ``value`` that nothing has yet."""
        self.of[value] = _free(wanted or value.name or "value", self.taken)
        return self.of[value]

    def constant(self, value: Value) -> str:
        """The name of a constant; equal arrays that are one object are one initialiser."""
        assert value.const is not None
        entry = self.constants.get(id(value.const))
        if entry is None:
            entry = _free(value.name or "constant", self.taken), value.const
            self.constants[id(value.const)] = entry
        return entry[0]


def _free(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 0
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name


class _Writer:
    def __init__(self, inline: bool, opset: int) -> None:
        self.inline = inline
        self.opset = opset
        self.domains: dict[str, int] = {"": opset}
        self.functions: list[onnx.FunctionProto] = []
        self.function_names: set[str] = set()

    # ---- the model -----------------------------------------------------------------------------------------

    def model(self, graph: Graph) -> onnx.ModelProto:
        """The whole model, constants inside."""
        graph.sort()
        names = _Names()
        names.taken.update(graph.output_names)
        made = onnx.GraphProto(name=graph.name or "graph")
        for value in graph.inputs:
            names.of[value] = value.name
            names.taken.add(value.name)
            info = made.input.add(name=value.name)
            if value.type is not None:
                info.type.CopyFrom(type_proto(value.type))
            if value.default is not None:
                made.initializer.append(tensor(value.default, value.name))
        last = []
        inputs = {value.name: value for value in graph.inputs}
        for value, stated in zip(graph.outputs, graph.output_names, strict=True):
            # State that a run hands on has one name before and after it; ONNX has one value to a name.
            name = stated if inputs.get(stated, value) is value else _free(f"{stated}_out", names.taken)
            if value not in names.of and value.const is None:
                names.of[value] = name
            if names.of.get(value) != name:
                last.append((value, name))
            info = onnx.ValueInfoProto(name=name)
            if name != stated:
                info.doc_string = f"'{stated}' after the run"
            if value.type is not None:
                info.type.CopyFrom(type_proto(value.type))
            made.output.append(info)
        made.node.extend(self.nodes(graph, names))
        made.node.extend(self._identity(names, value, name) for value, name in last)
        made.initializer.extend(tensor(array, name) for name, array in names.constants.values())
        imports = [helper.make_opsetid(d, v) for d, v in sorted(self.domains.items())]
        model = helper.make_model(made, opset_imports=imports, functions=self.functions, producer_name="autofusion")
        model.ir_version = max(helper.find_min_ir_version_for(imports, ignore_unknown=True), _ir_version(names), 8)
        return model

    # ---- nodes ---------------------------------------------------------------------------------------------

    def nodes(self, graph: Graph, names: _Names) -> list[onnx.NodeProto]:
        """The nodes of ``graph``, whose inputs have their names already."""
        made: list[onnx.NodeProto] = []
        for node in graph.nodes:
            if node.op == FUSED and self.inline:
                made.extend(self._in_place(node, names))
            elif node.op == FUSED:
                made.append(self._call(node, names))
            else:
                made.append(self._plain(node, names))
        return made

    def _plain(self, node: Node, names: _Names) -> onnx.NodeProto:
        domain, _, op = node.op.rpartition("::")
        found = None if domain else schema(op, self.opset)
        if not domain and found is None:
            raise ModelError(f"{node.label} cannot be written to ONNX: operator set {self.opset} has no '{op}'")
        if domain:
            self._import(node, domain)
        count = len(node.inputs) - int(node.attrs.get("captures", 0))
        captured = [self._read(v, names) for v in node.inputs[count:]]
        attributes = []
        for name, value in node.attrs.items():
            if name in ("captures", DOMAIN_VERSION, NOT_CONVERTED) or value is None:
                continue
            said = found.attributes.get(name) if found is not None else None
            if found is not None and said is None:
                raise ModelError(f"{node.label} cannot be written to ONNX: '{op}' has no attribute '{name}' there")
            kind = None if said is None else said.type.value
            attributes.append(attribute(name, value, kind, lambda body: self._body(body, captured, names), node.label))
        made = self._node(op, domain, [self._read(v, names) for v in node.inputs[:count]], node, names)
        made.attribute.extend(attributes)
        return made

    def _import(self, node: Node, domain: str) -> None:
        version = int(node.attrs.get(DOMAIN_VERSION, 1))
        if self.domains.setdefault(domain, version) != version:
            raise ModelError(
                f"{node.label} needs version {version} of domain '{domain}', and another node version "
                f"{self.domains[domain]}; ONNX has one version of a domain in a model"
            )

    def _node(self, op: str, domain: str, inputs: Sequence[str], node: Node, names: _Names) -> onnx.NodeProto:
        outputs = [names.of[v] if v in names.of else names.new(v) for v in node.outputs]
        inputs = list(inputs)
        least = schema(op, self.opset).min_input if not domain else 0  # type: ignore[union-attr]
        while len(inputs) > least and not inputs[-1]:
            inputs.pop()
        return helper.make_node(op, inputs, outputs, _free(node.name, names.nodes), domain=domain)

    def _read(self, value: Value | None, names: _Names) -> str:
        if value is None:
            return ""
        return names.constant(value) if value.const is not None else names.of[value]

    def _identity(self, names: _Names, value: Value, name: str) -> onnx.NodeProto:
        return helper.make_node("Identity", [self._read(value, names)], [name], _free(f"{name}/Identity", names.nodes))

    def _body(self, body: Graph, captured: Sequence[str], names: _Names) -> onnx.GraphProto:
        body.sort()
        made = onnx.GraphProto(name=body.name or "body")
        explicit = len(body.inputs) - len(captured)
        for value in body.inputs[:explicit]:
            info = made.input.add(name=names.new(value))
            if value.type is not None:
                info.type.CopyFrom(type_proto(value.type))
        names.of.update(zip(body.inputs[explicit:], captured, strict=True))
        made.node.extend(self.nodes(body, names))
        own = {v for node in body.nodes for v in node.outputs}
        for value, wanted in zip(body.outputs, body.output_names, strict=True):
            name = names.of.get(value, "")
            if value in own:
                own.remove(value)  # a value that is returned twice is copied the second time
            else:
                name = _free(wanted or "result", names.taken)
                made.node.append(self._identity(names, value, name))
            info = made.output.add(name=name)
            if value.type is not None:
                info.type.CopyFrom(type_proto(value.type))
        return made

    # ---- fused regions -------------------------------------------------------------------------------------

    def _in_place(self, node: Node, names: _Names) -> list[onnx.NodeProto]:
        body = node.body
        body.sort()
        names.of.update({v: self._read(o, names) for v, o in zip(body.inputs, node.inputs, strict=True)})
        own = {v for inner in body.nodes for v in inner.outputs}
        copies = []
        for result, value in zip(node.outputs, body.outputs, strict=True):
            if value in own:
                own.remove(value)
                names.of[value] = names.of[result] if result in names.of else names.new(result)
            else:
                copies.append((value, names.of[result] if result in names.of else names.new(result)))
        made = self.nodes(body, names)
        return made + [self._identity(names, value, name) for value, name in copies]

    def _call(self, node: Node, names: _Names) -> onnx.NodeProto:
        body, inner = node.body, _Names()
        body.sort()
        name = _free(f"{node.attr('kind', 'region')}_{len(self.functions)}", self.function_names)
        formals = [inner.new(v) for v in body.inputs]
        nodes = self.nodes(body, inner)
        own = {v for made in body.nodes for v in made.outputs}
        results = []
        for value, wanted in zip(body.outputs, body.output_names, strict=True):
            if value in own:
                own.remove(value)
                results.append(inner.of[value])
            else:
                results.append(_free(wanted or "result", inner.taken))
                nodes.append(self._identity(inner, value, results[-1]))
        # A function has no initialisers: its constants are operands.
        constants = list(inner.constants.values())
        formals += [formal for formal, _ in constants]
        domains = {n.domain for n in nodes} | {""}
        function = helper.make_function(
            FUNCTION_DOMAIN,
            name,
            formals,
            results,
            nodes,
            [helper.make_opsetid(d, self.domains[d]) for d in sorted(domains)],
        )
        function.doc_string = f"{', '.join(node.origin)} ({node.attr('rule', '')})"
        self.functions.append(function)
        self.domains.setdefault(FUNCTION_DOMAIN, 1)
        operands = [self._read(v, names) for v in node.inputs]
        operands += [names.constant(Value(f"{node.name}/{formal}", const=array)) for formal, array in constants]
        return self._node(name, FUNCTION_DOMAIN, operands, node, names)


def _ir_version(names: _Names) -> int:
    """The first file format version that has the element types of the constants."""
    versions: dict[str, int] = {"int4": 10, "uint4": 10, "float4_e2m1fn": 11, "float8_e8m0fnu": 12}
    kinds: set[Any] = {array.dtype.name for _, array in names.constants.values()}
    return max(
        (versions.get(k, 9 if k.startswith("float8") else 13 if k in ("int2", "uint2") else 8) for k in kinds),
        default=8,
    )
