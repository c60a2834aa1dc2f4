"""Sessions end to end: inputs checked, shapes open or known only at run time, control flow, threads, watching."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import autofusion as af
from autofusion.cost.detect import detect
from autofusion.errors import InputError, KernelError, OptionError, SizeWarning
from autofusion.ir.graph import Graph, Node
from autofusion.ir.text import from_text
from autofusion.kernels.contract import Offer, Operand
from autofusion.plugins.registry import Registry, default_registry
from autofusion.refusal import Refusal

RNG = np.random.default_rng(3)

CHAIN = """
graph @chain(%x: f32[n, 4], %b: f32[4]) -> (f32[n, 4]) {
  %h = Add(%x, %b) : f32[n, 4]
  %r = Relu(%h) : f32[n, 4]
  %y = Sigmoid(%r) : f32[n, 4]
  return %y
}
"""

UNIQUE = """
graph @positive(%x: f32[n]) -> (f32[?]) {
  %mask = Relu(%x) : f32[n]
  %where = NonZero(%mask) : i64[1, ?]
  %0 = constant dense<0> : i64[]
  %rows = Gather(%where, %0) {axis = 0} : i64[?]
  %kept = Gather(%x, %rows) {axis = 0} : f32[?]
  %e = Exp(%kept) : f32[?]
  %y = Neg(%e) : f32[?]
  return %y
}
"""


def graph(text: str) -> Graph:
    return from_text(text)


def names(g: Graph) -> list[str]:
    return [v.name for v in g.inputs]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("level", ["off", "basic", "full"])
def test_open_dims_follow_the_inputs(level: str) -> None:
    session = af.compile(graph(CHAIN), level=level, threads=1)
    x_name, b_name = names(session.graph)
    bias = np.arange(4, dtype=np.float32)
    for rows in (1, 3, 0, 17, 3):
        x = RNG.standard_normal((rows, 4)).astype(np.float32)
        (y,) = session.run({x_name: x, b_name: bias}).values()
        assert y.shape == x.shape
        np.testing.assert_allclose(y, sigmoid(np.maximum(x + bias, 0)), rtol=1e-5)
    assert len(session.executor.stages) == 4


@pytest.mark.parametrize("level", ["off", "full"])
def test_shapes_that_only_a_run_can_tell(level: str) -> None:
    session = af.compile(graph(UNIQUE), level=level, threads=1)
    (x_name,) = names(session.graph)
    for size in (5, 9, 1):
        x = RNG.standard_normal(size).astype(np.float32)
        (y,) = session.run({x_name: x}).values()
        np.testing.assert_allclose(y, -np.exp(x[x > 0]), rtol=1e-5)
    if level == "full":
        kinds = [n.attrs["kind"] for s in session.stages for n in s.runner.plan.graph.nodes if n.op == "Fused"]
        assert kinds == ["pointwise"], "what follows the split fuses as well"


TWICE = """
graph @twice(%p: f32[n, 3], %q: f32[n, 3], %w: f32[m]) -> (f32[?, 3], f32[m]) {
  %j = Concat(%p, %q) {axis = 0} : f32[?, 3]
  %r = Relu(%j) : f32[?, 3]
  %v = Sigmoid(%w) : f32[m]
  return %r, %v
}
"""


@pytest.mark.parametrize("level", ["off", "full"])
@pytest.mark.parametrize("stated", [False, True])
def test_one_name_for_two_sizes(level: str, stated: bool) -> None:
    session = af.compile(graph(TWICE), level=level, threads=1)
    p, q, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (5, 3), 4))
    inputs = dict(zip(names(session.graph), (p, q, w), strict=True))
    with pytest.warns(SizeWarning, match=r"dim 'n' is 2 in input 'p', but 5 on axis 0 of 'q'"):
        if stated:
            session = af.compile(graph(TWICE), level=level, threads=1, shapes={k: x.shape for k, x in inputs.items()})
        else:
            session.run(inputs)
    assert [v.shape for v in session.graph.inputs] == [(None, 3), (None, 3), ("m",)], "the other name keeps its meaning"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        r, v = session.run(inputs).values()
    np.testing.assert_array_equal(r, np.maximum(np.concatenate([p, q]), 0))
    np.testing.assert_allclose(v, 1 / (1 + np.exp(-w)), rtol=1e-6)


def test_wrong_inputs_are_named() -> None:
    session = af.compile(graph(CHAIN), threads=1)
    x_name, b_name = names(session.graph)
    x, b = np.zeros((2, 4), np.float32), np.zeros(4, np.float32)
    with pytest.raises(InputError, match=f"no input '{x_name}x'.*did you mean '{x_name}'"):
        session.run({f"{x_name}x": x, b_name: b})
    with pytest.raises(InputError, match=f"input '{b_name}' is missing"):
        session.run({x_name: x})
    with pytest.raises(InputError, match=rf"input '{x_name}' has the wrong dtype: expected f32.*found float64"):
        session.run({x_name: x.astype(np.float64), b_name: b})
    with pytest.raises(InputError, match=rf"input '{b_name}' has the wrong shape: expected f32\[4\], found \[5\]"):
        session.run({x_name: x, b_name: np.zeros(5, np.float32)})
    with pytest.raises(InputError, match=rf"input '{x_name}' has the wrong rank"):
        session.run({x_name: x[0], b_name: b})


def test_wrong_options_are_named() -> None:
    with pytest.raises(OptionError, match=r"option 'level' is 'ful'.*did you mean 'full'"):
        af.compile(graph(CHAIN), level="ful")
    with pytest.raises(OptionError, match=r"option 'threads' is .*expected a whole number"):
        af.compile(graph(CHAIN), threads=0)
    with pytest.raises(OptionError, match=r"pointwise\.regin.*did you mean.*pointwise\.region"):
        af.compile(graph(CHAIN), disable=["pointwise.regin"])


def test_a_rule_can_be_switched_off() -> None:
    inputs = {"x": (3, 4)}
    g = graph(CHAIN)
    inputs = dict(zip(names(g), [(3, 4), (4,)], strict=True))
    full = af.compile(graph(CHAIN), shapes=inputs, threads=1)
    assert [n.op for n in full.plan.graph.nodes] == ["Fused"]
    without = af.compile(graph(CHAIN), shapes=inputs, threads=1, disable=["pointwise.region"])
    assert [n.op for n in without.plan.graph.nodes] == ["Add", "Relu", "Sigmoid"]
    assert any(r.verdict.value == "disabled" and r.rule.startswith("pointwise.region") for r in without.ledger.records)


@pytest.mark.parametrize("level", ["off", "full"])
def test_if_and_loop_with_captures(level: str) -> None:
    g = graph(
        """
        graph @control(%x: f32[3], %go: bool[], %n: i64[]) -> (f32[3], f32[3]) {
          %d = Add(%x, %x) : f32[3]
          %a = If(%go, %d) {captures = 1} : f32[3] {
            else_branch = graph(%d0: f32[3]) -> (f32[3]) {
              %m = Neg(%d0) : f32[3]
              return %m
            }
            then_branch = graph(%d1: f32[3]) -> (f32[3]) {
              %q = Mul(%d1, %d1) : f32[3]
              return %q
            }
          }
          %t = constant dense<true> : bool[]
          %s = Loop(%n, %t, %x, %d) {captures = 1} : f32[3] {
            body = graph(%i: i64[], %c: bool[], %v: f32[3], %k: f32[3]) -> (bool[], f32[3]) {
              %w = Add(%v, %k) : f32[3]
              %r = Relu(%w) : f32[3]
              return %c, %r
            }
          }
          return %a, %s
        }
        """
    )
    session = af.compile(g, level=level, threads=1)
    x_name, go_name, n_name = names(session.graph)
    x = np.array([1.0, -2.0, 3.0], np.float32)
    for go in (True, False):
        for n in (0, 1, 4):
            a, s = session.run({x_name: x, go_name: np.array(go), n_name: np.array(n)}).values()
            np.testing.assert_allclose(a, 4 * x * x if go else -2 * x)
            want = x
            for _ in range(n):
                want = np.maximum(want + 2 * x, 0)
            np.testing.assert_allclose(s, want)


def test_outputs_belong_to_the_caller() -> None:
    session = af.compile(graph(CHAIN), threads=1)
    x_name, b_name = names(session.graph)
    b = np.zeros(4, np.float32)
    (first,) = session.run({x_name: np.zeros((2, 4), np.float32), b_name: b}).values()
    kept = first.copy()
    session.run({x_name: np.ones((2, 4), np.float32), b_name: b})
    np.testing.assert_array_equal(first, kept)


def test_inputs_in_any_memory_order() -> None:
    session = af.compile(graph(CHAIN), threads=1)
    x_name, b_name = names(session.graph)
    wide = RNG.standard_normal((4, 6)).astype(np.float32)
    (y,) = session.run({x_name: wide.T[::2], b_name: np.zeros(8, np.float32)[::2]}).values()
    np.testing.assert_allclose(y, sigmoid(np.maximum(wide.T[::2], 0)), rtol=1e-5)


def test_many_threads_may_run_one_session() -> None:
    session = af.compile(graph(CHAIN), threads=2)
    x_name, b_name = names(session.graph)
    bias = np.arange(4, dtype=np.float32)
    wrong: list[int] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(50):
            x = generator.standard_normal((1 + seed % 3, 4)).astype(np.float32)
            (y,) = session.run({x_name: x, b_name: bias}).values()
            if not np.allclose(y, sigmoid(np.maximum(x + bias, 0)), rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_of_a_fork_runs_whatever_the_parent_was_doing() -> None:
    session = af.compile(graph(CHAIN), threads=2)
    x_name, b_name = names(session.graph)
    feeds = {x_name: RNG.standard_normal((64, 4)).astype(np.float32), b_name: np.ones(4, np.float32)}
    (expected,) = session.run(feeds).values()
    stop = threading.Event()

    def keep_running() -> None:
        while not stop.is_set():
            session.run(feeds)

    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    threads = [threading.Thread(target=keep_running) for _ in range(2)]
    for thread in threads:
        thread.start()
    children = []
    try:
        for _ in range(4):
            children.append(fork.Process(target=lambda: answers.put(session.run(feeds))))
            children[-1].start()
            (found,) = answers.get(timeout=60).values()
            np.testing.assert_array_equal(found, expected)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for child in children:
            child.kill()
            child.join()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_of_a_fork_compiles_while_the_parent_does() -> None:
    feeds = {"x": RNG.standard_normal((8, 4)).astype(np.float32), "b": np.ones(4, np.float32)}
    stop = threading.Event()

    def keep_compiling() -> None:
        while not stop.is_set():
            session = af.compile(graph(CHAIN), threads=1)
            for rows in range(1, 5):
                session.run(feeds | {"x": feeds["x"][:rows]})

    def compile_too(answers: Any) -> None:
        answers.put(af.compile(graph(CHAIN), threads=2).run(feeds))

    fork = multiprocessing.get_context("fork")
    answers, children = fork.Queue(), []
    threads = [threading.Thread(target=keep_compiling) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            children.append(fork.Process(target=compile_too, args=(answers,)))
            children[-1].start()
            (found,) = answers.get(timeout=60).values()
            np.testing.assert_allclose(found, sigmoid(np.maximum(feeds["x"] + 1, 0)), rtol=1e-5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for child in children:
            child.kill()
            child.join()


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, 10**9])
def test_a_number_of_threads_that_is_none(threads: object) -> None:
    with pytest.raises(OptionError, match="expected a whole number of at least 1 and at most"):
        af.compile(graph(CHAIN), threads=threads)  # type: ignore[arg-type]


def test_inputs_that_are_no_arrays() -> None:
    session = af.compile(graph(CHAIN), threads=1)
    x_name, b_name = names(session.graph)
    bias = np.ones(4, np.float32)
    (y,) = session.run({x_name: [[1, 2, 3, 4.5]], b_name: bias.astype(">f4")}).values()
    np.testing.assert_allclose(y, sigmoid(np.array([[2, 3, 4, 5.5]])), rtol=1e-5)
    for wrong in (None, object(), [[1, 2], [3]], {"a": 1}):
        with pytest.raises(InputError, match=f"input '{x_name}' is not a tensor: expected an array of f32, found"):
            session.run({x_name: wrong, b_name: bias})


def test_a_list_of_fractions_is_no_list_of_integers() -> None:
    text = "graph @g(%x: i64[2]) -> (y: i64[2]) {\n %0 = Neg(%x)\n return %0\n}"
    session = af.compile(from_text(text), threads=1)
    np.testing.assert_array_equal(session([3, 4]), [-3, -4])
    with pytest.raises(InputError, match="wrong dtype: expected i64"):
        session([1.5, 2.0])


def test_watching_changes_nothing_and_sees_inside() -> None:
    session = af.compile(graph(CHAIN), threads=2)
    x_name, b_name = names(session.graph)
    feeds = {x_name: RNG.standard_normal((5, 4)).astype(np.float32), b_name: np.ones(4, np.float32)}
    plain = session.run(feeds)
    inner = [v.name for n in session.source.nodes for v in n.outputs]
    watched = session.watch(inner, feeds)
    for name, value in plain.items():
        np.testing.assert_array_equal(watched.outputs[name], value)
    np.testing.assert_allclose(watched.values[inner[0]], feeds[x_name] + 1, rtol=1e-6)
    np.testing.assert_allclose(watched.values[inner[1]], np.maximum(feeds[x_name] + 1, 0), rtol=1e-6)
    with pytest.raises(OptionError, match="no node or value 'nothing'"):
        session.watch(["nothing"], feeds)


class _FailsWhenRun:
    """A pack whose kernel for Relu is the cheapest, and raises when it runs."""

    name, version, kinds, is_reference, blocks, launch_seconds = "fragile", "1.0", (), False, (), 0.0

    def offer(self, node: Node, target: object) -> list[Offer] | Refusal:
        def kernel(arrays: object) -> list[np.ndarray]:
            raise RuntimeError("no luck")

        if node.op != "Relu":
            return Refusal("it runs Relu only")
        return [Offer("relu", (Operand(),), (Operand(),), lambda context, inputs, outputs: kernel, seconds=0.0)]

    def reorder(self, *_: object) -> None:
        return None

    def assemble(self, *_: object) -> None:
        return None


@pytest.mark.parametrize("how", ["run", "watch"])
def test_a_kernel_that_fails_is_replaced_however_the_run_is_made(how: str, caplog: pytest.LogCaptureFixture) -> None:
    target = detect(threads=1)
    packs = [_FailsWhenRun(), *default_registry().kernel_packs(target)]
    session = af.compile(graph(CHAIN), level="off", target=target, registry=Registry.of(kernel_packs=packs))
    x_name, b_name = names(session.graph)
    feeds = {x_name: np.float32([[-9, 0, 1, 2]]), b_name: np.zeros(4, np.float32)}
    session.prepare({x_name: (1, 4)})
    assert "fragile:relu" in [step.kernel for step in session.plan.steps]
    outputs = session.run(feeds) if how == "run" else session.watch(["r"], feeds).outputs
    np.testing.assert_allclose(outputs["y"], sigmoid(np.float32([[0, 0, 1, 2]])), rtol=1e-6)
    assert "fragile:relu" not in [step.kernel for step in session.plan.steps]
    assert "kernel 'relu' of pack 'fragile' 1.0 raised RuntimeError: no luck" in caplog.text


def test_what_no_kernel_runs_is_named_at_once_with_the_reason_why_it_was_not_converted() -> None:
    text = """
graph @odd(%x: f32[2]) -> (f32[2], f32[2], f32[2], f32[2]) {
  %a = my.ops::First(%x) {not_converted = "frobs are not supported"} : f32[2]
  %b = my.ops::Second(%x) : f32[2]
  %c = my.ops::Third(%x) : f32[2]
  %d = my.ops::Third(%x) : f32[2]
  return %a, %b, %c, %d
}
"""
    with pytest.raises(KernelError, match=r"First.*not converted to standard operators, since frobs are not supported"):
        af.compile(graph(text), threads=1)
    with pytest.raises(KernelError, match=r"either: my\.ops::Second \('Second'\), my\.ops::Third \(2 nodes\)"):
        af.compile(graph(text), threads=1)


def test_results_and_inputs_belong_to_the_caller() -> None:
    """Small arrays pass through memory of the plan: neither a later run nor the caller may see that."""
    for size in (2, 3000):  # one is copied, the other used where it lies
        session = af.compile(graph(CHAIN), threads=1)
        (x, b) = names(session.graph)
        first = {x: RNG.standard_normal((size, 4)).astype(np.float32), b: np.zeros(4, np.float32)}
        kept = {name: array.copy() for name, array in first.items()}
        (y,) = session.run(first).values()
        was = y.copy()
        (later,) = session.run({x: first[x] + 1, b: first[b]}).values()
        assert not np.shares_memory(y, later)
        np.testing.assert_array_equal(y, was)
        y[:] = 7
        np.testing.assert_array_equal(next(iter(session.run(first).values())), was)
        for name, array in kept.items():
            np.testing.assert_array_equal(first[name], array)


def test_inputs_of_any_strides_and_alignment() -> None:
    session = af.compile(graph(CHAIN), threads=1)
    (x, b) = names(session.graph)
    bias = np.zeros(4, np.float32)
    for rows in (3, 3000):
        plain = RNG.standard_normal((rows, 4)).astype(np.float32)
        (want,) = session.run({x: plain, b: bias}).values()
        odd = np.frombuffer(b"\0" + plain.tobytes(), np.uint8)[1:].view(np.float32).reshape(plain.shape)
        for given in (np.asfortranarray(plain), plain[::-1][::-1], np.repeat(plain, 2, 0)[::2], odd):
            np.testing.assert_array_equal(next(iter(session.run({x: given, b: bias}).values())), want)


def test_a_known_shape_does_not_excuse_other_inputs() -> None:
    """Inputs like those of the run before are not checked again, and all others are."""
    session = af.compile(graph(CHAIN), threads=1)
    (x, b) = names(session.graph)
    good = {x: np.zeros((2, 4), np.float32), b: np.zeros(4, np.float32)}
    session.run(good)
    wrong = [
        {x: np.zeros((2, 4), np.float64), b: good[b]},
        {x: np.zeros((2, 5), np.float32), b: good[b]},
        {**good, "more": good[b]},
        {x: good[x], "other": good[b]},
        {x: good[x]},
        {x: good[x], b: None},
    ]
    for inputs in wrong:
        session.run(good)
        with pytest.raises(InputError):
            session.run(inputs)


def test_the_plan_looked_at_is_the_one_used_last() -> None:
    session = af.compile(graph(CHAIN), threads=1)
    (x, b) = names(session.graph)
    bias = np.zeros(4, np.float32)
    for rows in (2, 3, 3, 2, 5, 2):
        session.run({x: np.zeros((rows, 4), np.float32), b: bias})
        assert session.stage.graph.inputs[0].shape == (rows, 4)
    session.prepare({x: (7, 4)})
    assert session.stage.graph.inputs[0].shape == (7, 4)
    session.run({x: np.zeros((2, 4), np.float32), b: bias})
    assert session.stage.graph.inputs[0].shape == (2, 4)
