"""Random graphs, run in every way there is, against the reference kernels.

A few seeds every day, many where slow tests run. ``python tests/fuzz/fuzz_run.py FIRST LAST --shrink`` runs more of
them and makes what fails small; what once failed is kept in FOUND.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from autofusion.errors import AutofusionError
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text, to_text
from autofusion.ir.verify import verify
from autofusion.testing.numbers import ordinary_inputs, special_inputs
from tests.fuzz import fuzz_large
from tests.fuzz.fuzz_check import LEVELS, Way, compiled, difference, expectations, isas, problems, same_bits, ways
from tests.fuzz.fuzz_graphs import random_graph
from tests.fuzz.fuzz_make import Make
from tests.fuzz.fuzz_open import problems_open

FOUND = {
    "groups of a convolution that share a block met each other's NaN": """
        graph @g(%x: f32[2, 8, 3, 4]) -> (y: f32[2, 8, 3, 4]) {
          %w = constant dense<sha256:00000001> : f32[8, 2, 1, 1]
          %0 = Conv(%x, %w) {group = 4}
          return %0
        }""",
    "phases of a transposed convolution met each other's NaN": """
        graph @g(%x: f32[1, 2, 9, 9]) -> (y: f32[1, 2, 26, 26]) {
          %w = constant dense<sha256:00000001> : f32[2, 1, 2, 2]
          %0 = ConvTranspose(%x, %w) {auto_pad = "SAME_UPPER", group = 2, strides = [3, 3]}
          return %0
        }""",
    "a Dropout with two results, of which one is used": """
        graph @g(%x: f32[5, 8]) -> (y: f32[5, 8]) {
          %0, %1 = Dropout(%x)
          return %0
        }""",
    "the mask of a Dropout is no view of its operand": """
        graph @g(%x: f32[5, 8]) -> (y: bool[5, 8]) {
          %0, %1 = Dropout(%x)
          return %1
        }""",
    "totals of one spatial axis of channel blocks overwrote what follows": """
        graph @g(%x: f32[2, 16, 3, 3]) -> (y: f32[2, 16, 3], z: f32[2, 16, 1, 3]) {
          %w = constant dense<sha256:00000001> : f32[16, 16, 1, 1]
          %a = constant dense<[3]> : i64[1]
          %b = constant dense<[2]> : i64[1]
          %0 = Conv(%x, %w)
          %1 = ReduceMax(%0, %a) {keepdims = 0}
          %2 = ReduceMean(%0, %b)
          return %1, %2
        }""",
    "last states of a recurrent layer over no steps": """
        graph @g(%x: f32[0, 8, 2]) -> (y: f32[1, 8, 3]) {
          %w = constant dense<sha256:00000001> : f32[1, 3, 2]
          %r = constant dense<sha256:00000002> : f32[1, 3, 3]
          %0, %1 = RNN(%x, %w, %r) {hidden_size = 3}
          return %1
        }""",
    "Gelu of minus infinity": """
        graph @g(%x: f32[5, 8]) -> (y: f32[5, 8], z: f32[5, 8]) {
          %0 = Gelu(%x)
          %1 = Gelu(%x) {approximate = "tanh"}
          return %0, %1
        }""",
}
EVERY_DAY = range(5000, 5040)
MANY = range(5040, 5640)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _check(seed: int, chosen: list[Way] | None = None) -> None:
    made = random_graph(seed)
    found = problems(made.graph, made.feeds, chosen or ways(seed), seed)
    assert not found, f"{found}\n{to_text(made.graph)}"


@pytest.mark.parametrize("what", FOUND)
@pytest.mark.parametrize("inputs", [ordinary_inputs, special_inputs])
def test_what_once_failed(what: str, inputs: Callable[[Graph], Mapping[str, np.ndarray]]) -> None:
    graph = from_text(FOUND[what], SeededConstants())
    infer_graph(graph)
    found = problems(graph, inputs(graph), ways(0))
    assert not found, found


@pytest.mark.parametrize("seed", EVERY_DAY)
def test_levels_threads_and_instruction_sets(seed: int) -> None:
    _check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many(seed: int) -> None:
    _check(seed)


def _check_open(seed: int) -> None:
    made = random_graph(seed)
    found = problems_open(made.graph, made.feeds, seed, ["off", "full"] if seed % 2 else ["basic", "full"])
    # Sizes for which a graph makes no sense are refused, by the name of the node; the reference may run some of them.
    wrong = [each for each in found or () if "ShapeError: " not in each]
    assert not wrong, f"{wrong}\n{to_text(made.graph)}"


@pytest.mark.parametrize("seed", range(6000, 6015))
def test_open_sizes(seed: int) -> None:
    _check_open(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6015, 6300))
def test_open_sizes_many(seed: int) -> None:
    _check_open(seed)


# ---- what else must be the same ----------------------------------------------------------------------------------


def _again(seed: int, first: int = 7000) -> Make:
    return random_graph(first + seed)


@pytest.mark.parametrize("seed", range(12))
def test_watching_changes_no_bit(seed: int) -> None:
    made = _again(seed)
    session = compiled(made.graph, Way("full", 2, isas()[0]))
    plain = session.run(made.feeds)
    names = [v.name for n in session.source.nodes for v in n.outputs if v.use_count]
    watched = session.watch(names, made.feeds)
    for name, value in plain.items():
        assert same_bits(watched.outputs[name], value), f"watching changes output '{name}'\n{to_text(made.graph)}"
    missing = [name for name in names if name not in watched.values]
    assert not missing, f"{missing} were not seen\n{to_text(made.graph)}"


@pytest.mark.parametrize("seed", range(12))
def test_the_text_form_keeps_everything(seed: int) -> None:
    made = _again(seed, 7100)
    text = to_text(made.graph, with_names=True)
    data = {}
    for constant in _constants(made):
        from autofusion.ir.literals import digest

        data[digest(constant)] = constant
    back = from_text(text, data)
    verify(back)
    assert to_text(back, with_names=True) == text
    for want, got in zip(expectations(made.graph, made.feeds), expectations(back, made.feeds), strict=True):
        assert same_bits(got.value, want.value)


def _constants(made: Make) -> list[np.ndarray]:
    from tests.fuzz.fuzz_make import nodes_of

    arrays = [v.const for n in nodes_of(made.graph) for v in n.inputs if v is not None and v.const is not None]
    return arrays + [v.default for v in made.graph.inputs if v.default is not None]


@pytest.mark.parametrize("seed", range(12))
def test_exported_and_read_again(seed: int, tmp_path: Path) -> None:
    import autofusion as af
    from autofusion_frontend_onnx.export import export_model

    made = _again(seed, 7200)
    export_model(made.graph, tmp_path / "m.onnx")
    for level in ("off", "full"):
        outputs = af.compile(tmp_path / "m.onnx", level=level, threads=1).run(made.feeds)
        for name, want in zip(made.graph.output_names, expectations(made.graph, made.feeds), strict=True):
            said = difference(outputs[name], want)
            assert not said, f"level {level}: output '{name}': {said}\n{to_text(made.graph)}"


@pytest.mark.parametrize("seed", range(6))
def test_runs_at_the_same_time(seed: int) -> None:
    made = _again(seed, 7300)
    session = compiled(made.graph, Way("full", 2, isas()[0]))
    wanted = session.run(made.feeds)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(15):
            try:
                outputs = session.run(made.feeds)
            except AutofusionError as error:
                wrong.append(str(error))
                return
            wrong.extend(n for n, v in wanted.items() if not same_bits(outputs[n], v))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"{sorted(set(wrong))} differ\n{to_text(made.graph)}"


def test_a_seed_makes_one_graph() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert to_text(random_graph(11).graph) == to_text(random_graph(11).graph)


def _check_large(seed: int) -> None:
    graph, feeds, wanted = (fuzz_large.convolution if seed % 4 else fuzz_large.product)(np.random.default_rng(seed))
    for number, level in enumerate(LEVELS):
        way = Way(level, 1 + (seed + number) % 3, isas()[(seed // 2 + number) % len(isas())])
        found = compiled(graph, way).run(feeds)["y"]
        assert found.shape == wanted.shape, to_text(graph)
        worst = float(np.abs(found - wanted).max(initial=0.0))
        assert worst <= 2e-5 * float(np.abs(wanted).max(initial=1e-9)), f"{way}: {worst}\n{to_text(graph)}"


@pytest.mark.parametrize("seed", range(12))
def test_large_operators(seed: int) -> None:
    _check_large(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_large_operators_many(seed: int) -> None:
    _check_large(seed)
