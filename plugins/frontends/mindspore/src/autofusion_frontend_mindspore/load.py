"""Model file to Graph: the entry of the frontend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.frontends import DAMAGE, ConverterTable, LoadOptions, ModelError, OptionError, naming_file, nearest
from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import TensorType, Type
from autofusion_frontend_mindspore.abstract import TOKEN, Storage, leaves
from autofusion_frontend_mindspore.builder import Builder
from autofusion_frontend_mindspore.call import Call, describe, read
from autofusion_frontend_mindspore.interpreter import Interpreter, Shared
from autofusion_frontend_mindspore.literals import declared, kind_of, tensor_type
from autofusion_frontend_mindspore.program import Program
from autofusion_frontend_mindspore.proto import read_model
from autofusion_frontend_mindspore.registry import TABLE
from autofusion_frontend_mindspore.tensors import to_array


def load_model(path: Path, options: LoadOptions | None = None) -> Graph:
    """Read the model at ``path``; raise ModelError if it cannot be read, OptionError if the options do not fit it."""
    options = options or LoadOptions()
    source = read_model(path, options.key)
    # What MindSpore writes does not lead to damage; a damaged file may hold anything.
    with naming_file(path, DAMAGE):
        return _import(Program(path, source), options)


def _import(program: Program, options: LoadOptions) -> Graph:
    folder = program.folder
    parameters = {p.name: to_array(p, folder, f"parameter '{p.name}'") for p in program.main.parameter}
    converters = TABLE.extended(options.converters)
    written: set[str] = set()
    while True:
        model = _Model(program, parameters, written, converters)
        # A parameter that turns out to be written must have been an input from the start.
        if model.written <= written:
            return model.finish(options)
        written |= model.written


def short_name(name: str) -> str:
    """The name that a user gave to an input or parameter: what follows the graph's name."""
    return name.partition(":")[2] or name


class _Model:
    """The graph of the main function. Parameters in ``stateful`` are inputs with a default, and outputs."""

    def __init__(
        self, program: Program, parameters: dict[str, np.ndarray], stateful: set[str], converters: ConverterTable
    ) -> None:
        self.graph = Graph(program.main.name or program.path.stem)
        builder = Builder(self.graph)
        shared = Shared(program, builder, converters)
        self.interpreter = Interpreter(shared, builder, {})
        args = [self._input(info, builder) for info in program.main.input]
        keys = {p.name: p.ref_key or short_name(p.name) for p in program.main.parameter}
        before: dict[Storage, Value] = {}
        for name, data in parameters.items():
            storage = shared.parameters[name] = Storage(keys[name])
            before[storage] = (
                builder.input(keys[name], TensorType(data.dtype, data.shape), data)
                if name in stateful
                else builder.constant(data, keys[name])
            )
        self.state = self.interpreter.state
        self.state.update(before)
        self.result = self.interpreter.execute(program.main, args, "main")
        self.written = {n for n, s in shared.parameters.items() if self.state[s] is not before[s]}
        self.stateful = [shared.parameters[n] for n in parameters if n in stateful]

    def _input(self, info: Any, builder: Builder) -> Any:
        name = short_name(info.name)
        if info.denotation == "UMonadType" or info.denotation == "IOMonadType":
            return TOKEN
        if len(info.tensor) == 1:
            return builder.input(name, _named_dims(tensor_type(info.tensor[0]), name))
        stated = declared(info.attr_info)[0] if info.HasField("attr_info") else None
        if info.HasField("attr_info") and kind_of(info.attr_info) in ("UMONAD", "IOMONAD"):
            return TOKEN
        if not isinstance(stated, tuple) or any(not isinstance(t, TensorType) for t in leaves(stated)):
            raise ModelError(f"input '{name}' is neither a tensor nor a tuple of tensors")
        return tuple(builder.input(f"{name}.{i}", _named_dims(t, f"{name}.{i}")) for i, t in enumerate(stated))

    def finish(self, options: LoadOptions) -> Graph:
        """The graph with its outputs: those of the model, or what ``options`` name."""
        builder, state = self.interpreter.builder, self.state
        tools = Call(builder, state, "Return", "result", [], {}, None)
        if options.outputs:
            for name in options.outputs:
                value = self._named(name)
                if value is None:
                    raise OptionError(f"the model has no value '{name}' to be an output{self._nearest(name)}")
                builder.output(value, name)
        else:
            for number, leaf in enumerate(leaves(self.result)):
                value = read(leaf, state)
                if not isinstance(value, Value | bool | int | float):
                    raise ModelError(
                        f"result {number} of the model is {describe(value)}, expected a tensor or a number"
                    )
                builder.output(tools.as_tensor(value), f"out{number}")
            for storage in self.stateful:
                builder.output(state[storage], storage.key)
        if options.inputs:
            self._cut(options.inputs)
        self.graph.prune()
        for value in [v for v in self.graph.inputs if v.default is not None and not v.use_count]:
            self.graph.inputs.remove(value)
        return self.graph

    def _named(self, name: str) -> Value | None:
        inputs = {v.name: v for v in self.graph.inputs}
        return self.interpreter.named.get(name) or inputs.get(name)

    def _nearest(self, name: str) -> str:
        return nearest(name, [*self.interpreter.named, *(v.name for v in self.graph.inputs)])

    def _cut(self, names: Sequence[str]) -> None:
        """Let the values that the user names be the inputs, in that order; raise OptionError if others are needed."""
        chosen = []
        for name in names:
            value = self._named(name)
            if value is None or value.const is not None:
                raise OptionError(f"the model has no value '{name}' to be an input{self._nearest(name)}")
            if value.producer is not None:
                value.name = self.graph.unique_value_name(f"{name}/replaced")
                cut = self.graph.add_input(name, value.type)
                cut.name = name
                self.graph.replace_uses(value, cut)
                value = cut
            chosen.append(value)
        self.graph.prune()
        needed = [v.name for v in self.graph.inputs if v not in chosen and v.use_count and v.default is None]
        if needed:
            raise OptionError(f"inputs {', '.join(names)} do not suffice: the outputs also need {', '.join(needed)}")
        defaults = [v for v in self.graph.inputs if v not in chosen and v.use_count]
        self.graph.inputs[:] = chosen + defaults


def _named_dims(type_: Type | None, name: str) -> Type | None:
    """Open sizes of an input get symbols, so that equal sizes of results are seen to be equal."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return type_
    return type_.with_shape(tuple(f"{name}.{i}" if d is None else d for i, d in enumerate(type_.shape)))
