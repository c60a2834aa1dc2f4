"""Offers for the indexed operators, and their kernels bound to memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels import BindContext, InputError, Numerics, Offer, Operand, Refusal, Target, dense_strides
from autofusion.kernels import TensorView as View
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.estimate import Estimate, roofline
from autofusion_kernels_cpu.indexed import kernel
from autofusion_kernels_cpu.indexed.kernel import NOTHING, Form
from autofusion_kernels_cpu.indexed.rotary import rotary_offer
from autofusion_kernels_cpu.movement.bind import copy_steps
from autofusion_kernels_cpu.movement.box import Box
from autofusion_kernels_cpu.movement.problem import Move
from autofusion_kernels_cpu.native.kernel import Kernel, Source
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.support import constant_ints, operands, result, static

_ELEMENT_SECONDS = 2e-9
"""Of one thread for an element that is written on its own."""
_COUNTED = ("f4", "f8", "i4", "i8")


def offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Plain tensors of static shape with elements of 1, 2, 4 or 8 bytes."""
    x, y = static(node, 0), result(node)
    if x is None or y is None or any(v is not None and static(node, i) is None for i, v in enumerate(node.inputs)):
        return Refusal("its shapes are not static")
    if not x.numel or not y.numel:
        return Refusal("it has no elements")
    if x.dtype.kind not in "biufV" or x.dtype.itemsize not in (1, 2, 4, 8):
        return Refusal(f"it moves elements of type {x.dtype}")
    if x.numel >= 1 << 31:
        return Refusal("it is larger than an index of four bytes reaches")
    if not _fits(node, x, y):
        return Refusal("its operands do not fit each other")
    return OFFERS[node.op](node, x, y, target)


def _fits(node: Node, x: TensorType, y: TensorType) -> bool:
    """False where the shapes of the operands would lead outside of them; what is wrong is the reference's to say."""
    shape, others = x.static_shape, [static(node, i) for i in range(1, len(node.inputs))]
    first, second = [*(t.static_shape if t else None for t in others), None, None][:2]
    if node.op in ("GatherElements", "ScatterElements", "Scatter"):
        axis = int(node.attr("axis", 0))
        if not shape or first is None or len(first) != len(shape) or not -len(shape) <= axis < len(shape):
            return False
        inside = all(n <= m for i, (n, m) in enumerate(zip(first, shape, strict=True)) if i != axis % len(shape))
        return inside and (first == y.static_shape if second is None else first == second)
    if node.op == "ScatterND":
        depth = first[-1] if first else 0
        return first is not None and 0 < depth <= len(shape) and second == (*first[:-1], *shape[depth:])
    if node.op == "MaxUnpool":
        return first == shape
    if node.op == "ReverseSequence":
        return len(shape) > 1 and first == (shape[int(node.attr("batch_axis", 1))],)
    if node.op == "TensorScatter":
        axis = int(node.attr("axis", -2)) % len(shape)
        fits = first is not None and len(first) == len(shape) and first[axis] <= shape[axis]
        return (
            fits and (*first[:axis], *first[axis + 1 :]) == (*shape[:axis], *shape[axis + 1 :]) and second == shape[:1]
        )
    return x.static_shape == y.static_shape


class _Step:
    """One kernel's step, with the operands that it reads and a note of an index that is out of range."""

    def __init__(
        self,
        make: Callable[..., Kernel],
        form: Sequence[object],
        buffers: Mapping[str, int],
        params: Mapping[str, int],
        data: Sequence[int] = (),
        expected: str = "",
    ) -> None:
        self.make, self.form, self.buffers, self.params = make, form, buffers, params
        self.data, self.expected = list(data), expected

    def offer(
        self,
        node: Node,
        estimate: Estimate,
        numerics: Numerics = Numerics.EXACT,
        before: Callable[[Sequence[View | None], View], list[Move]] | None = None,
    ) -> list[Offer]:
        """The only offer; `before` says what the result holds when the step begins."""
        name = f"indexed.{node.op}"

        def bind(context: BindContext, inputs: Sequence[View | None], outputs: Sequence[View]) -> NativeKernel:
            note = np.full(1, NOTHING, np.int64)
            sources: dict[str, Source] = {"y": outputs[0]}
            for buffer, index in self.buffers.items():
                view = inputs[index]
                assert view is not None
                sources[buffer] = view
            if self.expected:
                sources["note"] = note
            steps = copy_steps(before(inputs, outputs[0]), context.target, name) if before else []
            code = self.make(isa_of(context.target), *self.form)
            steps.append(code.step(sources, self.params, self.data, label=name, workers=estimate.workers))
            return NativeKernel(tuple(steps), partial(self._check, node.label, note) if self.expected else None)

        return [Offer(name, operands(node, {}), (Operand(),), bind, estimate.seconds, numerics=numerics)]

    def _check(self, label: str, note: np.ndarray) -> None:
        index, note[0] = int(note[0]), NOTHING
        if index != NOTHING:
            raise InputError(
                f"{label}: index {index} is out of range, {self.expected}; check the indices that were fed"
            )


def _index_bytes(node: Node, index: int) -> int | None:
    type_ = static(node, index)
    return type_.dtype.itemsize if type_ is not None and type_.dtype in (np.int32, np.int64) else None


_NO_INDEX = Refusal("its indices are not int32 or int64")


def _whole(inputs: Sequence[View | None], y: View) -> list[Move]:
    """The first operand, all of it."""
    source, count = inputs[0], y.type.numel
    assert source is not None
    return [Move(source, y, Box((count,), (1,), (1,)))]


def _zeros(inputs: Sequence[View | None], y: View) -> list[Move]:
    return [Move(np.zeros(1, y.type.dtype), y, Box((y.type.numel,), (0,), (1,)))]


def _rows(shape: Sequence[int], strides: Sequence[Sequence[int]], workers: int) -> list[int]:
    """The data of a nest over all axes but the last."""
    axes = nest.collapse(shape[:-1], [s[:-1] for s in strides])
    return nest.row_parameters(axes, len(strides), workers)


def _range(size: int, axis: int) -> str:
    return f"expected {-size} to {size - 1} for axis {axis}"


def _gather_elements(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    width = _index_bytes(node, 1)
    if width is None or x.dtype.itemsize < 4:
        return _NO_INDEX if width is None else Refusal(f"it gathers elements of {x.dtype.itemsize} bytes")
    shape, rank = x.static_shape, len(x.static_shape)
    axis = int(node.attr("axis", 0)) % rank
    strides = dense_strides(shape)
    estimate = roofline(target, y.numel * target.lanes, 2 * y.nbytes)
    moved = tuple(0 if i == axis else s for i, s in enumerate(strides))
    own = dense_strides(y.static_shape)
    params = {"size": shape[axis], "pitch": strides[axis], "step": int(axis != rank - 1), "count": y.static_shape[-1]}
    data = _rows(y.static_shape, [moved, own, own], estimate.workers)
    buffers = {"x": 0, "indices": 1}
    form = (Form(np.dtype(f"i{x.dtype.itemsize}"), width),)
    step = _Step(kernel.gather_elements_kernel, form, buffers, params, data, _range(shape[axis], axis))
    return step.offer(node, estimate)


def _combined(node: Node, x: TensorType, width: int) -> Form | Refusal:
    reduction = node.attr("reduction", "none")
    if reduction == "none":
        return Form(np.dtype(f"i{x.dtype.itemsize}"), width)
    if x.dtype.str[1:] not in _COUNTED:
        return Refusal(f"it combines {x.dtype}, only 4- and 8-byte numbers that are not unsigned are supported")
    return Form(x.dtype, width, reduction)


def _scatter_elements(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    width, updates = _index_bytes(node, 1), static(node, 2)
    if width is None or updates is None:
        return _NO_INDEX
    form = _combined(node, x, width)
    if isinstance(form, Refusal):
        return form
    if not updates.numel:
        return Refusal("it has no updates")
    shape, rank = x.static_shape, len(x.static_shape)
    axis = int(node.attr("axis", 0)) % rank
    strides, own = dense_strides(shape), dense_strides(updates.static_shape)
    last = axis == rank - 1
    # Rows write to the same elements unless the axis is the one that they lie along.
    alone = updates.numel * _ELEMENT_SECONDS
    workers = target.threads if last and alone > 2e-5 else 1
    moved = tuple(0 if i == axis else s for i, s in enumerate(strides))
    params = {"size": shape[axis], "pitch": strides[axis], "step": int(not last), "count": updates.static_shape[-1]}
    data = _rows(updates.static_shape, [own, own, moved], workers)
    step = _Step(
        kernel.scatter_elements_kernel, (form,), {"indices": 1, "updates": 2}, params, data, _range(shape[axis], axis)
    )
    estimate = Estimate(alone / workers + roofline(target, 0, 2 * x.nbytes).seconds, workers)
    return step.offer(node, estimate, _numerics(form), _whole)


def _numerics(form: Form) -> Numerics:
    return Numerics.REASSOCIATED if form.reduction != "none" and form.dtype.kind == "f" else Numerics.EXACT


def _scatter_nd(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    width, indices, updates = _index_bytes(node, 1), static(node, 1), static(node, 2)
    if width is None or indices is None or updates is None:
        return _NO_INDEX
    form = _combined(node, x, width)
    if isinstance(form, Refusal):
        return form
    depth = indices.static_shape[-1]
    if not updates.numel or not depth:
        return Refusal("it has no updates")
    run = math.prod(x.static_shape[depth:])
    rows = indices.numel // depth
    strides = dense_strides(x.static_shape)
    traffic = roofline(target, 0, 2 * updates.nbytes)
    workers = traffic.workers if run * x.dtype.itemsize >= 4096 else 1
    data = [number for k in range(depth) for number in (x.static_shape[k], strides[k])]
    params = {"rows": rows, "depth": depth, "run": run, "workers": workers}
    expected = f"expected one inside [{', '.join(map(str, x.static_shape[:depth]))}]"
    step = _Step(kernel.scatter_rows_kernel, (form,), {"indices": 1, "updates": 2}, params, data, expected)
    seconds = rows * depth * _ELEMENT_SECONDS + traffic.seconds + roofline(target, 0, 2 * x.nbytes).seconds
    return step.offer(node, Estimate(seconds, workers), _numerics(form), _whole)


def _max_unpool(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    width = _index_bytes(node, 1)
    if width is None or node.operand(2) is not None:
        return _NO_INDEX if width is None else Refusal("its result is padded to a given shape")
    params = {"size": y.numel, "pitch": 1, "step": 0, "count": x.numel}
    data = nest.row_parameters([], 3, 1)
    form = (Form(np.dtype(f"i{x.dtype.itemsize}"), width),)
    buffers = {"indices": 1, "updates": 0}
    step = _Step(kernel.scatter_elements_kernel, form, buffers, params, data, f"expected 0 to {y.numel - 1}")
    return step.offer(node, Estimate(x.numel * _ELEMENT_SECONDS, 1), before=_zeros)


def _reverse_sequence(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    width = _index_bytes(node, 1)
    batch, time = int(node.attr("batch_axis", 1)), int(node.attr("time_axis", 0))
    if width is None or {batch, time} != {0, 1}:
        return _NO_INDEX if width is None else Refusal("its time and batch are not the first two axes")
    estimate = roofline(target, 0, 2 * x.nbytes)
    outer, inner, *rest = x.static_shape
    params = {
        "outer": outer,
        "inner": inner,
        "run": math.prod(rest) * x.dtype.itemsize,
        "time_first": int(time == 0),
        "workers": estimate.workers,
    }
    expected = f"expected a length of 0 to {x.static_shape[time]}"
    step = _Step(kernel.turn_kernel, (Form(np.dtype("i1"), width),), {"x": 0, "lengths": 1}, params, (), expected)
    return step.offer(node, estimate)


def _tensor_scatter(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    width, updates = _index_bytes(node, 2), static(node, 1)
    axis = int(node.attr("axis", -2)) % len(x.static_shape)
    if width is None or updates is None or not axis:
        return _NO_INDEX
    if not updates.numel:
        return Refusal("it has no updates")
    shape = x.static_shape
    params = {
        "batch": shape[0],
        "outer": math.prod(shape[1:axis]),
        "length": updates.static_shape[axis],
        "size": shape[axis],
        "run": math.prod(shape[axis + 1 :]) * x.dtype.itemsize,
        "circular": int(node.attr("mode", "linear") == "circular"),
        "workers": 1,
    }
    expected = f"expected the update to lie inside 0 to {shape[axis] - 1} of axis {axis}"
    buffers = {"updates": 1, "starts": 2}
    step = _Step(kernel.cache_kernel, (Form(np.dtype("i1"), width),), buffers, params, (), expected)
    return step.offer(node, Estimate(roofline(target, 0, 2 * x.nbytes).seconds, 1), before=_whole)


def _trilu(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    diagonal = constant_ints(node, 1) if node.operand(1) is not None else [0]
    if diagonal is None or len(x.static_shape) < 2:
        return Refusal("its diagonal is not constant")
    estimate = roofline(target, 0, 2 * x.nbytes)
    rows, columns = x.static_shape[-2:]
    params = {
        "matrices": x.numel // (rows * columns),
        "rows": rows,
        "columns": columns,
        "diagonal": max(-rows - columns, min(diagonal[0], rows + columns)),
        "upper": int(bool(node.attr("upper", 1))),
        "workers": estimate.workers,
    }
    form = (Form(np.dtype(f"i{x.dtype.itemsize}"), 8),)
    return _Step(kernel.triangle_kernel, form, {"x": 0}, params).offer(node, estimate)


def _running(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    axis = constant_ints(node, 1)
    if axis is None or x.dtype.str[1:] not in _COUNTED:
        return Refusal("its axis is not constant, or it is not in 4- or 8-byte numbers")
    rank = len(x.static_shape)
    if not -rank <= axis[0] < rank:
        return Refusal("its axis is out of range")
    at = axis[0] % rank
    size, inner = x.static_shape[at], math.prod(x.static_shape[at + 1 :])
    back = bool(node.attr("reverse", 0))
    estimate = roofline(target, x.numel * target.lanes * (4 if inner == 1 else 0.5), 2 * x.nbytes)
    params = {
        "outer": math.prod(x.static_shape[:at]),
        "size": size,
        "inner": inner,
        "start": (size - 1) * inner if back else 0,
        "pitch": -inner if back else inner,
        "workers": estimate.workers,
    }
    form = (x.dtype, node.op == "CumProd", bool(node.attr("exclusive", 0)))
    return _Step(kernel.running_kernel, form, {"x": 0}, params).offer(node, estimate)


OFFERS: Mapping[str, Callable[[Node, TensorType, TensorType, Target], Sequence[Offer] | Refusal]] = {
    "CumProd": _running,
    "CumSum": _running,
    "GatherElements": _gather_elements,
    "MaxUnpool": _max_unpool,
    "ReverseSequence": _reverse_sequence,
    "RotaryEmbedding": rotary_offer,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "Trilu": _trilu,
}
