"""Normalisation layers with an operator of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.layout import Layout, layout_of
from autofusion_frontend_tensorflow.registry import converter

_BATCH_NORM = (
    ("FusedBatchNorm", ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")),
    ("FusedBatchNormV2", ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")),
    (
        "FusedBatchNormV3",
        ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"),
    ),
)


def normalised(call: Call, layout: Layout, x: Value, parameters: Sequence[Value], epsilon: float) -> Value:
    """BatchNormalization by stored statistics; ``parameters``: scale, offset, mean, variance."""
    first = layout.first(call, x)
    scale, offset, mean, variance = parameters
    return layout.back(
        call, call.emit("BatchNormalization", first, scale, offset, mean, variance, epsilon=float(epsilon))
    )


def fused_batch_norm(call: Call) -> list[Value]:
    """Attributes left out have TensorFlow's defaults, which differ from everybody else's: 1e-4, and training."""
    x, scale, offset, mean, variance = (call.operand(i) for i in range(5))
    rank = call.rank(x)
    layout = layout_of(call, rank - 2)
    epsilon = float(call.attr("epsilon", 1e-4))
    count = 6 if call.op.endswith("V3") else 5
    if not call.attr("is_training", True):
        y = normalised(call, layout, x, (scale, offset, mean, variance), epsilon)
        return [y, mean, variance, mean, variance, variance][:count]
    y, own_mean, own_variance = _by_batch(call, layout, x, scale, offset, epsilon)
    sample = call.emit("Mul", own_variance, _unbiased(call, x, own_mean))
    running = [_moved(call, mean, own_mean), _moved(call, variance, sample)]
    return [y, *running, own_mean, own_variance, own_variance][:count]


def _unbiased(call: Call, x: Value, mean: Value) -> Value:
    """n / (n - 1) for the n values of a channel: what makes their variance that of a sample. One for a single value."""
    n = call.cast(call.emit("Div", call.emit("Size", x), call.emit("Size", mean)), np.float32)
    one = call.const(1, np.float32)
    return call.cast(call.emit("Div", n, call.emit("Max", call.emit("Sub", n, one), one)), call.dtype(mean))


def _moved(call: Call, old: Value, new: Value) -> Value:
    """The running statistic after a batch; without a factor there is no old one, and its operand may be empty."""
    factor = float(call.attr("exponential_avg_factor", 1.0))
    if factor == 1:
        return new
    kept, added = call.like(1 - factor, old), call.like(factor, new)
    return call.emit("Add", call.emit("Mul", old, kept), call.emit("Mul", new, added))


for _op, _outputs in _BATCH_NORM:
    converter(_op, outputs=_outputs)(fused_batch_norm)


def _by_batch(
    call: Call, layout: Layout, x: Value, scale: Value, offset: Value, epsilon: float
) -> tuple[Value, Value, Value]:
    """Training mode: the statistics are those of the batch itself, as TensorFlow computes them too.

    Only the data may be of a narrower type; all else has that of the parameters.
    """
    narrow, x = call.dtype(x), call.cast(x, call.dtype(scale))
    axes = call.ints([0, *layout.axes])
    mean = call.emit("ReduceMean", x, axes, keepdims=1)
    centred = call.emit("Sub", x, mean)
    variance = call.emit("ReduceMean", call.emit("Mul", centred, centred), axes, keepdims=1)
    deviation = call.emit("Sqrt", call.emit("Add", variance, call.like(epsilon, x)))
    if not layout.last:
        scale, offset = (call.reshape(v, [-1, *[1] * layout.spatial]) for v in (scale, offset))
    y = call.emit("Add", call.emit("Mul", call.emit("Div", centred, deviation), scale), offset)
    flat = call.ints([-1])
    return call.cast(y, narrow), call.emit("Reshape", mean, flat), call.emit("Reshape", variance, flat)


@converter("BatchNormWithGlobalNormalization")
def global_normalisation(call: Call) -> Value:
    """Operands: input, mean, variance, beta, gamma; gamma counts only if the attribute says so."""
    x, mean, variance, beta, gamma = (call.operand(i) for i in range(5))
    if not call.attr("scale_after_normalization", True):
        gamma = call.emit("Div", gamma, gamma) if gamma.const is None else call.const(gamma.const * 0 + 1)
    epsilon = call.attr("variance_epsilon", 0.0)
    return normalised(call, Layout(True, call.rank(x) - 2), x, (gamma, beta, mean, variance), epsilon)


@converter("LRN")
def local_response(call: Call) -> Value:
    """The sum of squares is not divided by the window here, and it is in the IR."""
    radius = int(call.attr("depth_radius", 5))
    size = 2 * radius + 1
    layout = Layout(True, 2)
    value = call.emit(
        "LRN",
        layout.first(call, call.operand(0)),
        size=size,
        bias=float(call.attr("bias", 1.0)),
        alpha=float(call.attr("alpha", 1.0)) * size,
        beta=float(call.attr("beta", 0.5)),
    )
    return layout.back(call, value)


@converter("Softmax", "LogSoftmax")
def softmax(call: Call) -> Value:
    """Always along the last axis."""
    return call.emit(call.op, call.operand(0), axis=-1)


@converter("L2Loss")
def l2_loss(call: Call) -> Value:
    """Half the sum of squares."""
    x = call.operand(0)
    return call.emit("Mul", call.emit("ReduceSumSquare", x, keepdims=0), call.like(0.5, x))
