"""Makes random graphs with their values: every node is evaluated by the reference kernels as it is added.

Knowing the values steers the generator: what would be too large, or nothing but NaN, is taken back. Knowing the types
lets a move ask for what it needs. Everything follows from one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_node
from autofusion.ir.types import of_array
from autofusion.testing.numbers import with_specials
from autofusion_kernels_reference.evaluate import evaluate

MOST_ELEMENTS = 20_000
LARGEST = 1e6

F32 = np.dtype(np.float32)
I64 = np.dtype(np.int64)


class Skip(Exception):
    """A move does not apply here; whatever it added so far stays, unused."""


class Make:
    """A graph in the making. ``pool`` are the values that moves choose operands from."""

    def __init__(self, rng: np.random.Generator, *, parent: Make | None = None, specials: bool = False) -> None:
        self.rng = rng
        self.graph = Graph("fuzz")
        self.data: dict[Value, Any] = {}
        self.pool: list[Value] = []
        self.parent = parent
        self.specials = specials
        self.captures: list[Value] = []
        """Values of the graph around that a body takes, in the order of its inputs."""

    # ---- chance --------------------------------------------------------------------------------------------------

    def maybe(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def choose(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def int(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def array(self, shape: Sequence[int], dtype: np.dtype = F32) -> np.ndarray:
        if dtype.kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape)).astype(bool)
        if dtype.kind in "iu":
            return np.asarray(self.rng.integers(-5 if dtype.kind == "i" else 0, 9, shape)).astype(dtype)
        return np.asarray(self.rng.standard_normal(shape)).astype(dtype)

    # ---- values --------------------------------------------------------------------------------------------------

    def input(self, data: np.ndarray, name: str = "x", default: np.ndarray | None = None) -> Value:
        value = self.graph.add_input(name, of_array(data), default)
        self.data[value] = data
        return value

    def const(self, data: Any, dtype: np.dtype = F32, *, fixed: bool = False) -> Value:
        """A constant; now and then an input with a stored value, which may be overridden."""
        array = np.asarray(data, dtype)
        if not fixed and self.parent is None and self.maybe(0.03):
            fed = array if self.maybe(0.5) or array.dtype.kind != "f" else array + self.array(array.shape, array.dtype)
            return self.input(np.asarray(fed, dtype), "stored", default=array)
        value = self.graph.constant(array, "c")
        self.data[value] = array
        return value

    def ints(self, *numbers: int) -> Value:
        return self.const(np.array(numbers, np.int64), I64, fixed=True)

    def shape(self, value: Value) -> tuple[int, ...]:
        return value.tensor.static_shape

    def dtype(self, value: Value) -> np.dtype:
        return value.tensor.dtype

    def is_float(self, value: Value) -> bool:
        return self.dtype(value).name in ("float32", "float64", "float16")

    def op(self, op: str, *operands: Value | None, outputs: int = 1, **attrs: Any) -> Value:
        """Add a node; return its first result. Skip if the operands do not fit or the results are unfit to go on."""
        return self.ops(op, *operands, outputs=outputs, **attrs)[0]

    def ops(self, op: str, *operands: Value | None, outputs: int = 1, **attrs: Any) -> list[Value]:
        node = self.graph.node(op, operands, attrs, outputs=outputs, origin=(f"{op.lower()}{len(self.graph)}",))
        try:
            infer_node(node, bodies=True)
            results = evaluate(node, [None if v is None else self.data[v] for v in operands])
        except AutofusionError as error:
            self.graph.remove(node)
            raise Skip(str(error)) from error
        if any(self._unfit(r) for r in results):
            self.graph.remove(node)
            raise Skip("unfit")
        for value, result in zip(node.outputs, results, strict=True):
            # Where only the data tells the shape, the graph stays without it, and so does the pool.
            self.data[value] = result
        return list(node.outputs)

    def _unfit(self, result: Any) -> bool:
        if not isinstance(result, np.ndarray):
            return True
        if result.size > MOST_ELEMENTS or result.ndim > 6:
            return True
        if result.dtype.kind != "f" or not result.size:
            return False
        finite = np.isfinite(result)
        if not self.specials and not finite.all():
            return True
        return not finite.any() or float(np.abs(result[finite]).max()) > (6e4 if result.itemsize < 4 else LARGEST)

    # ---- the pool ------------------------------------------------------------------------------------------------

    def keep(self, *values: Value) -> None:
        """Offer values to further moves (those of known, static shape)."""
        from autofusion.ir.types import TensorType

        for value in values:
            if isinstance(value.type, TensorType) and value.type.is_static and value not in self.pool:
                self.pool.append(value)

    def pick(self, wanted: Callable[[Value], bool] = lambda value: True, *, recent: float = 0.7) -> Value:
        """A value of the pool, most likely a recent one; Skip if none is wanted."""
        found = [v for v in self.pool if wanted(v)]
        if not found:
            raise Skip("no such value")
        return found[-1] if self.maybe(recent) else found[self.int(0, len(found) - 1)]

    def pick_float(self, rank: int | None = None, least: int = 0) -> Value:
        return self.pick(
            lambda v: self.is_float(v) and (rank is None or len(self.shape(v)) == rank) and len(self.shape(v)) >= least
        )

    def like(self, value: Value, *, recent: float = 0.3) -> Value:
        """Another value of the same type."""
        return self.pick(lambda v: v is not value and v.type == value.type, recent=recent)

    # ---- the end -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Choose outputs: what nobody uses, and now and then an intermediate, an input, or one value twice."""
        graph = self.graph
        loose = [v for v in self.pool if not v.use_count and v.producer is not None]
        if not loose:
            raise Skip("nothing to return")
        chosen = loose if self.maybe(0.5) else loose[-self.int(1, 3) :]
        inner = [v for v in self.pool if v.use_count and v.producer is not None]
        chosen = [*chosen, *(v for v in inner if self.maybe(0.12))]
        if self.maybe(0.03):
            chosen.append(chosen[0])
        if self.maybe(0.03) and graph.inputs:
            chosen.append(graph.inputs[0])
        for number, value in enumerate(chosen):
            graph.add_output(value, f"y{number}")
        graph.prune()
        graph.sort()

    @property
    def feeds(self) -> dict[str, Any]:
        return {v.name: self.data[v] for v in self.graph.inputs}

    def inject_specials(self) -> None:
        """NaN, infinities and zeros of both signs among the inputs made so far; before any node is made."""
        for value in self.graph.inputs:
            self.data[value] = with_specials(self.data[value], self.int(0, 1000))


def nodes_of(graph: Graph) -> list[Node]:
    """All nodes, those of bodies too."""
    found = []
    for node in graph.nodes:
        found.append(node)
        for attribute in node.attrs.values():
            if isinstance(attribute, Graph):
                found += nodes_of(attribute)
    return found
