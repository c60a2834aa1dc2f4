"""Gather with indices that are only known when it runs: rows of any length, looked up one after the other.

An index out of range reads row 0 instead and is noted, so that nothing outside the tensor is ever touched; the kernel's
check raises afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from autofusion.ir.graph import Node
from autofusion.kernels import BindContext, Numerics, Offer, Operand, Refusal, Target, TensorView
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa, isa_of
from autofusion_kernels_cpu.codegen.values import I8, I64
from autofusion_kernels_cpu.estimate import roofline
from autofusion_kernels_cpu.movement.kernel import ITEMS, move_function
from autofusion_kernels_cpu.native.checks import IndexCheck
from autofusion_kernels_cpu.native.kernel import Kernel
from autofusion_kernels_cpu.native.program import NativeKernel
from autofusion_kernels_cpu.support import anew, operands, result, static

PARAMS = ("outer", "count", "size", "run", "workers")
NOTHING = int(np.iinfo(np.int64).min)
"""No index is that small: the value of the note as long as all were in range."""


def lookup_kernel(isa: Isa, index_bytes: int) -> Kernel:
    """`run` bytes for each of `count` indices into `size` rows, `outer` times."""

    def emit(f: Function) -> None:
        move = move_function(f.module)
        p = f.param
        first, last = nest.share(f, p["outer"] * p["count"], p["workers"])
        with f.loop(first, last) as unit:
            outer = f.udiv(unit.index, p["count"])
            loaded = f.load(f.buffer["indices"], unit.index - outer * p["count"], ITEMS[index_bytes])
            given = f.convert(loaded, I64)
            index = f.select(f.lt(given, 0), given + p["size"], given)
            inside = f.ult(index, p["size"])
            with f.when(~inside):
                f.store(given, f.buffer["note"])
            row = outer * p["size"] + f.select(inside, index, f.as_value(0, I64))
            source = f.at(f.buffer["source"], row * p["run"], I8)
            f.call(move, f.at(f.buffer["result"], unit.index * p["run"], I8), source, p["run"])

    return Kernel(f"gather_rows{index_bytes}", isa, "", ("source", "result", "indices", "note"), PARAMS, emit)


def lookup_offers(node: Node, target: Target) -> Sequence[Offer] | Refusal:
    """Gather by int32 or int64 indices that are not constant."""
    type_, indices, out = static(node, 0), static(node, 1), result(node)
    if type_ is None or indices is None or out is None:
        return Refusal("its shapes are not static")
    shape = type_.static_shape
    axis = int(node.attr("axis", 0)) % len(shape)
    if indices.dtype.itemsize not in (4, 8) or indices.dtype.kind != "i":
        return Refusal(f"its indices are {indices.dtype}, only int32 and int64 are supported")
    if not shape[axis] and out.numel:
        return Refusal("it looks up an axis without elements")
    run = math.prod(shape[axis + 1 :]) * type_.dtype.itemsize
    estimate = roofline(target, 0, 2 * out.nbytes)
    params = {
        "outer": math.prod(shape[:axis]),
        "count": indices.numel,
        "size": shape[axis],
        "run": run,
        "workers": estimate.workers,
    }
    size = shape[axis]
    told = (
        f"{node.label}: index ",
        f" is out of range for axis {axis}, expected {-size} to {size - 1}; check the indices that were fed",
    )

    def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> NativeKernel:
        source, given = inputs[0], inputs[1]
        assert source is not None and given is not None
        note = np.full(1, NOTHING, np.int64)
        kernel = lookup_kernel(isa_of(context.target), indices.dtype.itemsize)
        buffers = {"source": source, "result": outputs[0], "indices": given, "note": note}
        step = kernel.step(buffers, params, label="gather.rows", workers=estimate.workers)
        return NativeKernel((step,), IndexCheck(note, NOTHING, (told,)))

    seconds = max(estimate.seconds, out.nbytes / max(run, 1) * 4e-9 / target.threads)
    resize = partial(anew, lookup_offers, node, target)
    wanted = operands(node, {}), (Operand(),)
    return [Offer("gather.rows", *wanted, bind, seconds, numerics=Numerics.EXACT, resize=resize)]
