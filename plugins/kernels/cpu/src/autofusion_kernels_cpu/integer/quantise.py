"""DynamicQuantizeLinear: the range of a tensor, then its elements in that range as unsigned bytes.

The range always has zero in it. In float32, as the operator says::

    scale = (high - low) / 255                          1 if that is 0
    zero = saturate(round_half_to_even(-low / scale))
    y = saturate(round_half_to_even(x / scale) + zero)
"""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.kernels import BindContext, TensorView
from autofusion_kernels_cpu.codegen import nest
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import F32, I8, I32, Value
from autofusion_kernels_cpu.native.kernel import Kernel
from autofusion_kernels_cpu.native.program import NativeKernel

LINE = 16
"""Floats in a cache line: what each thread finds has one of its own."""
UNROLL = 4
PARAMETERS = ("count", "workers")


def scratch_bytes(workers: int) -> int:
    """Memory for the lowest and the highest element that each thread finds."""
    return workers * LINE * 4


def range_kernel(isa: Isa) -> Kernel:
    """Buffers: x dense; the lowest and the highest element of each thread's part, and zero, a line each."""
    return Kernel("integer.range", isa, "", ("x", "found"), PARAMETERS, _emit_range)


def bytes_kernel(isa: Isa) -> Kernel:
    """Buffers: x dense, what ``range_kernel`` found, the results."""
    return Kernel("integer.quantise", isa, "", ("x", "found", "y", "scale", "zero"), PARAMETERS, _emit_bytes)


def bind(
    isa: Isa,
    workers: int,
    context: BindContext,
    inputs: Sequence[TensorView | None],
    outputs: Sequence[TensorView],
) -> NativeKernel:
    """Two steps over all elements."""
    x = inputs[0]
    assert x is not None and context.scratch is not None
    params = {"count": x.type.numel, "workers": workers}
    found = range_kernel(isa).step({"x": x, "found": context.scratch}, params, workers=workers)
    buffers = {"x": x, "found": context.scratch, "y": outputs[0], "scale": outputs[1], "zero": outputs[2]}
    return NativeKernel((found, bytes_kernel(isa).step(buffers, params, workers=workers)))


def _emit_range(f: Function) -> None:
    first, last = nest.share(f, f.param["count"], f.param["workers"])
    x, stride = f.buffer["x"], f.lanes * UNROLL
    whole = first + ((last - first) & -stride)
    with f.loop(first, whole, step=stride, carry=[f.zero] * (2 * UNROLL)) as loop:
        vectors = [f.load(x, loop.index + i * f.lanes) for i in range(UNROLL)]
        lows = [f.min(v, low) for v, low in zip(vectors, loop.carried[:UNROLL], strict=True)]
        highs = [f.max(v, high) for v, high in zip(vectors, loop.carried[UNROLL:], strict=True)]
        loop.next(*lows, *highs)
    low, high = loop.results[0], loop.results[UNROLL]
    for i in range(1, UNROLL):
        low, high = f.min(low, loop.results[i]), f.max(high, loop.results[UNROLL + i])
    with f.loop(whole, last, step=f.lanes, carry=[low, high]) as rest:
        v = f.load(x, rest.index, mask=f.tail_mask(last - rest.index))
        rest.next(f.min(v, rest.carried[0]), f.max(v, rest.carried[1]))
    low, high = rest.results
    with f.when(f.lt(f.thread, f.param["workers"])):
        at = f.thread * LINE
        f.store(f.reduce("min", low), f.buffer["found"], at)
        f.store(f.reduce("max", high), f.buffer["found"], at + 1)


def _emit_bytes(f: Function) -> None:
    active = f.min(f.threads, f.param["workers"])
    start = f.const(0.0, F32)
    with f.loop(0, active, carry=[start, start]) as loop:
        found = f.at(f.buffer["found"], loop.index * LINE)
        low, high = loop.carried
        loop.next(f.min(f.load(found, 0, F32), low), f.max(f.load(found, 1, F32), high))
    low, high = loop.results
    scale = (high - low) / 255.0
    scale = f.select(f.eq(scale, 0.0), f.const(1.0, F32), scale)
    zero = _saturated(f, f.rint(f.neg(low) / scale))
    with f.when(f.eq(f.thread, 0)):
        f.store(scale, f.buffer["scale"])
        f.store(_byte(f, zero), f.buffer["zero"])
    scales, zeros = f.splat(scale, f.lanes), f.splat(zero, f.lanes)
    first, last = nest.share(f, f.param["count"], f.param["workers"])
    x, y = f.buffer["x"], f.buffer["y"]
    whole = first + ((last - first) & -f.lanes)
    with f.loop(first, whole, step=f.lanes) as each:
        f.store(_byte(f, _saturated(f, f.rint(f.load(x, each.index) / scales) + zeros)), y, each.index)
    with f.loop(whole, last, step=f.lanes) as rest:
        mask = f.tail_mask(last - rest.index)
        value = _byte(f, _saturated(f, f.rint(f.load(x, rest.index, mask=mask) / scales) + zeros))
        f.store(value, y, rest.index, mask=mask)


def _saturated(f: Function, x: Value) -> Value:
    """``x`` in 0..255; 0 where it is NaN."""
    return f.min(f.select(x > 0.0, x, 0.0), 255)


def _byte(f: Function, x: Value) -> Value:
    """A whole number in 0..255 as a byte."""
    # The conversion that saturates would do so again.
    whole = f.emit(f"fptosi {x} to {x.type.with_element(I32)}", x.type.with_element(I32))
    return f.convert(whole, I8)
