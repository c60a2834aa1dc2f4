"""Convolutions with what is fused behind them, against the same body run in float64 pieces or by the reference."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.kernels import Numerics, Refusal
from autofusion_kernels_cpu.codegen.epilogue import NO_EPILOGUE
from autofusion_kernels_cpu.codegen.isa import NEON
from autofusion_kernels_cpu.conv import steps
from autofusion_kernels_cpu.conv.kernel import kernel as conv_kernel
from autofusion_kernels_cpu.conv.offers import offers
from autofusion_kernels_cpu.conv.products import Structure
from autofusion_kernels_cpu.conv.schedule import Schedule, StepSize, schedule
from autofusion_kernels_cpu.conv.tiles import channel_groups, cover, widths
from autofusion_kernels_cpu.native.jit import jit
from plugins.kernels.cpu.tests.conv_support import TOLERANCE, conv, operands
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check_node, run_offer, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE, isa_named

PADS = [1, 1, 1, 1]


def arrays_for(channels, filters, *more, batch=2, size=(6, 15), group=1, seed=0):
    rng = np.random.default_rng(seed)
    made = operands(rng, (batch, channels, *size), (filters, channels // group, 3, 3), filters)
    return made + [rng.standard_normal(shape).astype(np.float32) for shape in more]


def by_definition(arrays, group=1):
    return conv(*arrays[:3], pads=PADS, group=group)


def check_fused(build, arrays, wanted, isa, threads=2, **tolerance):
    node = fused("conv", build, arrays, constants=(1, 2))
    return check_node(
        offers,
        node,
        arrays,
        isa=isa,
        threads=threads,
        expected=[wanted.astype(np.float32)],
        **(tolerance or TOLERANCE),
    )


@pytest.mark.parametrize("isa", RUNNABLE)
def test_relu_keeps_nan(isa):
    arrays = arrays_for(5, 20)
    arrays[0][0, 2, 3, 4] = np.nan
    wanted = np.maximum(by_definition(arrays), 0)
    assert np.isnan(wanted).any()
    node = fused("conv", lambda b, x, w, c: b("Relu", b("Conv", x, w, c, pads=PADS)), arrays, constants=(1, 2))

    def by_windows(node, target):
        """All but those that spread a NaN over a tile."""
        return [o for o in offers(node, target) if o.numerics is not Numerics.APPROXIMATE]

    check_node(by_windows, node, arrays, isa=isa, threads=2, expected=[wanted.astype(np.float32)], **TOLERANCE)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("width", [1, 4, 15, 30])
def test_residual_and_relu(isa, width):
    arrays = arrays_for(17, 40, (2, 40, 5, width), size=(5, width))
    wanted = np.maximum(by_definition(arrays) + arrays[3], 0)

    def build(b, x, w, c, r):
        return b("Relu", b("Add", r, b("Conv", x, w, c, pads=PADS)))

    check_fused(build, arrays, wanted, isa)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_gate_scale_and_scalar(isa):
    arrays = arrays_for(8, 33, (2, 33, 1, 1), (1, 33, 1, 1), (1,))
    wanted = np.minimum(by_definition(arrays) * arrays[3] + arrays[4], arrays[5])

    def build(b, x, w, c, gate, scale, limit):
        return b("Min", b("Add", b("Mul", b("Conv", x, w, c, pads=PADS), gate), scale), limit)

    check_fused(build, arrays, wanted, isa)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_constants_of_every_kind(isa):
    rng = np.random.default_rng(3)
    slope = rng.standard_normal((20, 1, 1)).astype(np.float32)
    full = rng.standard_normal((1, 20, 6, 15)).astype(np.float32)
    arrays = arrays_for(5, 20, batch=1)
    y = by_definition(arrays)
    wanted = np.clip(np.where(y < 0, y * slope, y) * full, -1.0, 0.75)

    def build(b, x, w, c):
        return b("Clip", b("Mul", b("PRelu", b("Conv", x, w, c, pads=PADS), slope), full), -1.0, 0.75)

    check_fused(build, arrays, wanted, isa)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["Gelu", "Sigmoid", "Mish", "HardSwish", "Tanh", "Elu", "LeakyRelu", "Softplus"])
@pytest.mark.parametrize("group", [1, 20])
def test_activations(isa, op, group):
    arrays = arrays_for(20, 20, group=group)
    node = fused("conv", lambda b, x, w, c: b(op, b("Conv", x, w, c, pads=PADS, group=group)), arrays, constants=(1, 2))
    check_node(offers, node, arrays, isa=isa, threads=2, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_batch_normalization_behind(isa):
    arrays = arrays_for(6, 20)
    rng = np.random.default_rng(5)
    scale, shift, mean = (rng.standard_normal(20).astype(np.float32) for _ in range(3))
    variance = rng.random(20).astype(np.float32) + 0.5
    columns = [v.reshape(1, 20, 1, 1).astype(np.float64) for v in (scale, shift, mean, variance)]
    wanted = (by_definition(arrays) - columns[2]) / np.sqrt(columns[3] + 1e-5) * columns[0] + columns[1]

    def build(b, x, w, c):
        return b("BatchNormalization", b("Conv", x, w, c, pads=PADS), scale, shift, mean, variance, epsilon=1e-5)

    check_fused(build, arrays, wanted, isa)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_result_used_twice_in_the_epilogue(isa):
    arrays = arrays_for(6, 20)
    y = by_definition(arrays)

    def build(b, x, w, c):
        value = b("Conv", x, w, c, pads=PADS)
        return b("Mul", value, b("Sigmoid", value))

    check_fused(build, arrays, y / (1 + np.exp(-y)), isa)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("channels", [3, 20])
def test_residual_is_the_input(isa, channels):
    arrays = arrays_for(channels, channels)

    def build(b, x, w, c):
        return b("Add", b("Conv", x, w, c, pads=PADS), x)

    check_fused(build, arrays, by_definition(arrays) + arrays[0], isa)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_transposed_with_residual(isa):
    rng = np.random.default_rng(6)
    arrays = operands(rng, (2, 5, 4, 6), (5, 20, 2, 2), 20)
    arrays.append(rng.standard_normal((2, 20, 8, 12)).astype(np.float32))

    def build(b, x, w, c, r):
        return b("Relu", b("Add", b("ConvTranspose", x, w, c, strides=[2, 2]), r))

    node = fused("conv", build, arrays, constants=(1, 2))
    check_node(offers, node, arrays, isa=isa, threads=2, **TOLERANCE)


def test_what_is_refused():
    target = target_for(RUNNABLE[0])

    def reason(build, arrays, constants=(1, 2)):
        answer = offers(fused("conv", build, arrays, constants=constants), target)
        assert isinstance(answer, Refusal)
        return answer.reason

    arrays = arrays_for(4, 8, (2, 1, 6, 15))
    assert "neither" in reason(lambda b, x, w, c, m: b("Mul", b("Conv", x, w, c, pads=PADS), m), arrays)
    arrays = arrays_for(4, 8, (8, 1, 1))
    assert "fewer axes" in reason(lambda b, x, w, c, m: b("Mul", b("Conv", x, w, c, pads=PADS), m), arrays)
    arrays = arrays_for(4, 8)
    assert "before the convolution" in reason(lambda b, x, w, c: b("Conv", b("Relu", x), w, c, pads=PADS), arrays)
    assert "results" in reason(lambda b, x, w, c: [b("Relu", y := b("Conv", x, w, c, pads=PADS)), b("Neg", y)], arrays)
    softmax = reason(lambda b, x, w, c: b("Softmax", b("Conv", x, w, c, pads=PADS), axis=1), arrays)
    assert "Softmax" in softmax


# --- schedules: nothing of how work is cut and ordered may change a result -------------------------------------------
SCHEDULES = [
    lambda t: Schedule(1, t),
    lambda t: Schedule(t, 1),
    lambda t: Schedule(1, t, chunk_floats=700, prefetch=True),
    lambda t: Schedule(t, 1, chunk_floats=1),
    lambda t: Schedule(1, t, block_pixels=1),
    lambda t: Schedule(t, 1, block_pixels=20),
]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("kernel", [1, 3])
def test_threads_and_schedules_are_bit_identical(isa, group, kernel, monkeypatch):
    rng = np.random.default_rng(7)
    arrays = operands(rng, (2, 39, 7, 13), (60, 39 // group, kernel, kernel), 60)
    pads = [kernel // 2] * 4
    arrays.append(rng.standard_normal((2, 60, 7, 13)).astype(np.float32))

    def build(b, x, w, c, r):
        return b("Relu", b("Add", b("Conv", x, w, c, pads=pads, group=group), r))

    node = fused("conv", build, arrays, constants=(1, 2))
    wanted = np.maximum(conv(*arrays[:3], pads=pads, group=group) + arrays[3], 0)
    found = []
    for threads in (1, 2, 3, 4):
        for make in SCHEDULES:
            steps.KEPT.clear()
            monkeypatch.setattr(steps, "schedule", lambda size, workers, target, m=make, t=threads: m(t))
            target = target_for(isa, threads)
            (offer,) = [o for o in offers(node, target) if o.kernel == "conv.direct"]
            (y,) = run_offer(node, offer, arrays, target)
            found.append(y)
    np.testing.assert_allclose(found[0], wanted, **TOLERANCE)
    steps.KEPT.clear()
    assert all(np.array_equal(found[0], y) for y in found[1:])


def test_schedule_uses_every_thread():
    for threads in (1, 2, 3, 4, 6, 8):
        for size in (
            StepSize(4, 9 * 64 * 32, 64 * 56 * 56, 224, 56, 3136, 64, 9),
            StepSize(32, 512 * 32, 512 * 49, 4, 1, 49, 512, 1),
            StepSize(2, 64 * 32, 64 * 112 * 112, 896, 1, 12544, 64, 1),
        ):
            made = schedule(size, threads, target_for(RUNNABLE[0], threads))
            assert made.filter_threads * made.plane_threads == threads


# --- code ------------------------------------------------------------------------------------------------------------
def test_new_sizes_need_no_new_code():
    target = target_for(RUNNABLE[0], 2)

    def run(channels, size, filters):
        arrays = arrays_for(channels, filters, size=size, batch=1)
        node = fused("conv", lambda b, x, w, c: b("Relu", b("Conv", x, w, c, pads=PADS)), arrays, constants=(1, 2))
        (offer,) = [o for o in offers(node, target) if o.kernel == "conv.direct"]
        (y,) = run_offer(node, offer, arrays, target, hostile=False)
        np.testing.assert_allclose(y, np.maximum(by_definition(arrays), 0), **TOLERANCE)

    run(20, (9, 20), 2 * target.lanes)
    before = jit().counters.snapshot()
    for channels, size in ((20, (5, 33)), (64, (13, 7)), (20, (1, 1)), (48, (2, 100))):
        run(channels, size, 2 * target.lanes)
    after = jit().counters
    assert (after.compiled, after.cached) == (before.compiled, before.cached)


@pytest.mark.parametrize("vectors", [1, 2, 4, 8])
def test_assembles_for_aarch64(vectors):
    code = jit().object_code(conv_kernel(Structure(NEON, 4, 4, vectors, widths(NEON, vectors)), NO_EPILOGUE).module())
    assert code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], "little") == 183


@pytest.mark.parametrize("isa", [*RUNNABLE, "neon"])
def test_tiles_fit_the_registers_and_cover_every_length(isa):
    isa = isa_named(isa)
    for vectors in (1, 2, 3, 4, 5, 6, 8):
        for depthwise in (0, 3) if vectors == 1 else (0,):
            sizes = widths(isa, vectors, depthwise)
            if not sizes:
                continue
            assert sizes[-1] == 1
            for width in sizes if vectors < 8 else ():
                used = width + depthwise + 1 if depthwise else width * vectors + vectors + 1
                assert used <= isa.registers
            for length in (*range(1, 70), 196, 3136, 12545):
                counts = cover(isa, vectors, length, depthwise).counts
                used_widths = [w for w, c in zip(sizes, counts, strict=True) if c]
                total = sum(w * c for w, c in zip(sizes, counts, strict=True))
                assert length <= total < length + used_widths[-1] and max(used_widths) <= length
    for blocks in range(1, 70):
        for pixels in (1, 7, 100):
            assert sum(channel_groups(isa, blocks, pixels)) == blocks
