"""Recurrent layers bound to memory, and the packing of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autofusion.kernels import BindContext, TensorView
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.native.kernel import Kernel, Source
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Ref
from autofusion_kernels_cpu.packed import packed
from autofusion_kernels_cpu.recurrent import cells, kernel
from autofusion_kernels_cpu.recurrent.problem import Layer
from autofusion_kernels_cpu.recurrent.schedule import projection_parts


def bind(
    layer: Layer, context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]
) -> NativeKernel:
    """All steps of all directions."""
    steps: list[NativeStep] = []
    for direction in range(len(layer.reverse)):
        steps += _Direction(layer, context, inputs, outputs, direction).steps()
    return NativeKernel(tuple(steps))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What all steps of one cell share: code, and the buffers of weights, bias, peepholes and the rows' lengths."""

    kernel: Kernel
    buffers: dict[str, Source]


@dataclass(frozen=True, slots=True)
class _State:
    """A state in memory: where its rows start and their pitch in elements."""

    ref: Ref
    row: int


class _Direction:
    """Binds one direction of a layer."""

    def __init__(
        self,
        layer: Layer,
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

        def make() -> np.ndarray:
            matrix = self._constant(index)
            assert matrix is not None
            picked = matrix.reshape(self.layer.gates, self.layer.hidden, -1)[gates]
            return _pack(picked, self.isa)

        shape = view.shape, self.layer.gates, self.layer.hidden
        how = (view.offset, *shape, self.direction, gates.start, gates.stop, self.isa.lanes)
        return packed(self.context.cache, f"recurrent.{name}", array, how, make)

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
        parts, chunk = projection_parts(layer, self.isa, self.context.target.threads)
        params = {
            "rows": layer.time * layer.batch,
            "depth": layer.inputs,
            "blocks": layer.blocks,
            "parts": parts,
            "chunk": chunk,
            "x_row": layer.inputs,
        }
        buffers: dict[str, Source] = {
            "x": x,
            "weights": self._packed("W", 1, slice(0, layer.gates)),
            "bias": _pack(self._bias()[0][:, :, None], self.isa),
            "gates": self._scratch("gates"),
        }
        return kernel.project(self.isa, layer.gates).step(buffers, params, label=name)

    def _fixed(self, cell: kernel.Cell, gates: slice) -> _Fixed:
        layer, lengths, peepholes = self.layer, self.inputs[4], self._constant(7)
        packed = np.zeros((3, layer.width), np.float32)
        if peepholes is not None:
            packed[:, : layer.hidden] = peepholes.reshape(3, layer.hidden)
        return _Fixed(
            kernel.step(self.isa, cell, layer.functions[self.direction]),
            {
                "weights": self._packed("R", 2, gates),
                "bias": _pack(self._bias()[1][gates, :, None], self.isa),
                "peepholes": packed,
                "lengths": np.full(layer.batch, layer.time, np.int32) if lengths is None else lengths,
                "side": self._scratch("side"),
            },
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
        projected = self._scratch("gates")
        states = {"x": x, "h": h, "c": c, "h_out": h_out, "c_out": c_out, "y": _State(y, y_row)}
        buffers = fixed.buffers | {n: state.ref for n, state in states.items()}
        buffers["gates"] = replace(projected, offset=projected.offset + 4 * at)
        params = {
            "time": time,
            "batch": layer.batch,
            "hidden": layer.hidden,
            "blocks": layer.blocks,
            "depth": layer.hidden,
            "gates_row": pitch,
            "gates_first": gates.start,
            "side_row": 2 * layer.width,
            "backwards": time % 2,
        }
        params |= {f"{n}_row": state.row for n, state in states.items()}
        return fixed.kernel.step(buffers, params, label=name)

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
