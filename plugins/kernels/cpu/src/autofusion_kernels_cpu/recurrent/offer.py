"""Offers for the recurrent operators, the packing of their weights, and their binding to memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autofusion.ir.graph import Node
from autofusion.kernels import BindContext, Offer, Operand, Refusal, Target, TensorView
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref
from autofusion_kernels_cpu.recurrent import cells, kernel
from autofusion_kernels_cpu.recurrent.activation import Activation, UnknownActivation, activations
from autofusion_kernels_cpu.support import constant, isa_of, operands, parameters, static

_DEFAULTS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_OPERANDS = {3: "B", 7: "P"}


@dataclass(frozen=True, slots=True)
class _Layer:
    """A recurrent node with static shapes; `parts` are the cells of a step and the gates whose weights each has."""

    op: str
    time: int
    batch: int
    inputs: int
    hidden: int
    reverse: tuple[bool, ...]
    batch_first: bool
    functions: tuple[tuple[Activation, ...], ...]
    parts: tuple[tuple[kernel.Cell, slice], ...]
    lanes: int

    @property
    def gates(self) -> int:
        return _GATES[self.op]

    @property
    def blocks(self) -> int:
        return -(-self.hidden // self.lanes)

    @property
    def width(self) -> int:
        """Elements of a row of states in scratch."""
        return self.blocks * self.lanes

    @property
    def scratch(self) -> dict[str, int]:
        """Where each piece of scratch starts, in bytes, and the `end`."""
        state = self.batch * self.width
        sizes = {"gates": self.time * self.batch * self.gates * self.width, "h0": state, "h1": state, "c": state}
        sizes["side"] = 2 * state if len(self.parts) > 1 else 0
        places, at = {}, 0
        for name, size in sizes.items():
            places[name] = at
            at += size * 4
        return places | {"end": at}


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """LSTM, GRU and RNN of float32 with constant weights."""
    layer = _layer(node, target.lanes)
    if isinstance(layer, Refusal):
        return layer
    rows = layer.time * layer.batch
    directions = len(layer.reverse)
    flops = 2.0 * rows * directions * layer.gates * layer.width * (layer.inputs + layer.hidden)
    weights = 4.0 * directions * layer.gates * layer.width * layer.hidden
    launches = 1e-7 * layer.time * directions * len(layer.parts)
    # A step with few rows reads all of the recurrent weights for little arithmetic.
    streamed = layer.time * roofline(target, 0, weights).seconds
    return [
        Offer(
            f"recurrent.{node.op.lower()}",
            operands(node, {}),
            tuple(Operand() for _ in node.outputs),
            lambda context, inputs, outputs: _bind(layer, context, inputs, outputs),
            seconds=max(flops / target.peak_flops / target.threads, streamed) + launches,
            scratch=layer.scratch["end"],
        )
    ]


def _layer(node: Node, lanes: int) -> _Layer | Refusal:
    x, r = static(node, 0), static(node, 2)
    if x is None or r is None or any(v is not None and static(node, i) is None for i, v in enumerate(node.inputs)):
        return Refusal("its shapes are not static")
    if x.dtype != np.float32:
        return Refusal(f"it computes in {x.dtype}, only float32 is supported")
    for index, name in ((1, "W"), (2, "R"), (3, "B"), (7, "P")):
        if node.operand(index) is not None and constant(node, index) is None:
            return Refusal(f"its operand '{name}' is not constant")
    if node.attr("input_forget", 0):
        return Refusal("it couples its input and forget gates")
    directions, _, hidden = r.static_shape
    batch_first = bool(node.attr("layout", 0))
    time, batch, inputs = x.static_shape
    if batch_first:
        time, batch = batch, time
    if not time:
        return Refusal("its sequences have no steps")
    try:
        functions = activations(node, _DEFAULTS[node.op], directions)
    except UnknownActivation as name:
        return Refusal(f"there is no activation '{name}'")
    direction = node.attr("direction") or "forward"
    reverse = (False, True) if direction == "bidirectional" else (direction == "reverse",)
    every = slice(0, _GATES[node.op])
    parts: tuple[tuple[kernel.Cell, slice], ...]
    if node.op == "LSTM":
        parts = ((cells.LSTM if node.operand(7) is None else cells.LSTM_PEEPHOLES, every),)
    elif node.op == "RNN":
        parts = ((cells.RNN, every),)
    elif node.attr("linear_before_reset", 0):
        parts = ((cells.GRU_RESET_AFTER, every),)
    else:
        parts = ((cells.GRU_GATES, slice(0, 2)), (cells.GRU_CANDIDATE, slice(2, 3)))
    return _Layer(node.op, time, batch, inputs, hidden, reverse, batch_first, tuple(functions), parts, lanes)


def _bind(
    layer: _Layer, context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]
) -> NativeKernel:
    steps: list[NativeStep] = []
    for direction in range(len(layer.reverse)):
        steps += _Direction(layer, context, inputs, outputs, direction).steps()
    return NativeKernel(tuple(steps))


@functools.cache
def _project_function(isa: Isa, gates: int) -> int:
    return jit().kernel(kernel.project(isa, gates))


@functools.cache
def _step_function(isa: Isa, cell: kernel.Cell, functions: tuple[Activation, ...]) -> int:
    return jit().kernel(kernel.step(isa, cell, functions))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What all steps of one cell share: function, weights, bias, peepholes, and the rows' lengths."""

    function: int
    weights: Ref
    bias: Ref
    peepholes: Ref
    lengths: Ref


@dataclass(frozen=True, slots=True)
class _State:
    """A state in memory: where its rows start and their pitch in elements."""

    ref: Ref
    row: int


class _Direction:
    """Binds one direction of a layer."""

    def __init__(
        self,
        layer: _Layer,
        context: BindContext,
        inputs: Sequence[TensorView | None],
        outputs: Sequence[TensorView],
        direction: int,
    ) -> None:
        self.layer, self.context, self.outputs, self.direction = layer, context, outputs, direction
        self.inputs = [*inputs, *([None] * (8 - len(inputs)))]
        self.isa = isa_of(context.target)
        if context.scratch is None and layer.scratch["end"]:
            raise AssertionError("bound without scratch")

    def steps(self) -> list[NativeStep]:
        layer = self.layer
        if not layer.time or not layer.batch or not layer.hidden:
            return []
        name = f"recurrent.{layer.op.lower()}"
        made = [self._project(name)]
        times = range(layer.time)
        order = list(reversed(times)) if layer.reverse[self.direction] else list(times)
        h, c = self._initial(5), self._initial(6)
        fixed = [self._fixed(cell, gates) for cell, gates in layer.parts]
        for position, time in enumerate(order):
            final = position == len(order) - 1
            h_out = self._state(1, f"h{position % 2}", final)
            c_out = self._state(2, "c", final)
            for (cell, gates), shared in zip(layer.parts, fixed, strict=True):
                made.append(self._step(cell, gates, shared, time, h, c, h_out, c_out, name))
            h, c = h_out, c_out
        return made

    def _scratch(self, name: str) -> Ref:
        assert self.context.scratch is not None
        return Ref(self.context.scratch, self.layer.scratch[name])

    def _state(self, output: int, scratch: str, final: bool) -> _State:
        """Where a state is written: into the node's result at the end, if it has that one."""
        if not final or output >= len(self.outputs):
            return _State(self._scratch(scratch), self.layer.width)
        return self._rows(self.outputs[output])

    def _rows(self, view: TensorView) -> _State:
        """The rows of this direction in a tensor [directions, batch, hidden], or batch first."""
        layer = self.layer
        if layer.batch_first:
            return _State(Ref(view, 4 * self.direction * layer.hidden), len(layer.reverse) * layer.hidden)
        return _State(Ref(view, 4 * self.direction * layer.batch * layer.hidden), layer.hidden)

    def _initial(self, index: int) -> _State:
        view = self.inputs[index]
        if view is None:
            return _State(Ref(np.zeros(self.layer.width, np.float32)), 0)
        return self._rows(view)

    def _constant(self, index: int) -> np.ndarray | None:
        view = self.inputs[index]
        if view is None:
            return None
        array = view.buffer.array
        assert array is not None
        flat = array.reshape(-1)[view.offset : view.offset + view.type.numel]
        return np.ascontiguousarray(flat.reshape(view.shape)[self.direction], np.float32)

    def _packed(self, name: str, index: int, gates: slice) -> np.ndarray:
        """Weights as [block][k][gate][lanes], kept for later plans of the session."""
        view = self.inputs[index]
        assert view is not None
        array = view.buffer.array
        key = ("recurrent", name, id(array), view.offset, self.direction, gates.start, gates.stop, self.isa.lanes)
        entry = self.context.cache.get(key)
        if entry is None:
            matrix = self._constant(index)
            assert matrix is not None
            picked = matrix.reshape(self.layer.gates, self.layer.hidden, -1)[gates]
            entry = array, _pack(picked, self.isa)
            self.context.cache[key] = entry
        return entry[1]

    def _bias(self) -> tuple[np.ndarray, np.ndarray]:
        """(what the projection starts from, what separate recurrent gates start from), each [gates, hidden]."""
        layer = self.layer
        given = self._constant(3)
        both = np.zeros((2, layer.gates, layer.hidden), np.float32)
        if given is not None:
            both = given.reshape(both.shape)
        inner = both[0] + both[1]
        for gate in {g for cell, _ in layer.parts for g in cell.separate}:
            inner[gate] = both[0][gate]
        return inner, both[1]

    def _project(self, name: str) -> NativeStep:
        layer = self.layer
        x = self.inputs[0]
        assert x is not None
        rows = layer.time * layer.batch
        bias = _pack(self._bias()[0][:, :, None], self.isa)
        threads = self.context.target.threads
        tile = kernel.tiles(self.isa, layer.gates)[0]
        parts = max(1, min(-(-2 * threads // layer.blocks), -(-rows // tile)))
        chunk = -(-rows // parts)
        chunk = -(-chunk // tile) * tile if parts > 1 else chunk
        params = [rows, layer.inputs, layer.blocks, parts, chunk, layer.inputs]
        weights = self._packed("W", 1, slice(0, layer.gates))
        buffers = (Ref(x), Ref(weights), Ref(bias), self._scratch("gates"))
        return NativeStep(_project_function(self.isa, layer.gates), buffers, parameters(params), name=name)

    def _fixed(self, cell: kernel.Cell, gates: slice) -> _Fixed:
        layer, lengths, peepholes = self.layer, self.inputs[4], self._constant(7)
        packed = np.zeros((3, layer.width), np.float32)
        if peepholes is not None:
            packed[:, : layer.hidden] = peepholes.reshape(3, layer.hidden)
        return _Fixed(
            _step_function(self.isa, cell, layer.functions[self.direction]),
            Ref(self._packed("R", 2, gates)),
            Ref(_pack(self._bias()[1][gates, :, None], self.isa)),
            Ref(packed),
            Ref(np.full(layer.batch, layer.time, np.int32)) if lengths is None else Ref(lengths),
        )

    def _step(
        self,
        cell: kernel.Cell,
        gates: slice,
        fixed: _Fixed,
        time: int,
        h: _State,
        c: _State,
        h_out: _State,
        c_out: _State,
        name: str,
    ) -> NativeStep:
        layer = self.layer
        row = layer.gates * layer.width
        # Projected rows are in the order of the operand's rows.
        pitch, at = (row * layer.time, row * time) if layer.batch_first else (row, row * layer.batch * time)
        x = h
        if cell is cells.GRU_CANDIDATE:
            x = _State(replace(self._scratch("side"), offset=layer.scratch["side"] + 4 * layer.width), 2 * layer.width)
        y, y_row = self._result(time)
        gates_ref = self._scratch("gates")
        buffers = (
            replace(gates_ref, offset=gates_ref.offset + 4 * at),
            fixed.weights,
            fixed.bias,
            x.ref,
            h.ref,
            c.ref,
            h_out.ref,
            c_out.ref,
            y,
            fixed.lengths,
            fixed.peepholes,
            self._scratch("side"),
        )
        params = [
            time, layer.batch, layer.hidden, layer.blocks, layer.hidden, pitch, gates.start, x.row, h.row,
            c.row, h_out.row, c_out.row, y_row, 2 * layer.width, time % 2,
        ]  # fmt: skip
        return NativeStep(fixed.function, buffers, parameters(params), name=name)

    def _result(self, time: int) -> tuple[Ref, int]:
        """Where this direction's result at a time starts, and the pitch of its rows."""
        layer, directions = self.layer, len(self.layer.reverse)
        view = self.outputs[0]
        if layer.batch_first:
            start = (time * directions + self.direction) * layer.hidden
            return Ref(view, 4 * start), layer.time * directions * layer.hidden
        return Ref(view, 4 * (time * directions + self.direction) * layer.batch * layer.hidden), layer.hidden


def _pack(matrix: np.ndarray, isa: Isa) -> np.ndarray:
    """[gates, hidden, k] as [block, k, gate, lane], with zeros past the last unit."""
    gates, hidden, depth = matrix.shape
    blocks = -(-hidden // isa.lanes)
    padded = np.zeros((gates, blocks * isa.lanes, depth), np.float32)
    padded[:, :hidden] = matrix
    return np.ascontiguousarray(padded.reshape(gates, blocks, isa.lanes, depth).transpose(1, 3, 0, 2))
