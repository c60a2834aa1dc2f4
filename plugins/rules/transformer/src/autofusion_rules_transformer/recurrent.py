"""Loops whose body is one step of an LSTM or a GRU, which become the operator.

Frameworks that have no such operator write the steps as a loop over a sequence: a row of it is gathered, and products
with constants, sums and gates make the next state. Recognised by what is computed, not by the order of the nodes: every
gate is a linear function of the row and the last output, however its matrix was cut up or put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, Refusal, RewriteRule, ints, op, same_dim, same_shape, scalar


class _Other(Exception):
    """The body is something else."""


@dataclass(frozen=True, slots=True)
class _Linear:
    """A sum of products of named values with matrices, and a bias."""

    weights: Mapping[str, np.ndarray]
    bias: np.ndarray

    def columns(self, start: int, end: int) -> _Linear:
        """Some of the results."""
        parts = {name: matrix[:, start:end] for name, matrix in self.weights.items()}
        return _Linear(parts, self.bias[start:end] if self.bias.size > 1 else self.bias)

    def plus(self, other: _Linear) -> _Linear:
        """The sum."""
        if set(self.weights) & set(other.weights):
            raise _Other
        return _Linear({**self.weights, **other.weights}, self.bias + other.bias)

    def only(self, *names: str) -> tuple[np.ndarray, ...]:
        """The matrices of exactly these values."""
        if set(self.weights) != set(names):
            raise _Other
        return tuple(self.weights[name] for name in names)


@dataclass(frozen=True, slots=True)
class _Cell:
    """The operator, its operands but for the first state, and which variables of the loop are its states."""

    op: str
    sequence: Value
    w: np.ndarray
    r: np.ndarray
    b: np.ndarray
    hidden: int
    state: int | None
    attrs: Mapping[str, int]


def _one(node: Node | None, *ops: str) -> Node:
    if node is None or node.op not in ops:
        raise _Other
    return node


def _through(value: Value | None, name: str) -> Value:
    """The operand of the node of operator ``name`` that makes ``value``."""
    node = _one(None if value is None else value.producer, name)
    assert node.inputs[0] is not None
    return node.inputs[0]


def _factors(value: Value | None, name: str = "Mul") -> tuple[Value, Value]:
    node = _one(None if value is None else value.producer, name)
    a, b = node.inputs
    if a is None or b is None:
        raise _Other
    return a, b


def _linear(value: Value, leaves: Mapping[Value, str]) -> _Linear:
    """``value`` as a linear function of ``leaves``."""
    if value.const is not None:
        return _Linear({}, value.const.reshape(-1))
    node = _one(value.producer, "Add", "Gemm", "MatMul", "Slice", "Split")
    first = node.inputs[0]
    if first is None:
        raise _Other
    if node.op == "Add":
        a, b = _factors(value, "Add")
        return _linear(a, leaves).plus(_linear(b, leaves))
    if node.op in ("Slice", "Split"):
        return _linear(first, leaves).columns(*_range(node, value))
    return _product(node, first, leaves)


def _product(node: Node, first: Value, leaves: Mapping[Value, str]) -> _Linear:
    matrix = None if node.inputs[1] is None else node.inputs[1].const
    bias = np.zeros(1)
    if node.op == "Gemm":
        if attribute(node, "transA") or attribute(node, "alpha") != 1.0 or attribute(node, "beta") != 1.0:
            raise _Other
        matrix = matrix.T if matrix is not None and attribute(node, "transB") else matrix
        if node.operand(2) is not None:
            bias = _linear(node.inputs[2], {}).bias  # type: ignore[arg-type]
    if matrix is None or matrix.ndim != 2:
        raise _Other
    if first in leaves:
        return _Linear({leaves[first]: matrix}, bias)
    joined = _one(first.producer, "Concat")
    weights, start = {}, 0
    for part in joined.inputs:
        width = _width(part)
        if part not in leaves or attribute(joined, "axis") not in (1, -1) or leaves[part] in weights:
            raise _Other
        weights[leaves[part]] = matrix[start : start + width]
        start += width
    return _Linear(weights, bias)


def _width(value: Value | None) -> int:
    """The size of the last of two axes."""
    if value is None or value.shape is None or len(value.shape) != 2 or not isinstance(value.shape[1], int):
        raise _Other
    return value.shape[1]


def _range(node: Node, value: Value) -> tuple[int, int]:
    """Which columns of its operand ``value`` is."""
    if node.op == "Split":
        widths = [_width(v) for v in node.outputs]
        place = node.outputs.index(value)
        if attribute(node, "axis") not in (1, -1):
            raise _Other
        return sum(widths[:place]), sum(widths[: place + 1])
    width = _width(node.inputs[0])
    starts, ends = ints(node.operand(1)), ints(node.operand(2))
    axes, steps = ints(node.operand(3)), ints(node.operand(4))
    if starts is None or ends is None or (node.operand(4) is not None and (steps is None or set(steps) != {1})):
        raise _Other
    if axes is None:
        if node.operand(3) is not None:
            raise _Other
        axes = list(range(len(starts)))
    found = (0, width)
    for start, end, axis in zip(starts, ends, axes, strict=True):
        if axis in (1, -1):
            found = slice(start, end).indices(width)[:2]
        elif start != 0 or end < np.iinfo(np.int32).max:
            raise _Other
    return found


def _cell(loop: Node) -> _Cell:
    """Read the loop; raise _Other if it is something else."""
    body = attribute(loop, "body")
    assert isinstance(body, Graph)
    captured = attribute(loop, "captures")
    count = len(loop.inputs) - captured - 2
    if loop.inputs[0] is None or loop.inputs[1] is not None or not _goes_on(body):
        raise _Other
    steps = {body.inputs[0]}
    states = []
    for index in range(count):
        inner, after = body.inputs[2 + index], body.outputs[1 + index]
        if _is_counter(loop.inputs[2 + index], inner, after):
            steps.add(inner)
        elif inner.consumers:
            states.append(index)
    row, sequence = _row(loop, body, count, steps)
    if len(states) == 1:
        return _gru(body, states[0], row, sequence)
    if len(states) == 2:
        return _lstm(body, states, row, sequence)
    raise _Other


def _goes_on(body: Graph) -> bool:
    """True if only the number of iterations stops the loop."""
    value = body.outputs[0]
    node = value.producer
    return value is body.inputs[1] or (node is not None and node.op == "Identity" and node.inputs[0] is body.inputs[1])


def _is_counter(first: Value | None, inner: Value, after: Value) -> bool:
    """True for a variable that is the number of the iteration."""
    node = after.producer
    if first is None or scalar(first) != 0 or node is None or node.op != "Add" or inner not in node.inputs:
        return False
    return any(v is not inner and scalar(v) == 1 for v in node.inputs)


def _row(loop: Node, body: Graph, count: int, steps: set[Value]) -> tuple[Value, Value]:
    """The row that an iteration works on, and the sequence outside that it is from."""
    rows = [
        (node.output, place)
        for place, inner in enumerate(body.inputs[2 + count :])
        for node in inner.consumers
        if node.op == "Gather" and node.inputs[0] is inner and node.inputs[1] in steps and not attribute(node, "axis")
    ]
    if len(rows) != 1 or len(body.inputs[2 + count + rows[0][1]].consumers) != 1:
        raise _Other
    sequence = loop.inputs[2 + count + rows[0][1]]
    if sequence is None or sequence.shape is None or len(sequence.shape) != 3:
        raise _Other
    return rows[0][0], sequence


def _lstm(body: Graph, states: list[int], row: Value, sequence: Value) -> _Cell:
    """c = f c' + i g, h = o tanh(c), with i, f, o = sigmoid and g = tanh of what is linear in row and h'."""
    for hidden, state in (states, states[::-1]):
        h, before = body.inputs[2 + hidden], body.inputs[2 + state]
        after, shown = body.outputs[1 + state], body.outputs[1 + hidden]
        try:
            leaves = {row: "x", h: "h"}
            o, _ = _pair(shown, "Sigmoid", "Tanh", lambda value, c=after: value is c)
            kept, fresh = _factors(after, "Add")
            if before not in _operands(kept):
                kept, fresh = fresh, kept
            (f,) = [_through(v, "Sigmoid") for v in _factors(kept) if v is not before]
            if before not in _factors(kept):
                raise _Other
            i, g = _pair(fresh, "Sigmoid", "Tanh")
        except (_Other, ValueError):
            continue
        return _packed("LSTM", [_linear(v, leaves) for v in (i, o, f, g)], sequence, hidden, state, h)
    raise _Other


def _gru(body: Graph, hidden: int, row: Value, sequence: Value) -> _Cell:
    """h = z h' + (1 - z) c, with z, r = sigmoid of what is linear in row and h', and c = tanh(x V + r h' U) where the
    product with r comes before or behind that with U.
    """
    h, after = body.inputs[2 + hidden], body.outputs[1 + hidden]
    leaves = {row: "x", h: "h"}
    kept, fresh = _factors(after, "Add")
    if h not in _operands(kept):
        kept, fresh = fresh, kept
    (z,) = [v for v in _factors(kept) if v is not h] or [None]
    a, b = _factors(fresh)
    if b.producer is not None and b.producer.op == "Sub":
        a, b = b, a
    one, subtracted = _factors(a, "Sub")
    if h not in _factors(kept) or scalar(one) != 1 or subtracted is not z:
        raise _Other
    update = _linear(_through(z, "Sigmoid"), leaves)
    inner = _through(b, "Tanh")
    for reset_part, own in (_factors(inner, "Add"), _factors(inner, "Add")[::-1]):
        node = reset_part.producer
        if node is None or node.op not in ("Gemm", "MatMul", "Mul"):
            continue
        try:
            if node.op == "Mul":
                r, product = _with(reset_part, "Sigmoid")
                candidate = (_linear(own, {row: "x"}), _linear(product, {h: "h"}))
            else:
                reset = node.inputs[0]
                r, product = _with(reset, "Sigmoid")
                if product is not h or reset is None:
                    continue
                candidate = (_linear(own, {row: "x"}), _linear(reset_part, {reset: "h"}))
            gates = [update, _linear(_through(r, "Sigmoid"), leaves)]
            return _packed_gru(gates, candidate, sequence, hidden, h, linear_before_reset=node.op == "Mul")
        except _Other:
            continue
    raise _Other


def _operands(value: Value) -> list[Value | None]:
    return [] if value.producer is None else list(value.producer.inputs)


def _with(value: Value | None, name: str) -> tuple[Value, Value]:
    """The factors of a product, that which an operator called ``name`` makes first."""
    a, b = _factors(value)
    if a.producer is not None and a.producer.op == name:
        return a, b
    if b.producer is not None and b.producer.op == name:
        return b, a
    raise _Other


def _pair(value: Value, left: str, right: str, is_right: object = None) -> tuple[Value, Value]:
    """What two operators that make the factors of a product take."""
    a, b = _with(value, left)
    inner = _through(b, right)
    if callable(is_right) and not is_right(inner):
        raise _Other
    return _through(a, left), inner


def _packed(name: str, gates: list[_Linear], sequence: Value, hidden: int, state: int, h: Value) -> _Cell:
    """Gates in the operator's order."""
    size = _width(h)
    parts = [gate.only("x", "h") for gate in gates]
    biases = [np.broadcast_to(gate.bias, (size,)) for gate in gates]
    w, r = (np.concatenate([part[k].T for part in parts])[np.newaxis] for k in (0, 1))
    b = np.concatenate([*biases, np.zeros(size * len(gates))])[np.newaxis]
    return _Cell(name, sequence, w, r, b, hidden, state, {"hidden_size": size})


def _packed_gru(
    gates: list[_Linear],
    candidate: tuple[_Linear, _Linear],
    sequence: Value,
    hidden: int,
    h: Value,
    *,
    linear_before_reset: bool,
) -> _Cell:
    size = _width(h)
    parts = [gate.only("x", "h") for gate in gates] + [(*candidate[0].only("x"), *candidate[1].only("h"))]
    biases = [gate.bias for gate in gates] + [candidate[0].bias, np.zeros(2 * size), candidate[1].bias]
    widths = [size] * 3 + [2 * size, size]
    w, r = (np.concatenate([part[k].T for part in parts])[np.newaxis] for k in (0, 1))
    b = np.concatenate([np.broadcast_to(v, (n,)) for v, n in zip(biases, widths, strict=True)])[np.newaxis]
    attrs = {"hidden_size": size, "linear_before_reset": int(linear_before_reset)}
    return _Cell("GRU", sequence, w, r, b, hidden, None, attrs)


def _fits(node: Node) -> bool:
    try:
        cell = _cell(node)
    except (_Other, ValueError):
        return False
    body = attribute(node, "body")
    # What the loop gives besides must be one of the states, or all outputs.
    known = [body.outputs[1 + cell.hidden], *([] if cell.state is None else [body.outputs[1 + cell.state]])]
    count = len(node.inputs) - attribute(node, "captures") - 2
    for index, result in enumerate(node.outputs):
        if not result.consumers and not result.is_output:
            continue
        made = body.outputs[1 + index]
        counter = index < count and _is_counter(node.inputs[2 + index], body.inputs[2 + index], made)
        if not counter and made not in (known if index < count else known[:1]):
            return False
    return True


def _same_batch(sequence: Value, state: Value | None) -> bool:
    """True if a row of the sequence and the state have the same batch for certain: a step may broadcast one of them."""
    if state is None or state.shape is None or sequence.shape is None or len(sequence.shape) != 3:
        return False
    return len(state.shape) == 2 and same_dim(sequence.shape[1], state.shape[0])


def _rewrite(match: Match, builder: Builder) -> list[Value | None] | Refusal:
    loop = match.root
    cell = _cell(loop)
    dtypes = {v.dtype for v in (cell.sequence, loop.inputs[2 + cell.hidden]) if v is not None}
    if len(dtypes) != 1 or np.dtype(next(iter(dtypes)) or object).kind != "f":
        return Refusal(f"{loop.label}: the sequence and the state are not of one floating-point type", loop)
    states = [cell.hidden] if cell.state is None else [cell.hidden, cell.state]
    for begins in (loop.inputs[2 + index] for index in states):
        if not _same_batch(cell.sequence, begins):
            return Refusal(f"{loop.label}: the sequence and the state may differ in their batch", begins)
    body, dtype = attribute(loop, "body"), cell.sequence.dtype
    count = len(loop.inputs) - attribute(loop, "captures") - 2
    h = loop.inputs[2 + cell.hidden]
    for index, begins in enumerate(loop.inputs[2 : 2 + count]):
        is_copy = any(body.outputs[1 + index] is body.outputs[1 + state] for state in states) and index not in states
        if is_copy and (begins is None or h is None or not same_shape(begins.shape, h.shape)):
            return Refusal(f"{loop.label}: what a copy of the state begins as may have another shape", begins)
    zero = builder.constant([0], np.int64)
    trips = loop.inputs[0]
    assert trips is not None
    rows = _first_rows(builder, cell.sequence, trips)
    first = [builder.op("Unsqueeze", loop.inputs[2 + index], zero) for index in states]
    operands = [rows, *(builder.constant(part, dtype) for part in (cell.w, cell.r, cell.b)), None, *first]
    node = builder.node(cell.op, operands, cell.attrs, outputs=1 + len(states), name=loop.name)
    results: list[Value | None] = []
    for index, result in enumerate(loop.outputs):
        made = body.outputs[1 + index]
        if not result.consumers and not result.is_output:
            results.append(None)
        elif index >= count:
            results.append(builder.op("Squeeze", node.outputs[0], builder.constant([1], np.int64)))
        elif _is_counter(loop.inputs[2 + index], body.inputs[2 + index], made):
            results.append(builder.op("Cast", trips, to=result.dtype))
        else:
            place = next(k for k, state in enumerate(states) if body.outputs[1 + state] is made)
            last = builder.op("Squeeze", node.outputs[1 + place], zero)
            if index not in states:  # it begins as something else, which it stays without an iteration
                some = builder.op("Greater", trips, builder.constant(0, np.int64))
                last = builder.op("Where", some, last, loop.inputs[2 + index])
            results.append(last)
    return results


def _first_rows(builder: Builder, sequence: Value, trips: Value) -> Value:
    """As many rows of the sequence as the loop looks at."""
    count, zero = ints(trips), builder.constant([0], np.int64)
    if count is None:
        limit = builder.op("Reshape", trips, builder.constant([1], np.int64))
        return builder.op("Slice", sequence, zero, limit, zero)
    if sequence.shape is not None and sequence.shape[0] == count[0]:
        return sequence
    return builder.op("Slice", sequence, zero, builder.constant(count, np.int64), zero)


RECURRENT_LOOP = RewriteRule(
    "transformer.recurrent_loop",
    op("Loop", open_inputs=True, where=_fits),
    _rewrite,
    doc="""Say a loop over the steps of an LSTM or a GRU as the operator.

    Before: %n, %h, %c, %y = Loop(%trips, _, 0, %h0, %c0, %x)    one step of an LSTM on Gather(%x, %n)
    After:  %y, %h, %c = LSTM(%x, %w, %r, %b, _, %h0, %c0)
    Sigmoid and tanh as the operators have them, without peepholes; every weight constant; the number of steps may be
    computed.
    Refuses when: the sequence and the state are not of one floating-point type, or may differ in their batch.
    """,
)

RULES = (RECURRENT_LOOP,)
