"""Moves on images: convolutions and what stands around them, pooling, resizing.

A spelling comes with its near-misses: another constant, another axis, a factor that enlarges.
"""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from tests.fuzz.fuzz_make import Make, Skip
from tests.fuzz.fuzz_moves import move, scaled
from tests.fuzz.fuzz_operators import batch_norm, reduce_keep, softmax_op
from tests.fuzz.fuzz_pointwise import activation, arithmetic, unary


def _pads(m: Make, spatial: int) -> dict[str, object]:
    kind = m.choose("none", "same", "same", "odd", "auto")
    if kind == "none":
        return {}
    if kind == "auto":
        return {"auto_pad": m.choose("SAME_UPPER", "SAME_LOWER", "VALID")}
    if kind == "same":
        return {"pads": [m.int(0, 2)] * (2 * spatial)}
    return {"pads": [m.int(0, 2) for _ in range(2 * spatial)]}


def conv(m: Make, x: Value, out: int | None = None, kernel: int | None = None) -> Value:
    shape = m.shape(x)
    spatial = len(shape) - 2
    channels = shape[1]
    divisors = [g for g in range(1, channels + 1) if channels % g == 0] or [1]
    group = m.choose(1, 1, 1, channels or 1, m.choose(*divisors))
    outputs = out or group * m.int(1, 4) if group > 1 else (out or m.choose(1, 2, 3, 5, 8, 16, 17, 24))
    if out is not None and out % group:
        group = 1
    sizes = [kernel or m.choose(1, 1, 2, 3, 3, 5) for _ in range(spatial)]
    attrs: dict[str, object] = {}
    if group > 1:
        attrs["group"] = group
    if kernel is None:
        attrs |= _pads(m, spatial)
        if m.maybe(0.3):
            attrs["strides"] = [m.int(1, 3) for _ in range(spatial)]
        if m.maybe(0.2) and "auto_pad" not in attrs:
            attrs["dilations"] = [m.int(1, 2) for _ in range(spatial)]
    weight = m.const(scaled(m.array((outputs, channels // group, *sizes), m.dtype(x))), m.dtype(x))
    bias = m.const(m.array((outputs,)), m.dtype(x)) if m.maybe(0.6) else None
    return m.op("Conv", x, weight, *([bias] if bias is not None else []), **attrs)


def image(m: Make) -> Value:
    return m.pick(lambda v: m.is_float(v) and len(m.shape(v)) in (3, 4, 5) and min(m.shape(v)[1:]) > 0)


@move("image")
def convolution(m: Make) -> None:
    m.keep(conv(m, image(m)))


@move("image")
def conv_and_affine(m: Make) -> None:
    """Convolution, then BatchNormalization or its spellings, then an activation."""
    y = conv(m, image(m))
    if m.maybe(0.15):
        m.keep(y)
    for _ in range(m.int(1, 3)):
        y = m.choose(batch_norm, arithmetic, activation)(m, y)
    m.keep(y)


@move("image")
def affine_and_conv(m: Make) -> None:
    y = arithmetic(m, image(m))
    m.keep(conv(m, y))


@move("image")
def pad_and_conv(m: Make) -> None:
    y = pad(m, image(m))
    m.keep(m.choose(conv, conv, pool)(m, y))


@move("image")
def residual_block(m: Make) -> None:
    x = image(m)
    y = conv(m, x, out=m.shape(x)[1], kernel=1)
    if m.maybe(0.5):
        y = batch_norm(m, y)
    y = m.op("Add", y, x) if m.maybe(0.5) else m.op("Add", x, y)
    m.keep(activation(m, y) if m.maybe(0.7) else y)


@move("image")
def squeeze_excite(m: Make) -> None:
    x = image(m)
    channels = m.shape(x)[1]
    g = m.choose(
        lambda: m.op("GlobalAveragePool", x),
        lambda: m.op("ReduceMean", x, m.ints(*range(2, len(m.shape(x)))), keepdims=1),
    )()
    g = m.op("Relu", conv(m, g, out=m.int(1, 4), kernel=1))
    g = m.op(m.choose("Sigmoid", "HardSigmoid"), conv(m, g, out=channels, kernel=1))
    m.keep(m.op("Mul", x, g) if m.maybe(0.5) else m.op("Mul", g, x))


@move("image")
def split_concat(m: Make) -> None:
    """Halves, work on one of them, concatenation; residuals that read pieces."""
    x = image(m)
    channels = m.shape(x)[1]
    if channels < 2:
        raise Skip("one channel")
    first = channels // 2 if m.maybe(0.7) else m.int(1, channels - 1)
    if m.maybe(0.5):
        a, b = m.ops("Split", x, m.ints(first, channels - first), outputs=2, axis=1)
    else:
        a = m.op("Slice", x, m.ints(0), m.ints(first), m.ints(1))
        b = m.op("Slice", x, m.ints(first), m.ints(1 << 40), m.ints(m.choose(1, 1 - len(m.shape(x)))))
    c = conv(m, b, out=m.shape(b)[1], kernel=1)
    if m.maybe(0.6):
        c = m.op("Add", c, b)
    if m.maybe(0.5):
        c = activation(m, c)
    parts = m.choose([a, b, c], [a, c], [c, a], [c, c, b], [a, a, c])
    y = m.op("Concat", *parts, axis=m.choose(1, 1, 1 - len(m.shape(x))))
    m.keep(*([c] if m.maybe(0.3) else []), *([b] if m.maybe(0.2) else []), y)
    if m.maybe(0.6):
        m.keep(conv(m, y))


@move("image")
def conv_transpose(m: Make) -> None:
    x = image(m)
    channels = m.shape(x)[1]
    spatial = len(m.shape(x)) - 2
    group = m.choose(1, 1, *[g for g in range(1, channels + 1) if channels % g == 0])
    strides = [m.int(1, 3) for _ in range(spatial)]
    attrs: dict[str, object] = {"strides": strides, "group": group}
    if m.maybe(0.3):
        attrs["auto_pad"] = m.choose("SAME_UPPER", "SAME_LOWER", "VALID")
    elif m.maybe(0.6):
        attrs["pads"] = [m.int(0, 1) for _ in range(2 * spatial)]
    if m.maybe(0.3):
        attrs["output_padding"] = [m.int(0, s - 1) for s in strides]
    if m.maybe(0.2):
        attrs["dilations"] = [m.int(1, 2) for _ in range(spatial)]
    weight = scaled(m.array((channels, m.int(1, 4), *[m.int(1, 3) for _ in range(spatial)])))
    bias = [m.const(m.array((weight.shape[1] * group,)), m.dtype(x))] if m.maybe(0.5) else []
    y = m.op("ConvTranspose", x, m.const(weight, m.dtype(x)), *bias, **attrs)
    for _ in range(m.int(0, 2)):
        y = m.choose(batch_norm, arithmetic, activation)(m, y)
    m.keep(y)


@move("image")
def lone_batch_norm(m: Make) -> None:
    m.keep(batch_norm(m, m.pick_float(least=2)))


def pool(m: Make, x: Value) -> Value:
    spatial = len(m.shape(x)) - 2
    if spatial < 1:
        raise Skip("no image")
    op = m.choose("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")
    kernel = [m.int(1, 3) for _ in range(spatial)]
    attrs: dict[str, object] = {"kernel_shape": kernel}
    if m.maybe(0.7):
        attrs["strides"] = [m.int(1, 3) for _ in range(spatial)]
    if m.maybe(0.3):
        attrs["auto_pad"] = m.choose("SAME_UPPER", "SAME_LOWER", "VALID")
    elif m.maybe(0.6):
        attrs["pads"] = [m.int(0, k - 1) for k in kernel] + [m.int(0, k - 1) for k in kernel]
    if m.maybe(0.3) and "auto_pad" not in attrs:
        attrs["ceil_mode"] = 1
    if m.maybe(0.2) and op != "LpPool":
        attrs["dilations"] = [m.int(1, 2) for _ in range(spatial)]
    if op == "AveragePool" and m.maybe(0.4):
        attrs["count_include_pad"] = 1
    if op == "MaxPool" and m.maybe(0.15):
        values = m.ops(op, x, outputs=2, **attrs)
        m.keep(values[1])
        return values[0]
    return m.op(op, x, **attrs)


@move("image")
def pooling(m: Make) -> None:
    m.keep(pool(m, image(m)))


@move("image")
def global_pooling(m: Make) -> None:
    x = image(m)
    rank = len(m.shape(x))
    y = m.choose(
        lambda: m.op(m.choose("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), x),
        lambda: m.op("ReduceMean", x, m.ints(*range(2, rank)), keepdims=m.int(0, 1)),
        lambda: m.op("ReduceMean", x, m.ints(-1, *range(2, rank - 1)), keepdims=m.int(0, 1)),
    )()
    m.keep(y)
    if m.maybe(0.5):
        y = m.op("Flatten", y, axis=m.choose(1, 1, 0, -1)) if m.maybe(0.5) else y
        if len(m.shape(y)) == 2:
            m.keep(m.op("Gemm", y, m.const(m.array((m.shape(y)[1], 5))), m.const(m.array((5,)))))


def pad(m: Make, x: Value) -> Value:
    rank = len(m.shape(x))
    mode = m.choose("constant", "constant", "constant", "edge", "reflect", "wrap")
    low = [m.choose(0, 1, 2, -1) if i >= 2 or m.maybe(0.08) else 0 for i in range(rank)]
    high = [m.choose(0, 1, 2, -1) if i >= 2 or m.maybe(0.08) else 0 for i in range(rank)]
    operands: list[Value | None] = [x]
    if m.maybe(0.2) and rank > 2:
        operands += [
            m.ints(*low[2:], *high[2:]),
            None,
            m.ints(*[i - rank if m.maybe(0.5) else i for i in range(2, rank)]),
        ]
    else:
        operands.append(m.ints(*low, *high))
    if mode == "constant" and m.maybe(0.4):
        value = m.const(m.choose(0.0, 0.0, -0.0, 1.5, -np.inf if m.specials else -3.0), m.dtype(x), fixed=True)
        operands = [*operands[:2], value, *operands[3:]]
    return m.op("Pad", *operands, mode=mode)


@move("movement")
def padding(m: Make) -> None:
    m.keep(pad(m, m.pick_float(least=1)))


@move("image")
def resize(m: Make) -> None:
    x = image(m)
    rank = len(m.shape(x))
    mode = m.choose("nearest", "nearest", "linear", "cubic")
    if mode == "cubic" and rank != 4:
        raise Skip("cubic")
    attrs: dict[str, object] = {
        "mode": mode,
        "coordinate_transformation_mode": m.choose(
            "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
        ),
    }
    if mode == "nearest":
        attrs["nearest_mode"] = m.choose("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if m.maybe(0.5):
        scales = [1.0, 1.0, *[m.choose(1.0, 2.0, 2.0, 0.5, 1.5) for _ in range(rank - 2)]]
        m.keep(m.op("Resize", x, None, m.const(scales, fixed=True), **attrs))
    else:
        sizes = [*m.shape(x)[:2], *[m.int(1, 9) for _ in range(rank - 2)]]
        m.keep(m.op("Resize", x, None, None, m.ints(*sizes), **attrs))


@move("image")
def depth_space(m: Make) -> None:
    x = m.pick_float(4)
    if m.maybe(0.5):
        m.keep(m.op("DepthToSpace", x, blocksize=2, mode=m.choose("DCR", "CRD")))
    else:
        m.keep(m.op("SpaceToDepth", x, blocksize=2))


@move("image")
def shuffle(m: Make) -> None:
    x = m.pick_float(4)
    n, c, h, w = m.shape(x)
    groups = m.choose(*[g for g in range(1, c + 1) if c % g == 0] or [1])
    y = m.op("Reshape", x, m.ints(n, groups, c // groups, h, w))
    y = m.op("Transpose", y, perm=[0, 2, 1, 3, 4])
    m.keep(m.op("Reshape", y, m.ints(n, c, h, w) if n * c * h * w == 0 or m.maybe(0.5) else m.ints(0, -1, h, w)))


@move("image")
def channels_last(m: Make) -> None:
    """NHWC work between Transposes, as frameworks write it."""
    x = m.pick_float(4)
    y = m.op("Transpose", x, perm=[0, 2, 3, 1])
    for _ in range(m.int(0, 3)):
        y = m.choose(arithmetic, activation, unary, softmax_op, reduce_keep)(m, y)
    y = m.op("Transpose", y, perm=m.choose([0, 3, 1, 2], [0, 3, 1, 2], [0, 2, 3, 1], [3, 0, 1, 2]))
    m.keep(y)
    if m.maybe(0.7):
        m.keep(conv(m, y))


@move("image")
def lrn(m: Make) -> None:
    m.keep(m.op("LRN", m.pick_float(4), size=m.choose(1, 3, 5), alpha=0.01, beta=0.75, bias=1.0))


@move("image")
def instance_norm(m: Make) -> None:
    x = image(m)
    c = m.shape(x)[1]
    if m.maybe(0.5):
        y = m.op("InstanceNormalization", x, m.const(m.array((c,)), m.dtype(x)), m.const(m.array((c,)), m.dtype(x)))
    else:
        g = m.choose(*[g for g in range(1, c + 1) if c % g == 0] or [1])
        scale, shift = m.const(m.array((c,)), m.dtype(x)), m.const(m.array((c,)), m.dtype(x))
        y = m.op("GroupNormalization", x, scale, shift, num_groups=g)
    m.keep(activation(m, y) if m.maybe(0.5) else y)
