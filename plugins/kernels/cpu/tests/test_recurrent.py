"""LSTM, GRU and RNN against the reference kernels: directions, lengths, states, layouts, activations."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.types import TensorType
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.recurrent.offers import offers
from plugins.kernels.cpu.tests.kernel_harness import check, make_node, target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def run(
    op,
    time=5,
    batch=2,
    inputs=7,
    hidden=19,
    *,
    isa=RUNNABLE[0],
    direction="forward",
    bias=True,
    lengths=None,
    states=True,
    peepholes=False,
    threads=1,
    results=None,
    x=None,
    **attrs,
):
    rng = np.random.default_rng(0)

    def normal(*shape, scale=1.0):
        return (rng.normal(0, scale, shape)).astype(np.float32)

    gates, directions = GATES[op], 2 if direction == "bidirectional" else 1
    first = (time, batch) if not attrs.get("layout") else (batch, time)
    state = (directions, batch, hidden) if not attrs.get("layout") else (batch, directions, hidden)
    operands = [
        normal(*first, inputs) if x is None else x,
        normal(directions, gates * hidden, inputs, scale=0.4),
        normal(directions, gates * hidden, hidden, scale=0.3),
        normal(directions, 2 * gates * hidden, scale=0.5) if bias else None,
        None if lengths is None else np.array(lengths, np.int32),
        normal(*state) if states else None,
    ]
    if op == "LSTM":
        operands += [normal(*state) if states else None]
        operands += [normal(directions, 3 * hidden, scale=0.4) if peepholes else None]
    attrs = {"hidden_size": hidden, "direction": direction, **attrs}
    outputs = results or (3 if op == "LSTM" else 2)
    # float32 sums in another order, through as many steps as there are.
    names = check(
        offers,
        op,
        operands,
        attrs,
        isa=isa,
        threads=threads,
        constants=(1, 2, 3, 7),
        outputs=outputs,
        rtol=2e-5,
        atol=2e-6 * max(time, 1),
    )
    assert names == [f"recurrent.{op.lower()}"]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
def test_directions_and_layouts(isa, op, direction, layout):
    run(op, isa=isa, direction=direction, layout=layout)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    ("time", "batch", "inputs", "hidden"),
    [(1, 1, 1, 1), (1, 1, 128, 128), (3, 17, 5, 16), (9, 1, 40, 33), (2, 6, 3, 64), (4, 8, 1, 5)],
)
def test_sizes(isa, op, time, batch, inputs, hidden):
    run(op, time, batch, inputs, hidden, isa=isa)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lengths(op, direction):
    run(op, 6, 4, lengths=[6, 1, 3, 0], direction=direction)
    run(op, 6, 4, lengths=[2, 2, 2, 5], direction=direction, layout=1)


def test_absent_operands_and_results():
    for op in GATES:
        run(op, bias=False, states=False)
        run(op, results=1)
    run("LSTM", results=2)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_peepholes(isa):
    run("LSTM", peepholes=True, isa=isa, direction="bidirectional")


@pytest.mark.parametrize("isa", RUNNABLE)
def test_gru_resets_after_the_product(isa):
    run("GRU", linear_before_reset=1, isa=isa, direction="bidirectional")


@pytest.mark.parametrize(
    "names",
    [
        ["HardSigmoid", "ScaledTanh", "Softsign"],
        ["Sigmoid", "Affine", "Relu"],
        ["HardSigmoid", "LeakyRelu", "ThresholdedRelu"],
        ["Sigmoid", "Elu", "Softplus"],
    ],
)
def test_activations(names):
    run("LSTM", activations=names, activation_alpha=[0.3, 0.7, 0.2], activation_beta=[0.4, 0.6])
    run("RNN", activations=[names[1]])


def test_clip():
    run("LSTM", clip=0.5, peepholes=True)
    run("GRU", clip=0.25)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_threads(op, threads):
    run(op, 4, 3, 20, 70, threads=threads, direction="bidirectional")


def test_nan_stays_in_its_sequence():
    x = np.random.default_rng(1).normal(0, 1, (4, 3, 7)).astype(np.float32)
    x[1, 1, 2] = np.nan
    for op in GATES:
        run(op, 4, 3, 7, 20, x=x)


def test_empty():
    run("LSTM", 3, 0, 4, 5)


def test_more_steps_compile_nothing():
    run("LSTM", 3, 2, 8, 16)
    before = jit().counters.snapshot()
    run("LSTM", 7, 5, 30, 40)
    after = jit().counters.snapshot()
    assert (after.compiled, after.cached) == (before.compiled, before.cached)


@pytest.mark.parametrize(
    ("attrs", "constants", "dtype", "word"),
    [
        ({"input_forget": 1}, (1, 2), "float32", "forget"),
        ({}, (1,), "float32", "'R'"),
        ({}, (1, 2), "float64", "float64"),
        ({"activations": ["Sine", "Tanh", "Tanh"]}, (1, 2), "float32", "sine"),
        ({"layout": 1}, (1, 2), "float32", "no steps"),
    ],
)
def test_refusals(attrs, constants, dtype, word):
    x = np.zeros((2, 0 if "layout" in attrs else 1, 3), dtype)
    arrays = [x, np.zeros((1, 8, 3), dtype), np.zeros((1, 8, 2), dtype)]
    node = make_node("LSTM", arrays, {"hidden_size": 2} | attrs, constants)
    node.output.type = TensorType(np.dtype(dtype), (2, 1, 1, 2))
    answer = offers(node, target_for(RUNNABLE[0]))
    assert isinstance(answer, Refusal) and word in answer.reason
