"""What the steps of LSTM, GRU and RNN do once their gates are multiplied out (equations of the operator set)."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion_kernels_cpu.codegen.values import Value
from autofusion_kernels_cpu.recurrent.activation import Activation
from autofusion_kernels_cpu.recurrent.kernel import Cell, Unit


def _lstm(peepholes: bool) -> Cell:
    def finish(unit: Unit, functions: Sequence[Activation]) -> None:
        f = unit.f
        gate, candidate, out = functions
        i, o, forget, new = unit.sums
        cell, hidden = unit.read("c"), unit.read("h")
        if peepholes:
            i = f.fma(unit.peephole(0), cell, i)
            forget = f.fma(unit.peephole(2), cell, forget)
        updated = f.fma(gate(f, forget), cell, gate(f, i) * candidate(f, new))
        if peepholes:
            o = f.fma(unit.peephole(1), updated, o)
        made = gate(f, o) * out(f, updated)
        unit.write("c_out", updated, cell)
        unit.write("h_out", made, hidden)
        unit.result(made)

    return Cell("lstm_peepholes" if peepholes else "lstm", 4, 4, finish)


def _mix(unit: Unit, z: Value, candidate: Value) -> None:
    """h = (1 - z) * candidate + z * h."""
    f = unit.f
    hidden = unit.read("h")
    made = f.fma(z, hidden - candidate, candidate)
    unit.write("h_out", made, hidden)
    unit.result(made)


def _gru_reset_after(unit: Unit, functions: Sequence[Activation]) -> None:
    f = unit.f
    gate, candidate = functions
    z, r, recurrent = unit.sums
    _mix(unit, gate(f, z), candidate(f, f.fma(gate(f, r), recurrent, unit.projected(2))))


def _gru_gates(unit: Unit, functions: Sequence[Activation]) -> None:
    f = unit.f
    gate, _ = functions
    z, r = unit.sums
    for half, value in enumerate((gate(f, z), gate(f, r) * unit.read("h"))):
        f.store(value, *unit.side(half), mask=unit.mask)


def _gru_candidate(unit: Unit, functions: Sequence[Activation]) -> None:
    f = unit.f
    _, candidate = functions
    z = f.load(*unit.side(0), mask=unit.mask)
    _mix(unit, z, candidate(f, unit.sums[0]))


def _rnn(unit: Unit, functions: Sequence[Activation]) -> None:
    made = functions[0](unit.f, unit.sums[0])
    unit.write("h_out", made, unit.read("h"))
    unit.result(made)


LSTM, LSTM_PEEPHOLES = _lstm(False), _lstm(True)
GRU_RESET_AFTER = Cell("gru_reset_after", 3, 3, _gru_reset_after, separate=(2,))
GRU_GATES = Cell("gru_gates", 2, 3, _gru_gates)
GRU_CANDIDATE = Cell("gru_candidate", 1, 3, _gru_candidate)
RNN = Cell("rnn", 1, 1, _rnn)
