"""Runs a MindIR's function graphs on abstract values; what they do to tensors becomes the IR graph.

Calls are followed where they happen, so that tuples, closures and storage never reach the IR. Side effects are run in
the order of the nodes, which are sorted, monads included: a read gives what the last write before it wrote.

This module, ``branches``, ``loops`` and ``plumbing`` import each other inside functions: together they are one
recursive evaluator, in which a call meets a branch, that meets a loop, that calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion.frontends import DAMAGE, ConverterTable, ModelError, Origins, ShapeError, naming_node
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import merge_types
from autofusion.ir.types import TensorType
from autofusion_frontend_mindspore.abstract import TOKEN, Choice, Closure, Declared, Jump, ScalarType, Storage, leaves
from autofusion_frontend_mindspore.builder import Builder
from autofusion_frontend_mindspore.call import Call, describe
from autofusion_frontend_mindspore.literals import declared
from autofusion_frontend_mindspore.plumbing import PLUMBING
from autofusion_frontend_mindspore.program import REFERENCE, Program

if TYPE_CHECKING:
    from autofusion_frontend_mindspore.loops import Loop

_DEEPEST = 100


@dataclass(slots=True)
class Shared:
    """What the interpreters of all graphs of one model share."""

    program: Program
    root: Builder
    converters: ConverterTable
    parameters: dict[str, Storage] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    origins: Origins = field(default_factory=Origins)
    views: set[Value] = field(default_factory=set)
    """Tensors that share the storage of another one of another shape."""


class Interpreter:
    """Runs function graphs into the graph of ``builder``. ``loops`` are those that it is inside of."""

    def __init__(
        self,
        shared: Shared,
        builder: Builder,
        state: dict[Storage, Value],
        loops: tuple[Loop, ...] = (),
        depth: int = 0,
    ) -> None:
        self.shared = shared
        self.program = shared.program
        self.builder = builder
        self.state = state
        self.loops = loops
        self.depth = depth
        self.named: dict[str, Value] = {}
        """Results of the main graph's nodes, by the names that reports use."""

    def child(self, name: str, loops: tuple[Loop, ...] | None = None) -> Interpreter:
        """One that builds a body, beginning with the present state."""
        builder = Builder(Graph(name), self.builder)
        return Interpreter(
            self.shared, builder, dict(self.state), self.loops if loops is None else loops, self.depth + 1
        )

    # ---- calls ---------------------------------------------------------------------------------------------

    def call(self, callee: Any, args: Sequence[Any], origin: str) -> Any:
        """Call a closure, or whichever of several the run chooses."""
        from autofusion_frontend_mindspore.branches import call_choice

        if isinstance(callee, Closure):
            return self.call_graph(callee.graph, (*callee.given, *args), origin)
        if isinstance(callee, Choice):
            return call_choice(self, callee, args, origin)
        raise ModelError(f"node '{origin}' calls {describe(callee)}, which is not a function")

    def call_graph(self, name: str, args: tuple[Any, ...], origin: str) -> Any:
        """Call a function graph: follow it, begin a loop at one that calls itself, or go on with one that runs."""
        from autofusion_frontend_mindspore.loops import run_loop

        headers = [loop.header for loop in self.loops]
        if name in headers:
            loop = self.loops[-1]
            return loop.again(self, args) if loop.header == name else loop.leave(self, Closure(name, args))
        if self.program.reaches(name, name, headers):
            return run_loop(self, name, args, origin)
        return self.execute(self.program.functions[name], args, origin)

    def execute(self, graph: Any, args: Sequence[Any], origin: str = "") -> Any:
        """Run the nodes of a graph; return its result, several outputs as a tuple."""
        if self.depth > _DEEPEST:
            raise ModelError(f"graph '{graph.name}' is called from more than {_DEEPEST} levels of calls and bodies")
        if len(args) != len(graph.input):
            raise ModelError(
                f"node '{origin}' calls graph '{graph.name}' with {len(args)} operands, expected {len(graph.input)}"
            )
        frame: dict[str, Any] = {info.name: arg for info, arg in zip(graph.input, args, strict=True)}
        self.depth += 1
        for node in graph.node:
            if len(node.output) != 1:
                raise ModelError(
                    f"node '{node.name}' of graph '{graph.name}' has {len(node.output)} results, expected 1"
                )
            if node.op_type != "Constant":
                frame[node.output[0]] = self._node(node, frame)
        self.depth -= 1
        results = tuple(self._lookup(info.name, frame, f"the result of graph '{graph.name}'") for info in graph.output)
        return results[0] if len(results) == 1 else results

    # ---- nodes ---------------------------------------------------------------------------------------------

    def _lookup(self, name: str, frame: dict[str, Any], reader: str) -> Any:
        if name in frame:
            return frame[name]
        if name in self.shared.parameters:
            return self.shared.parameters[name]
        if name in self.program.functions:
            return Closure(name)
        if name in self.program.constants:
            if name not in self.shared.constants:
                self.shared.constants[name] = self._constant(self.program.constant(name), name)
            return self.shared.constants[name]
        raise ModelError(f"{reader} reads '{name}', which no node, input or parameter before it defines")

    def _constant(self, value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray):
            return self.shared.root.constant(value, name)
        if isinstance(value, tuple):
            return tuple(self._constant(item, name) for item in value)
        return value

    def _node(self, node: Any, frame: dict[str, Any]) -> Any:
        name = self.program.label(node)
        args = [self._lookup(n, frame, f"node '{name}'") for n in node.input]
        target = node.op_type.removeprefix(REFERENCE)
        if node.op_type.startswith(REFERENCE) and target not in self.program.primitives:
            return self.call(self._lookup(target, frame, f"node '{name}'"), args, name)
        if target not in self.program.primitives:
            raise ModelError(
                f"node '{name}' ({target}) is written as MindSpore 1 did, with its attributes beside it; "
                "export the network again with MindSpore 2.7 or newer"
            )
        op, attrs = self.program.primitives[target].op_type, self.program.attributes(target)
        plumb = PLUMBING.get(op)
        if plumb is not None:
            return plumb(self, args, attrs, name)
        name = self.shared.origins.unique(name)
        stated, key = next((declared(a) for a in node.attribute if a.name == "shape"), (None, ""))
        return self._primitive(op, name, args, attrs, stated, key, frame, node.input)

    def _primitive(
        self,
        op: str,
        name: str,
        args: Sequence[Any],
        attrs: dict[str, Any],
        stated: Declared,
        key: str,
        frame: dict[str, Any],
        names: Sequence[str],
    ) -> Any:
        for arg in args:
            if isinstance(arg, Jump):
                raise ModelError(
                    f"node '{name}' ({op}) uses the result of a call by which graph '{arg.loop}' calls itself; "
                    "only loops can be read, not recursion in general"
                )
        kept = [(arg, source) for arg, source in zip(args, names, strict=True) if arg is not TOKEN]
        call = Call(self.builder, self.state, op, name, [arg for arg, _ in kept], attrs, stated)
        with naming_node(call.label, (Exception,) if self.shared.converters.is_added(op) else DAMAGE):
            function = self.shared.converters.find(op)
            if function is None:
                table = self.shared.converters
                found = self.program.unknown_nodes(lambda o: o in PLUMBING or table.find(o) is not None)
                raise table.unknown(found or [(op, name)])
            result = conform(call, function(call), stated)
        self._rename(result, name)
        return self._stored(call, result, key, frame, [source for _, source in kept])

    def _rename(self, result: Any, name: str) -> None:
        """Let the results have the name that reports use for the node, and further ones a number after it."""
        for number, value in enumerate(leaves(result)):
            wanted = f"{name}.{number}" if number else name
            if not isinstance(value, Value):
                continue
            if value.producer is not None and name in value.producer.origin and value.name != wanted:
                value.name = self.builder.graph.unique_value_name(wanted)
            if self.builder is self.shared.root:
                self.named.setdefault(wanted, value)

    def _stored(
        self,
        call: Call,
        result: Any,
        key: str,
        frame: dict[str, Any],
        names: Sequence[str],
    ) -> Any:
        """Let a result that has a storage be that storage, and names that an operation modified in place follow it."""
        if call.modifies is not None:
            target = call.raw[call.modifies]
            if isinstance(target, Storage):
                return target
            if target in self.shared.views:
                call.fail("it modifies a view of another tensor in place, which cannot be read")
            stored = Storage(key or names[call.modifies])
            self.state[stored] = result
            frame[names[call.modifies]] = stored
            return stored
        if not key or not isinstance(result, Value):
            return result
        if any(isinstance(arg, Storage) and arg.key == key for arg in call.raw):
            self.shared.views.add(result)
            return result
        stored = Storage(key)
        self.state[stored] = result
        return stored


def conform(call: Call, result: Any, stated: Declared) -> Any:
    """The result with the element type and shape that the node declares; raise ModelError if they contradict."""
    if isinstance(stated, tuple) and isinstance(result, tuple):
        if len(stated) != len(result):
            call.fail(f"it declares {len(stated)} results, but has {len(result)}")
        return tuple(conform(call, r, s) for r, s in zip(result, stated, strict=True))
    if isinstance(result, Value) and isinstance(stated, TensorType | ScalarType):
        result = call.cast(result, stated.dtype)
        if isinstance(stated, TensorType) and result.const is None:
            try:
                result.type = merge_types(result.type, stated)
            except ShapeError as error:
                call.fail(f"its result is declared {stated}, but computed as {result.type} ({error})")
    return result
