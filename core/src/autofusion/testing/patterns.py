"""Graphs made from a rule's own pattern: random spellings of what it says that it matches.

A pattern names operators, not shapes. So shapes, constants and the free choices of the pattern (alternatives, optional
nodes, repetitions) are drawn at random, and what does not infer is thrown away: a few hundred tries take a fraction of
a second and find sites for most rules without anyone writing a graph.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autofusion.ir import operators
from autofusion.ir.graph import Graph, Value
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.ir.verify import verify
from autofusion.rules import pattern as p
from autofusion.rules.rule import RewriteRule
from autofusion.testing.attributes import values

_F32 = np.dtype(np.float32)
_CHANNELS = 4
_BASES = ((2, 4, 5, 3), (2, 4, 5), (3, 4), (4, 4), (2, 1, 3, 4), (4,), (1, 4, 6, 6))
_FIXED: dict[tuple[str, int], Sequence[tuple[int, ...]]] = {
    ("Conv", 1): ((4, 4, 3, 3), (4, 4, 1, 1), (4, 1, 3, 3), (4, 4, 3)),
    ("ConvTranspose", 1): ((4, 4, 2, 2), (4, 4, 1, 1)),
    ("MatMul", 1): ((4, 5), (4, 4), (5, 3)),
    ("Gemm", 1): ((4, 5), (4, 4), (5, 4)),
    **{(op, i): ((_CHANNELS,),) for op in ("Conv", "ConvTranspose") for i in (2,)},
    **{("BatchNormalization", i): ((_CHANNELS,),) for i in (1, 2, 3, 4)},
}
"""Shapes of operands that do not follow those of the others."""
_STATED = 0.25
"""How often an attribute is stated that the pattern does not ask about and the operator does not require."""
_INTEGERS: Sequence[Sequence[int]] = (
    [-1],
    [1],
    [0],
    [2, 3],
    [1, -1],
    [-2, -1],
    [0, 0, 1, 1, 0, 0, 1, 1],
)


class _Sample:
    """One random graph."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._base = rng.choice(_BASES)
        self._data = np.random.default_rng(rng.randrange(1 << 30))
        self._values: dict[str, Value] = {}
        self.graph = Graph("spelling")

    def of(self, root: p.Op) -> Graph:
        """A graph whose last node is the root."""
        value = self._operand(root, "", 0)
        assert value is not None and value.producer is not None
        for result in value.producer.outputs:
            self.graph.add_output(result)
        for node in self.graph.nodes:
            node.origin = (node.name,)
        infer_graph(self.graph)
        verify(self.graph)
        return self.graph

    def _operand(self, pattern: p.Operand, op: str, index: int) -> Value | None:
        if isinstance(pattern, p.Either):
            return self._operand(self._rng.choice(pattern.alternatives), op, index)
        if isinstance(pattern, p.Optional):
            inner = pattern.inner
            chosen = inner if self._rng.random() < 0.5 else inner.inputs[pattern.through]
            return self._operand(chosen, op, index)
        if isinstance(pattern, p.Repeat):
            value = self._operand(pattern.base, op, index)
            for _ in range(self._rng.randint(pattern.low, min(pattern.high, pattern.low + 2))):
                value = self._node(pattern.step, pattern.through, value)
            return value
        if isinstance(pattern, p.Op):
            return self._node(pattern)
        if isinstance(pattern, p.Var) and pattern.optional and self._rng.random() < 0.5:
            return None
        if pattern.name not in self._values:
            self._values[pattern.name] = self._leaf(pattern, op, index)
        return self._values[pattern.name]

    def _node(self, pattern: p.Op, through: int = -1, below: Value | None = None) -> Value:
        op = self._rng.choice(pattern.ops)
        operands = [below if i == through else self._operand(inner, op, i) for i, inner in enumerate(pattern.inputs)]
        schema = operators.find(op)
        least = schema.min_inputs if schema is not None else 0
        if pattern.open_inputs:
            while len(operands) < least:
                operands.append(self._leaf(p.Var(f"open{len(operands)}"), op, len(operands)))
        while len(operands) > least and operands[-1] is None:
            operands.pop()
        attrs = self._attributes(op, schema, dict(pattern.attrs))
        return self.graph.node(op, operands, attrs, outputs=pattern.result + 1).outputs[pattern.result]

    def _attributes(self, op: str, schema: operators.Operator | None, wanted: dict[str, Any]) -> dict[str, Any]:
        """Every attribute of the schema may be stated, also one that the pattern does not mention."""
        made = {}
        known = {} if schema is None else schema.attributes
        for name in {**wanted, **known}:
            value, default = wanted.get(name), known.get(name)
            open_ = name not in wanted or (callable(value) and not isinstance(value, type))
            if open_:
                needed = name in wanted or default is operators.REQUIRED
                if not needed and self._rng.random() > _STATED:
                    continue
                tried = values(op, name, len(self._base), None if default is operators.REQUIRED else default)
                if not tried and not needed:
                    continue
                value = self._rng.choice(tried or [1])
            made[name] = value
        return made

    def _leaf(self, pattern: p.Var | p.Const, op: str, index: int) -> Value:
        if isinstance(pattern, p.Const):
            return self.graph.constant(self._constant(pattern, op, index), pattern.name)
        shape = self._rng.choice(_FIXED.get((op, index), (self._base,)))
        if self._rng.random() < (0.85 if (op, index) in _FIXED else 0.15):
            return self.graph.constant(self._constant(p.Const(pattern.name), op, index), pattern.name)
        return self.graph.add_input(pattern.name, TensorType(_F32, shape))

    def _constant(self, pattern: p.Const, op: str, index: int) -> np.ndarray:
        if pattern.equals is not None:
            return np.asarray(pattern.equals, _F32)
        if self._rng.random() < 0.2:
            return np.asarray(self._rng.choice(_INTEGERS), np.int64)
        base = self._base
        channels = base[1] if len(base) > 1 else base[0]
        shapes: list[tuple[int, ...]] = [(), (1,), (channels,), base[-1:], (channels, *(1,) * (len(base) - 2))]
        data = self._data.uniform(0.5, 1.5, self._rng.choice(_FIXED.get((op, index), shapes)))
        return np.asarray(data, _F32)


def graphs_of(rule: RewriteRule, tries: int = 300, seed: int = 0) -> Iterator[Graph]:
    """Graphs that have the operators of the rule's pattern; whether it fires on them is for the caller to find out."""
    rng = random.Random(f"{rule.name}/{seed}")
    roots = p.roots_of(rule.pattern)
    for _ in range(tries):
        try:
            yield _Sample(rng).of(rng.choice(roots))
        except Exception:  # shapes or attributes that do not go together: try others
            continue
