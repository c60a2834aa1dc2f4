"""Control flow in random graphs: bodies are made as graphs are, and capture values of the graph around them."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Graph, Value
from autofusion.ir.types import of_array
from tests.fuzz.fuzz_make import F32, I64, Make, Skip
from tests.fuzz.fuzz_moves import MOVES, move

BOOL = np.dtype(bool)


def _body(m: Make, leading: list[tuple[str, np.ndarray]], captured: list[Value]) -> tuple[Make, list[Value]]:
    inner = Make(m.rng, parent=m, specials=m.specials)
    inner.graph.name = m.choose("then", "body", "b")
    values = []
    for name, data in [*leading, *((f"cap{i}", m.data[v]) for i, v in enumerate(captured))]:
        value = inner.graph.add_input(name, of_array(np.asarray(data)))
        inner.data[value] = np.asarray(data)
        values.append(value)
    inner.keep(*values)
    return inner, values


def _grow(inner: Make, count: int) -> None:
    kinds = MOVES["any"] + MOVES["rows"]
    for _ in range(count):
        try:
            inner.choose(*kinds)(inner)
        except Skip:
            continue


def _captured(m: Make) -> list[Value]:
    found = [m.pick(lambda v: v.dtype == F32) for _ in range(m.int(1, 2))]
    return list(dict.fromkeys(found))


def _done(inner: Make) -> Graph:
    inner.graph.sort()
    return inner.graph


def _as_shape(inner: Make, value: Value, shape: tuple[int, ...]) -> Value:
    """``value`` as a float of ``shape``: by itself, or its mean spread out."""
    if value.dtype != F32:
        value = inner.op("Cast", value, to=F32)
    if inner.shape(value) == shape:
        return value
    mean = inner.op("ReduceMean", value, keepdims=0) if inner.shape(value) else value
    return inner.op("Add", mean, inner.const(np.zeros(shape), fixed=True))


@move("types")
def branch(m: Make) -> None:
    captured = _captured(m)
    total = m.op("ReduceSum", captured[0], keepdims=0) if m.shape(captured[0]) else captured[0]
    condition = m.op("Greater", total, m.const(m.choose(0.0, -1e9, 0.5), fixed=True))
    if m.maybe(0.1):
        condition = m.const(m.maybe(0.5), BOOL, fixed=True)
    shape = m.shape(captured[0])
    bodies = []
    for _ in range(2):
        inner, values = _body(m, [], captured)
        _grow(inner, m.int(0, 3))
        result = _as_shape(inner, inner.pool[-1] if inner.maybe(0.8) else values[0], shape)
        inner.graph.add_output(result)
        bodies.append(_done(inner))
    m.keep(m.op("If", condition, *captured, then_branch=bodies[0], else_branch=bodies[1]))


@move("types")
def loop(m: Make) -> None:
    captured = _captured(m)
    shape = m.shape(captured[0])
    start = m.op("Mul", captured[0], m.const(0.5, fixed=True))
    leading = [("i", np.array(0, np.int64)), ("going", np.array(True)), ("state", m.data[start])]
    inner, values = _body(m, leading, captured)
    _grow(inner, m.int(0, 2))
    number = inner.op("Cast", values[0], to=F32)
    state = _as_shape(inner, inner.pool[-1], shape)
    state = inner.op("Tanh", inner.op("Add", inner.op("Add", state, number), values[2]))
    scanned = _as_shape(inner, state, shape) if inner.maybe(0.5) else inner.op("Mul", values[3], number)
    going = values[1] if inner.maybe(0.5) else inner.op("Less", number, inner.const(1.5, fixed=True))
    for value in (going, state, scanned):
        inner.graph.add_output(inner.op("Identity", value) if value in values else value)
    body = _done(inner)
    trips = m.const(m.choose(0, 1, 3), I64, fixed=True)
    condition = m.choose(None, m.const(True, BOOL, fixed=True))
    m.keep(*m.ops("Loop", trips, condition, start, *captured, outputs=2, body=body, captures=len(captured)))


@move("types")
def scan(m: Make) -> None:
    xs = m.pick(lambda v: v.dtype == F32 and len(m.shape(v)) >= 1 and 0 < m.shape(v)[0] <= 4)
    captured = _captured(m)
    row = m.data[xs][0]
    state = m.const(np.zeros(row.shape), fixed=True)
    inner, values = _body(m, [("state", m.data[state]), ("row", row)], captured)
    _grow(inner, m.int(0, 2))
    mixed = _as_shape(inner, inner.pool[-1], row.shape)
    new = inner.op("Tanh", inner.op("Add", inner.op("Add", values[0], values[1]), mixed))
    inner.graph.add_output(new)
    inner.graph.add_output(inner.op("Mul", new, inner.const(2.0, fixed=True)))
    attrs = {"scan_input_directions": [1]} if m.maybe(0.3) else {}
    m.keep(
        *m.ops(
            "Scan",
            state,
            xs,
            *captured,
            outputs=2,
            body=_done(inner),
            num_scan_inputs=1,
            captures=len(captured),
            **attrs,
        )
    )
