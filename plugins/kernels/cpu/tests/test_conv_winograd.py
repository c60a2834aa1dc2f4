"""Winograd convolutions: matrices, every edge and tail, accuracy, special numbers, and how work is cut."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import autofusion as af
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import of_array
from autofusion.kernels import NotFinite, Numerics
from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.epilogue import NO_EPILOGUE
from autofusion_kernels_cpu.codegen.isa import NEON, host_isa
from autofusion_kernels_cpu.conv import winograd
from autofusion_kernels_cpu.conv.geometry import geometry_of
from autofusion_kernels_cpu.conv.offers import offers
from autofusion_kernels_cpu.conv.winograd import kernel as code
from autofusion_kernels_cpu.conv.winograd import schedule
from autofusion_kernels_cpu.conv.winograd.transforms import multiply, transforms
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.native.program import NativeStep, Ref
from plugins.kernels.cpu.tests.conv_support import TOLERANCE, conv, operands
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import check, make_node, run_offer, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE, aligned, run_steps

NAMES = ["conv.winograd4", "conv.winograd2"]


def run(isa, shape, filters, pads, *, threads=1, kernel=(3, 3), seed=0):
    rng = np.random.default_rng(seed)
    arrays = operands(rng, shape, (filters, shape[1], *kernel), filters)
    wanted = conv(*arrays, pads=pads).astype(np.float32)
    check(
        offers,
        "Conv",
        arrays,
        {"pads": pads},
        isa=isa,
        threads=threads,
        constants=(1, 2),
        expected=[wanted],
        kernels=NAMES,
        **TOLERANCE,
    )


def offer_for(node, tile, target):
    (offer,) = [o for o in offers(node, target) if o.kernel == f"conv.winograd{tile}"]
    return offer


# --- matrices --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tile", winograd.TILES)
def test_matrices_filter(tile):
    rng = np.random.default_rng(0)
    t = transforms(tile)
    d, g = rng.standard_normal((tile + 2, tile + 2)), rng.standard_normal((3, 3))
    product = (t.filter @ g @ t.filter.T) * (t.input @ d @ t.input.T)
    wanted = [[(d[i : i + 3, j : j + 3] * g).sum() for j in range(tile)] for i in range(tile)]
    np.testing.assert_allclose(t.output @ product @ t.output.T, wanted, atol=1e-13)


@pytest.mark.parametrize("tile", winograd.TILES)
@pytest.mark.parametrize("which", ["input", "output"])
def test_code_multiplies_by_the_matrix(tile, which):
    matrix = getattr(transforms(tile), which)
    isa = host_isa()
    m = Module(isa)
    with m.kernel("multiply", ["x", "y"]) as f:
        values = [f.load(f.buffer["x"], i * f.lanes) for i in range(matrix.shape[1])]
        for i, value in enumerate(multiply(f, matrix, values)):
            f.store(value, f.buffer["y"], i * f.lanes)
    x, y = aligned(matrix.shape[1] * isa.lanes), aligned(len(matrix) * isa.lanes)
    x[:] = np.random.default_rng(1).standard_normal(x.size)
    run_steps([NativeStep(jit().kernel(m), (Ref(x), Ref(y)), np.zeros(1, np.int64))])
    wanted = matrix @ x.reshape(-1, isa.lanes).astype(np.float64)
    np.testing.assert_allclose(y.reshape(-1, isa.lanes), wanted, atol=2e-6)


# --- shapes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("height", [1, 2, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 13, 33])
def test_sizes(isa, height, width):
    run(isa, (1, 18, height, width), 20, [1, 1, 1, 1])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("channels", [1, 3, 8, 15, 16, 24, 33, 70])
@pytest.mark.parametrize("filters", [1, 16, 23, 48, 80, 112])
def test_channels(isa, channels, filters):
    run(isa, (1, channels, 6, 11), filters, [1, 1, 1, 1])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0], [2, 1, 0, 3], [-1, 0, 1, -2], [4, 4, 4, 4]])
@pytest.mark.parametrize("threads", [1, 3])
def test_pads_and_batch(isa, pads, threads):
    rng = np.random.default_rng(2)
    arrays = operands(rng, (3, 17, 7, 10), (33, 17, 3, 3), 33)
    cropped = arrays[0][:, :, max(-pads[0], 0) :, : 10 - max(-pads[3], 0)]
    wanted = conv(cropped, *arrays[1:], pads=[max(p, 0) for p in pads]).astype(np.float32)
    options = {"isa": isa, "threads": threads, "constants": (1, 2), "expected": [wanted], "kernels": NAMES}
    check(offers, "Conv", arrays, {"pads": pads}, **options, **TOLERANCE)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_planes_of_a_volume(isa):
    run(isa, (2, 20, 3, 6, 7), 24, [0, 1, 1, 0, 1, 1], kernel=(1, 3, 3), threads=2)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("seed", range(12))
def test_random(isa, seed):
    rng = np.random.default_rng(seed)
    batch, channels, height, width, filters, threads = (int(rng.integers(1, n)) for n in (4, 80, 30, 30, 100, 5))
    pads = [int(p) for p in rng.integers(1, 3, 4)]
    run(isa, (batch, channels, height, width), filters, pads, threads=threads, seed=seed)


def test_only_where_it_applies():
    x = np.zeros((1, 16, 12, 12), np.float32)
    for weights, attrs in (
        ((16, 16, 3, 3), {"strides": [2, 2]}),
        ((16, 16, 3, 3), {"dilations": [2, 1]}),
        ((16, 4, 3, 3), {"group": 4}),
        ((16, 16, 5, 5), {}),
        ((16, 16, 1, 3), {}),
    ):
        w = np.zeros(weights, np.float32)
        node = make_node("Conv", [x, w], attrs, (1,))
        wanted = conv(x, w, **attrs)
        node.output.type = of_array(wanted.astype(np.float32))
        assert not winograd.applies(geometry_of(node))


# --- numbers ---------------------------------------------------------------------------------------------------------
def errors(seed, data):
    """Largest and mean error against float64: of every offer, and of adding the products up one by one ("plain")."""
    rng = np.random.default_rng(seed)
    arrays = operands(rng, (1, 64, 24, 24), (64, 64, 3, 3), 64)
    arrays[0] = data(arrays[0]).astype(np.float32)
    wanted = conv(*arrays, pads=[1] * 4)
    node = make_node("Conv", arrays, {"pads": [1] * 4}, (1, 2))
    node.output.type = of_array(wanted.astype(np.float32))
    target = target_for(RUNNABLE[0])
    results = {"plain": _one_by_one(*arrays)}
    for offer in offers(node, target):
        (results[offer.kernel],) = run_offer(node, offer, arrays, target, hostile=False)
    return {name: (np.abs(y - wanted).max(), np.abs(y - wanted).mean()) for name, y in results.items()}


def _one_by_one(x, w, b):
    padded = np.pad(x[0], [(0, 0), (1, 1), (1, 1)])
    total = np.zeros((len(w), *x.shape[2:]), np.float32)
    for i, j in np.ndindex(3, 3):
        for c, plane in enumerate(padded[:, i : i + x.shape[2], j : j + x.shape[3]]):
            total += w[:, c, i, j, None, None] * plane
    return (total + b[:, None, None])[None]


@pytest.mark.parametrize(
    "data",
    [lambda x: x, lambda x: np.maximum(x, 0), lambda x: x + 10, lambda x: x**3],
    ids=["normal", "rectified", "shifted", "heavy tails"],
)
def test_error_is_about_that_of_a_plain_sum(data):
    for seed in range(3):
        found = errors(seed, data)
        largest, mean = found["plain"]
        assert found["conv.direct"][0] < 0.5 * largest and found["conv.direct"][1] < 0.6 * mean
        assert found["conv.winograd2"][0] < largest and found["conv.winograd2"][1] < mean
        assert found["conv.winograd4"][0] < 3 * largest and found["conv.winograd4"][1] < 3 * mean


@pytest.mark.parametrize("tile", winograd.TILES)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("place", [(0, 0, 0), (5, 9, 10), (15, 19, 19)])
def test_what_is_not_finite_is_noticed(tile, special, place):
    """It ends up in whole tiles, and an infinity as NaN: the run does not count."""
    rng = np.random.default_rng(4)
    arrays = operands(rng, (1, 16, 20, 20), (16, 16, 3, 3), 16)
    node = make_node("Conv", arrays, {"pads": [1] * 4}, (1, 2))
    node.output.type = of_array(conv(*arrays, pads=[1] * 4).astype(np.float32))
    target = target_for(RUNNABLE[0])
    offer = offer_for(node, tile, target)
    assert offer.numerics is Numerics.APPROXIMATE
    run_offer(node, offer, arrays, target)
    arrays[0][(0, *place)] = special
    if np.isfinite(special):  # whether a tile's sums overflow depends on what is beside it
        try:
            (found,) = run_offer(node, offer, arrays, target)
        except NotFinite:
            return
        assert np.isfinite(found).all()
    else:
        with pytest.raises(NotFinite):
            run_offer(node, offer, arrays, target)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_a_run_that_meets_it_is_repeated_by_other_kernels(special, threads):
    rng = np.random.default_rng(6)
    x, w, v = (rng.standard_normal(s).astype(np.float32) for s in ((2, 16, 14, 14), (16, 16, 3, 3), (24, 16, 3, 3)))
    graph = Graph()
    value = graph.add_input("x", of_array(x))
    first = graph.node("Conv", [value, graph.constant(w)], {"pads": [1] * 4}).output
    graph.add_output(graph.node("Conv", [graph.node("Relu", [first]).output, graph.constant(v)]).output, "y")
    infer_graph(graph)
    session = af.compile(graph, threads=threads)
    assert any("winograd" in step.kernel for step in session.stage.runner.plan.steps)
    plain = session(x)
    touched = x.copy()
    touched[0, 3, 5, 6], touched[1, 0, 0, 0] = special, -special
    with np.errstate(invalid="ignore"):
        wanted = conv(np.maximum(conv(touched, w, pads=[1] * 4), 0), v)
    for _ in range(2):
        found = session(touched)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(found == np.inf, wanted == np.inf)
        # What one run met is forgotten by the next.
        assert session(x).tobytes() == plain.tobytes()
    names = [v.name for n in session.source.nodes for v in n.outputs]
    watched = session.watch(names, {"x": touched})
    assert watched.outputs["y"].tobytes() == session(touched).tobytes()


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("tile", winograd.TILES)
def test_however_work_is_cut_results_are_the_same_bits(isa, tile, monkeypatch):
    rng = np.random.default_rng(5)
    arrays = operands(rng, (2, 37, 17, 13), (75, 37, 3, 3), 75)
    arrays.append(rng.standard_normal((2, 75, 17, 13)).astype(np.float32))

    def build(b, x, w, c, r):
        return b("Relu", b("Add", b("Conv", x, w, c, pads=[1] * 4), r))

    node = fused("conv", build, arrays, constants=(1, 2))
    wanted = np.maximum(conv(*arrays[:3], pads=[1] * 4) + arrays[3], 0)
    blocks = -(-75 // target_for(isa).lanes)
    splits = [
        (1,) * blocks,
        (2,) * (blocks // 2) + (1,) * (blocks % 2),
        (3,) * (blocks // 3) + (2,) * (blocks % 3 // 2),
    ]
    found, plan = [], schedule.plan
    for tiles, filters, block, split in itertools.product((1, 2, 3), (1, 2), (1, 5, 14, 40), splits):
        if sum(split) != blocks:
            continue

        def cut(geometry, size, tensors, target, plan=plan, made=(tiles, filters, block, split)):
            return dataclasses.replace(
                plan(geometry, size, tensors, target),
                tile_threads=made[0],
                filter_threads=made[1],
                block=made[2],
                splits=made[3],
            )

        monkeypatch.setattr(schedule, "plan", cut)
        target = target_for(isa, tiles * filters)
        (y,) = run_offer(node, offer_for(node, tile, target), arrays, target, hostile=False)
        found.append(y)
    assert len(found) >= 24
    np.testing.assert_allclose(found[0], wanted, **TOLERANCE)
    assert all(np.array_equal(found[0], y) for y in found[1:])


def test_threads_share_the_work_that_pays():
    x = np.zeros((1, 64, 56, 56), np.float32)
    node = make_node("Conv", [x, np.zeros((64, 64, 3, 3), np.float32)], {"pads": [1] * 4}, (1,))
    node.output.type = of_array(x)
    geometry = geometry_of(node)
    for threads in (1, 2, 3, 4, 6, 8):
        made = schedule.plan(geometry, 4, 0, target_for(RUNNABLE[0], threads))
        assert made.tile_threads * made.filter_threads == threads
    tiny = dataclasses.replace(
        geometry,
        channels=8,
        filters=8,
        axes=(geometry.axes[0], *[dataclasses.replace(a, size=4, out=4) for a in geometry.axes[1:]]),
    )
    made = schedule.plan(tiny, 4, 0, target_for(RUNNABLE[0], 8))
    assert made.tile_threads * made.filter_threads == 1


# --- binding ---------------------------------------------------------------------------------------------------------
def test_weights_are_transformed_once_and_new_sizes_need_no_new_code():
    target = target_for(RUNNABLE[0], 2)
    filters = 2 * target.lanes
    rng = np.random.default_rng(6)
    graph = Graph()
    w = graph.constant(rng.standard_normal((filters, 32, 3, 3)).astype(np.float32), "w")
    cache = {}

    def bind(height, width):
        x = rng.standard_normal((1, 32, height, width)).astype(np.float32)
        node = graph.node("Conv", [graph.add_input(f"x{height}x{width}", of_array(x)), w], {"pads": [1] * 4})
        wanted = conv(x, w.const, pads=[1] * 4).astype(np.float32)
        node.output.type = of_array(wanted)
        (y,) = run_offer(node, offer_for(node, 4, target), [x, w.const], target, hostile=False, cache=cache)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=2e-4)

    bind(24, 24)
    before = jit().counters.snapshot()
    for height, width in ((9, 40), (30, 31), (64, 16)):
        bind(height, width)
    after = jit().counters
    assert (after.compiled, after.cached) == (before.compiled, before.cached)
    assert len([key for key in cache if key[0] == "conv.winograd"]) == 1


@pytest.mark.parametrize("vectors", [(1,), (3, 2), (8,)])
@pytest.mark.parametrize("tile", winograd.TILES)
def test_assembles_for_aarch64(vectors, tile):
    object_code = jit().object_code(code.kernel(code.Structure(NEON, tile, vectors), NO_EPILOGUE).module())
    assert object_code[:4] == b"\x7fELF" and int.from_bytes(object_code[18:20], "little") == 183
