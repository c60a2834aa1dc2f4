"""RotaryEmbedding: pairs of elements turned by the angles of their row's position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels import BindContext, InputError, Numerics, Offer, Operand, Refusal, Target, TensorView
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.codegen.values import F32, I64
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.indexed.kernel import NOTHING
from autofusion_kernels_cpu.movement.kernel import ITEMS, move_function
from autofusion_kernels_cpu.native.kernel import Kernel, Source, structure_text
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.support import operands, static

_PARAMS = (
    "batch", "heads", "rows", "head_pitch", "row_pitch", "size", "half", "table_pitch", "positions", "workers",
)  # fmt: skip


def rotary_kernel(isa: Isa, interleaved: bool, index_bytes: int) -> Kernel:
    """Rows of `size` elements at strides of heads and rows, of which the first 2 * `half` are turned."""
    emit = partial(_emit, interleaved=interleaved, index_bytes=index_bytes)
    buffers = ("x", "cos", "sin", "where", "y", "note")
    return Kernel("rotary", isa, structure_text(interleaved, index_bytes), buffers, _PARAMS, emit)


def _emit(f: Function, interleaved: bool, index_bytes: int) -> None:
    p = f.param
    move = move_function(f.module)
    first, last = nest.share(f, p["batch"] * p["heads"] * p["rows"], p["workers"])
    with f.loop(first, last) as unit:
        line = f.udiv(unit.index, p["rows"])
        row, image = unit.index - line * p["rows"], f.udiv(line, p["heads"])
        origin = image * p["heads"] * p["rows"] * p["size"]
        origin = origin + (line - image * p["heads"]) * p["head_pitch"] + row * p["row_pitch"]
        place = f.convert(f.load(f.buffer["where"], image * p["rows"] + row, ITEMS[index_bytes]), I64)
        place = f.select(place < 0, place + p["positions"], place)
        known = f.ult(place, p["positions"])
        with f.when(~known):
            f.store(place, f.buffer["note"])
        x, y = f.at(f.buffer["x"], origin), f.at(f.buffer["y"], origin)
        table = f.select(known, place, f.const(0, I64)) * p["table_pitch"]
        cos, sin = f.at(f.buffer["cos"], table), f.at(f.buffer["sin"], table)
        if interleaved:
            with f.loop(0, p["half"]) as pair:
                a, b = (f.load(x, pair.index * 2 + i, F32) for i in range(2))
                c, s = f.load(cos, pair.index, F32), f.load(sin, pair.index, F32)
                f.store(c * a - s * b, y, pair.index * 2)
                f.store(s * a + c * b, y, pair.index * 2 + 1)
        else:
            with f.vector_loop(0, p["half"]) as part:
                mask = part.mask
                a, b = f.load(x, part.index, mask=mask), f.load(x, p["half"] + part.index, mask=mask)
                c, s = f.load(cos, part.index, mask=mask), f.load(sin, part.index, mask=mask)
                f.store(c * a - s * b, y, part.index, mask=mask)
                f.store(s * a + c * b, y, p["half"] + part.index, mask=mask)
        f.call(move, f.at(y, p["half"] * 2), f.at(x, p["half"] * 2), (p["size"] - p["half"] * 2) * 4)


def rotary_offer(node: Node, x: TensorType, y: TensorType, target: Target) -> Sequence[Offer] | Refusal:
    """Float32 with plain operands."""
    types = [static(node, i) for i in range(3)]
    where = static(node, 3)
    if any(t is None or t.dtype != np.float32 for t in types):
        return Refusal("only float32 is supported")
    if where is not None and where.dtype not in (np.int32, np.int64):
        return Refusal(f"its positions are {where.dtype}, only int32 and int64 are supported")
    cos = types[1]
    assert cos is not None and types[2] is not None
    flat = len(x.static_shape) == 3
    if y.static_shape != x.static_shape or len(x.static_shape) not in (3, 4):
        return Refusal("its operand does not have 3 or 4 axes")
    heads = int(node.attr("num_heads") or 0) if flat else x.static_shape[1]
    if not heads or x.static_shape[-1] % heads * flat:
        return Refusal("the number of its heads is not stated")
    batch, rows = x.static_shape[0], x.static_shape[1 if flat else 2]
    size = x.static_shape[-1] // heads if flat else x.static_shape[-1]
    half = (int(node.attr("rotary_embedding_dim", 0)) or size) // 2
    if not 0 < 2 * half <= size:
        return Refusal("it turns more elements than a head has")
    table = cos.static_shape
    fits = table == types[2].static_shape and table[-1] >= half and len(table) == (3 if where is None else 2)
    if not fits or (where is None and table[:2] != (batch, rows)) or (where and where.static_shape != (batch, rows)):
        return Refusal("its angles do not have the usual shape")
    estimate = roofline(target, 6 * x.numel, 2 * x.nbytes)
    params = {
        "batch": batch,
        "heads": heads,
        "rows": rows,
        "head_pitch": size if flat else rows * size,
        "row_pitch": heads * size if flat else size,
        "size": size,
        "half": half,
        "table_pitch": table[-1],
        "positions": cos.numel // max(table[-1], 1),
        "workers": estimate.workers,
    }
    counted = None if where is not None else np.arange(batch * rows, dtype=np.int64)
    bytes_ = 8 if where is None else where.dtype.itemsize
    label, positions = node.label, params["positions"]

    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
        note = np.full(1, NOTHING, np.int64)

        def check() -> None:
            place, note[0] = int(note[0]), NOTHING
            if place != NOTHING:
                raise InputError(
                    f"{label}: position {place} is out of range, expected 0 to {positions - 1}; check what was fed"
                )

        buffers: dict[str, Source] = {"y": outputs[0], "note": note}
        for name, view in zip(("x", "cos", "sin", "where"), (*inputs[:3], inputs[3] if where else None), strict=True):
            source = counted if view is None else view
            assert source is not None
            buffers[name] = source
        code = rotary_kernel(isa_of(context.target), bool(node.attr("interleaved", 0)), bytes_)
        return NativeKernel((code.step(buffers, params, label="rotary", workers=estimate.workers),), check)

    return [Offer("rotary", operands(node, {}), (Operand(),), bind, estimate.seconds, numerics=Numerics.REASSOCIATED)]
