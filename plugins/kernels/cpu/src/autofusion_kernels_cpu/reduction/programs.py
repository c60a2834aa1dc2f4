"""What is computed from the elements of a row: reductions, Softmax, normalisations, ArgMax. One class for each shape of
computation, written against ``Sweep``.

A program reads ``full`` operands, which move with the elements, and ``row`` operands, which there is one of for every
reduced result. ``before`` are the nodes that make the reduced value from the full operands, ``after`` those behind the
anchor, ``spread`` those that make full results of full operands and reduced values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofusion.ir.graph import Node
from autofusion.ir.graph import Value as GraphValue
from autofusion.ir.operators import attribute
from autofusion_kernels_cpu.codegen import vmath
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.elements import register_type
from autofusion_kernels_cpu.codegen.pointwise_nodes import evaluate, literal
from autofusion_kernels_cpu.codegen.values import F32, I64, Type, Value
from autofusion_kernels_cpu.reduction.sweep import ADD, MAX, MIN, MUL, PEAK, At, Operand, Sweep, identity


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A computation and its operands, in the order of their pointers. ``results`` lists (operand number, value)."""

    anchor: Node
    before: Sequence[Node]
    after: Sequence[Node]
    full: Sequence[Operand]
    full_results: Sequence[int]
    row: Sequence[Operand]
    row_results: Sequence[int]
    spread: Sequence[Node] = ()

    @property
    def x(self) -> GraphValue:
        """The value that the anchor reduces or normalises."""
        value = self.anchor.inputs[0]
        assert value is not None
        return value

    def inputs(self, at: At) -> dict[GraphValue, Value]:
        """The full operands and everything before the anchor."""
        env = {o.value: at.load(i) for i, o in enumerate(self.full) if i not in self.full_results}
        evaluate(at.f, self.before, env, at.f.lanes)
        return env

    def finish(self, at: At, env: dict[GraphValue, Value], y: Value) -> None:
        """What comes after the anchor, and all full results."""
        env[self.anchor.output] = y
        evaluate(at.f, self.after, env, at.f.lanes)
        for i in self.full_results:
            at.store(i, env[self.full[i].value])

    def parameter(self, at: At, env: dict[GraphValue, Value], index: int) -> Value | None:
        """Operand ``index`` of the anchor (scale, bias), or None."""
        value = self.anchor.operand(index)
        if value is None:
            return None
        return env[value] if value in env else literal(at.f, value, at.f.lanes)


Rows = list[dict[GraphValue, Value]]
"""For each part, the row results."""


def emit(program: Program, sweep: Sweep, rows: Rows) -> None:
    """Emit the program for one row. ``rows`` holds the row operands of each part and receives the row results."""
    op = program.anchor.op
    if op in REDUCTIONS:
        _reduce(program, sweep, rows)
    elif op in ("Softmax", "LogSoftmax"):
        _softmax(program, sweep)
    elif op in ("ArgMax", "ArgMin"):
        _arg(program, sweep, rows)
    else:
        _normalise(program, sweep, rows)


# --- reductions -------------------------------------------------------------------------------------------------------
def _plain(f: Function, x: Value) -> Value:
    return x


REDUCTIONS = {
    "GlobalAveragePool": (ADD, _plain),
    "GlobalMaxPool": (MAX, _plain),
    "ReduceL1": (ADD, lambda f, x: f.abs(x)),
    "ReduceL2": (ADD, lambda f, x: x * x),
    "ReduceLogSum": (ADD, _plain),
    "ReduceLogSumExp": (ADD, _plain),
    "ReduceMax": (MAX, _plain),
    "ReduceMean": (ADD, _plain),
    "ReduceMin": (MIN, _plain),
    "ReduceProd": (MUL, _plain),
    "ReduceSum": (ADD, _plain),
    "ReduceSumSquare": (ADD, lambda f, x: x * x),
}
"""How elements are combined, and what is done to each before."""


def _reduce(program: Program, sweep: Sweep, rows: Rows) -> None:
    f, op = sweep.f, program.anchor.op
    kind, each = REDUCTIONS[op]
    shifts = [row[0] for row in _peaks(program, sweep)] if op == "ReduceLogSumExp" else []
    # An infinite peak would make NaN of the differences.
    shifts = [f.select(f.abs(s) < vmath.INFINITY, s, 0.0) for s in shifts]

    def body(at: At, part: int, sums: tuple[Value, ...]) -> list[Value]:
        x = program.inputs(at)[program.x]
        x = vmath.exp(f, x - shifts[part]) if shifts else each(f, x)
        (total,) = sums
        return [total + x if kind == ADD else total * x if kind == MUL else (f.max if kind == MAX else f.min)(total, x)]

    type_ = _vector_type(program, f)
    for part, (total,) in enumerate(sweep.reduce([kind], body, [type_])):
        y = total
        if op in ("ReduceMean", "GlobalAveragePool"):
            count = sweep.count()
            y = y / (count if type_.element == F32 else f.convert(count, type_.element))
        elif op == "ReduceL2":
            y = f.sqrt(y)
        elif op in ("ReduceLogSum", "ReduceLogSumExp"):
            y = vmath.log(f, y)
            y = y + shifts[part] if shifts else y
        env = rows[part]
        env[program.anchor.output] = y
        evaluate(f, program.after, env, f.lanes)
    if not program.spread:
        return

    def write(at: At, part: int) -> None:
        env = {**rows[part], **program.inputs(at)}
        evaluate(at.f, program.spread, env, at.f.lanes)
        for i in program.full_results:
            at.store(i, env[program.full[i].value])

    sweep.each(write)


def _vector_type(program: Program, f: Function) -> Type:
    """The vector type of the reduced value."""
    return register_type(program.x.tensor.dtype).of(f.lanes)


def _peaks(program: Program, sweep: Sweep) -> list[list[Value]]:
    """The largest element of each row, NaN left out."""
    f = sweep.f
    return sweep.reduce([PEAK], lambda at, part, sums: [f.max_keep(program.inputs(at)[program.x], sums[0])])


# --- Softmax ----------------------------------------------------------------------------------------------------------
def _softmax(program: Program, sweep: Sweep) -> None:
    """Largest element; exponentials and their sum; results.

    With one float32 result the exponentials wait in it, otherwise they are computed again.
    """
    f = sweep.f
    peaks = [row[0] for row in _peaks(program, sweep)]
    logarithm = program.anchor.op == "LogSoftmax"
    (result, *more) = program.full_results
    keep = not more and not logarithm and program.full[result].dtype == program.x.tensor.dtype == "float32"

    def exponentials(at: At, part: int, sums: tuple[Value, ...]) -> list[Value]:
        e = vmath.exp_nonpositive(f, program.inputs(at)[program.x] - peaks[part])
        if keep:
            at.store(result, e)
        return [sums[0] + e]

    sums = [row[0] for row in sweep.reduce([ADD], exponentials, unroll=1)]
    scales = [vmath.log(f, s) if logarithm else 1.0 / s for s in sums]

    def write(at: At, part: int) -> None:
        if keep:
            env = {o.value: at.load(i) for i, o in enumerate(program.full) if i != result and _read_after(program, o)}
            program.finish(at, env, at.load(result) * scales[part])
            return
        env = program.inputs(at)
        shifted = env[program.x] - peaks[part]
        y = shifted - scales[part] if logarithm else vmath.exp_nonpositive(f, shifted) * scales[part]
        program.finish(at, env, y)

    sweep.each(write)


def _read_after(program: Program, operand: Operand) -> bool:
    return any(v is operand.value for node in program.after for v in node.inputs)


# --- normalisations ---------------------------------------------------------------------------------------------------
def _normalise(program: Program, sweep: Sweep, rows: Rows) -> None:
    """Statistics in two passes (one would cancel), then the result."""
    f, op = sweep.f, program.anchor.op
    count = sweep.count()
    means: list[Value] = []
    if op not in ("RMSNormalization", "LpNormalization"):
        sums = sweep.reduce([ADD], lambda at, part, sums: [sums[0] + program.inputs(at)[program.x]])
        means = [row[0] / count for row in sums]

    def deviation(at: At, part: int, sums: tuple[Value, ...]) -> list[Value]:
        x = program.inputs(at)[program.x]
        d = x - means[part] if means else x
        if op == "LpNormalization" and attribute(program.anchor, "p") == 1:
            return [sums[0] + f.abs(d)]
        return [f.fma(d, d, sums[0])]

    totals = [row[0] for row in sweep.reduce([ADD], deviation)]
    factors = [_factor(program, f, total, count) for total in totals]
    for part, env in enumerate(rows):
        for name, value in zip(program.anchor.outputs[1:], (means, factors), strict=False):
            if value:
                env[name] = value[part]

    def write(at: At, part: int) -> None:
        env = program.inputs(at)
        x = env[program.x]
        y = (x - means[part] if means else x) * factors[part]
        scale, bias = program.parameter(at, env, 1), program.parameter(at, env, 2)
        if scale is not None:
            y = y * scale if bias is None else f.fma(y, scale, bias)
        program.finish(at, env, y)

    sweep.each(write)


def _factor(program: Program, f: Function, total: Value, count: Value) -> Value:
    """What deviations are multiplied by."""
    op = program.anchor.op
    if op == "LpNormalization":
        norm = total if attribute(program.anchor, "p") == 1 else f.sqrt(total)
        # A zero vector stays zero.
        return f.select(f.eq(norm, 0.0), 0.0, 1.0 / norm)
    if op == "MeanVarianceNormalization":
        return 1.0 / (f.sqrt(total / count) + 1e-9)
    return 1.0 / f.sqrt(total / count + float(attribute(program.anchor, "epsilon")))


# --- ArgMax, ArgMin ---------------------------------------------------------------------------------------------------
def _arg(program: Program, sweep: Sweep, rows: Rows) -> None:
    """The place of the largest element: each lane keeps its best and where it was; the first NaN wins."""
    f = sweep.f
    sign = program.anchor.op == "ArgMax"
    last = bool(attribute(program.anchor, "select_last_index"))
    type_ = _vector_type(program, f)
    extreme = MAX if sign else MIN

    def better(a: Value, b: Value, equal: bool) -> Value:
        kind = ("g" if sign else "l") + ("e" if equal else "t")
        found = f.compare(kind, a, b)
        if a.type.is_float:
            nan_a, nan_b = f.is_nan(a), f.is_nan(b)
            found = (found & ~nan_b) | (nan_a & (~nan_b | equal))
        return found

    def body(at: At, part: int, sums: tuple[Value, ...]) -> list[Value]:
        best, place = sums
        x = program.inputs(at)[program.x]
        # The first element always counts: minus infinity may be all there is.
        take = better(x, best, last) | (place < 0)
        where = at.position
        return [f.select(take, x, best), f.select(take, where, place)]

    start = [f.const(identity(extreme, type_), type_), f.const(-1, f.i32)]
    found = sweep.fold(start, body)
    for part in range(sweep.parts):
        best, place = found[2 * part : 2 * part + 2]
        if sweep.along:
            step = f.lanes // 2
            while step:
                order = [i ^ step for i in range(f.lanes)]
                other, there = f.shuffle(best, None, order), f.shuffle(place, None, order)
                earlier = there > place if last else there < place
                same = ~better(best, other, False) & ~better(other, best, False)
                take = (there >= 0) & ((place < 0) | better(other, best, False) | (same & earlier))
                best, place = f.select(take, other, best), f.select(take, there, place)
                step //= 2
        env = rows[part]
        env[program.anchor.output] = f.convert(place, I64)
        evaluate(f, program.after, env, f.lanes)
