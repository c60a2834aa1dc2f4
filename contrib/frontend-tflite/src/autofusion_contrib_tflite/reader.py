"""From the FlatBuffer to a graph: tensors, operators in order, and the converters that know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from autofusion.frontends import ConverterTable, ModelError, Origins, UnsupportedOperatorError, naming_node, nearest
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion_contrib_tflite.call import Call
from autofusion_contrib_tflite.schema import DTYPES, OPERATORS


class Reader:
    """One model. ``inputs`` and ``outputs`` map names (of the signature, or else of the tensors) to tensor numbers."""

    def __init__(self, content: bytes, converters: ConverterTable) -> None:
        self._converters = converters
        self._origins = Origins()
        self._model = tflite.Model.GetRootAsModel(content, 0)
        if self._model.SubgraphsLength() < 1:
            raise ModelError("the model has no subgraph")
        self._subgraph = self._model.Subgraphs(0)
        self.inputs = self._named("Inputs")
        self.outputs = self._named("Outputs")
        self.graph_ = Graph(self._text(self._subgraph.Name()) or "main")
        self._values: dict[int, Value] = {}

    # ---- the file -------------------------------------------------------------------------------------------------

    def _text(self, raw: bytes | None) -> str:
        return (raw or b"").decode("utf-8")

    def _named(self, which: str) -> dict[str, int]:
        count = getattr(self._subgraph, f"{which}Length")()
        numbers = [int(getattr(self._subgraph, which)(i)) for i in range(count)]
        names: dict[int, str] = {}
        if self._model.SignatureDefsLength() == 1:
            signature = self._model.SignatureDefs(0)
            for i in range(getattr(signature, f"{which}Length")()):
                entry = getattr(signature, which)(i)
                names[entry.TensorIndex()] = self._text(entry.Name())
        return {names.get(n) or self.name(n): n for n in numbers}

    def tensor(self, number: int) -> Any:
        """The tensor's entry."""
        if not 0 <= number < self._subgraph.TensorsLength():
            raise ModelError(f"tensor {number} does not exist; there are {self._subgraph.TensorsLength()}")
        return self._subgraph.Tensors(number)

    def name(self, number: int) -> str:
        """The tensor's name."""
        return self._text(self.tensor(number).Name()) or f"tensor{number}"

    def type(self, number: int) -> TensorType:
        """The tensor's type; dims that the file leaves open are symbols."""
        tensor = self.tensor(number)
        if tensor.Type() not in DTYPES:
            raise ModelError(f"tensor '{self.name(number)}' is of element type {tensor.Type()}, which is not read")
        open_ = tensor.ShapeSignatureLength() == tensor.ShapeLength() and tensor.ShapeSignatureLength() > 0
        dims = [int(tensor.ShapeSignature(i) if open_ else tensor.Shape(i)) for i in range(tensor.ShapeLength())]
        shape = tuple(d if d >= 0 else ("N" if axis == 0 else f"d{axis}") for axis, d in enumerate(dims))
        return TensorType(DTYPES[tensor.Type()], shape)

    def _data(self, number: int) -> np.ndarray | None:
        tensor = self.tensor(number)
        buffer = self._model.Buffers(tensor.Buffer())
        if buffer is None or not buffer.DataLength():
            return None
        dtype = self.type(number).dtype
        shape = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
        return np.frombuffer(buffer.DataAsNumpy().tobytes(), dtype).reshape(shape)

    # ---- the graph ------------------------------------------------------------------------------------------------

    def graph(self, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """The graph between these values, by default between the model's inputs and outputs."""
        known = {self.name(n): n for n in range(self._subgraph.TensorsLength())} | self.inputs | self.outputs
        for name in (*inputs, *outputs):
            if name not in known:
                raise ModelError(f"there is no value '{name}'{nearest(name, known)}")
        for name in inputs or self.inputs:
            self._values[known[name]] = self.graph_.add_input(name, self.type(known[name]))
        for index in range(self._subgraph.OperatorsLength()):
            self._operator(self._subgraph.Operators(index))
        for name in outputs or self.outputs:
            self.graph_.add_output(self.value(known[name]), name)
        self.graph_.prune()
        infer_graph(self.graph_)
        return self.graph_

    def value(self, number: int) -> Value:
        """The value of a tensor: computed already, or stored in the file."""
        if number not in self._values:
            data = self._data(number)
            if data is None:
                raise ModelError(f"tensor '{self.name(number)}' is used before it is computed, and has no data")
            self._values[number] = self.graph_.constant(data, self.name(number))
        return self._values[number]

    def _operator(self, operator: Any) -> None:
        results = [int(operator.Outputs(i)) for i in range(operator.OutputsLength())]
        if all(n in self._values for n in results):
            return  # the caller feeds these values
        kind, name = self._kind(operator), self.name(results[0])
        function = self._converters.find(kind)
        if function is None:
            raise self._converters.unknown(self._unknown())
        numbers = [int(operator.Inputs(i)) for i in range(operator.InputsLength())]
        for number in (*numbers, *results):
            if number >= 0 and kind not in ("DEQUANTIZE", "QUANTIZE") and self._is_quantised(number):
                raise UnsupportedOperatorError(
                    f"operator '{kind}' of '{name}' works on the quantised tensor '{self.name(number)}'; "
                    "only floating-point models are read"
                )
        operands = [self.value(n) if n >= 0 else None for n in numbers]
        dtypes = [self.type(n).dtype for n in results]
        call = Call(self.graph_, kind, self._origins.unique(name), operands, dtypes, operator.BuiltinOptions())
        with naming_node(call.label):
            made = function(call)
        values = [made] if isinstance(made, Value) else made
        call.name_results(values, [self.name(n) for n in results])
        self._values.update(zip(results, values, strict=True))

    def _kind(self, operator: Any) -> str:
        code = self._model.OperatorCodes(operator.OpcodeIndex())
        # Codes beyond 127 did not fit the field that older files have.
        kind = OPERATORS.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "CUSTOM")
        return (self._text(code.CustomCode()) or kind) if kind == "CUSTOM" else kind

    def _unknown(self) -> list[tuple[str, str]]:
        """(operator, name) of everything in the file that has no converter."""
        operators = [self._subgraph.Operators(i) for i in range(self._subgraph.OperatorsLength())]
        return [
            (self._kind(o), self.name(o.Outputs(0))) for o in operators if self._converters.find(self._kind(o)) is None
        ]

    def _is_quantised(self, number: int) -> bool:
        quantisation = self.tensor(number).Quantization()
        return quantisation is not None and quantisation.ScaleLength() > 0 and self.type(number).dtype.kind in "iu"
