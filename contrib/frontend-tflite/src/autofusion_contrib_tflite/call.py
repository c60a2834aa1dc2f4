"""One operator of the file, as converters see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from autofusion import frontends
from autofusion.ir.graph import Graph, Value


class Call(frontends.Call):
    """One operator while it is converted; ``results`` are the element types of its results."""

    def __init__(
        self,
        graph: Graph,
        op: str,
        name: str,
        inputs: Sequence[Value | None],
        results: Sequence[np.dtype],
        options: Any,
    ) -> None:
        super().__init__(graph, op, name, inputs)
        self.results = results
        self._options = options

    @property
    def operands(self) -> list[Value]:
        """Every operand; none may be absent."""
        return [self.operand(i) for i in range(len(self.inputs))]

    def options(self, kind: str) -> Any:
        """The operator's options, of that class of the schema."""
        if self._options is None:
            self.fail("it has no options, which it needs")
        made = getattr(tflite, kind)()
        made.Init(self._options.Bytes, self._options.Pos)
        return made

    def activated(self, value: Value, code: int) -> Value:
        """``value`` behind the activation that is fused into its operator."""
        kinds = tflite.ActivationFunctionType
        if code == kinds.NONE:
            return value
        if code == kinds.RELU:
            return self.emit("Relu", value)
        if code in (kinds.RELU6, kinds.RELU_N1_TO_1):
            return self.clipped(value, *((0, 6) if code == kinds.RELU6 else (-1, 1)))
        if code == kinds.TANH:
            return self.emit("Tanh", value)
        self.fail(f"its fused activation {code} is not read")

    def clipped(self, value: Value, low: float, high: float) -> Value:
        """``value`` between two numbers."""
        return self.emit("Clip", value, self.like(low, value), self.like(high, value))
