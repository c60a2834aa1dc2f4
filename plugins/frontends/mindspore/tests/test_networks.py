"""Our own networks, exported by MindSpore: they load, run at every level, and give what MindSpore gives."""

from __future__ import annotations

import ast
import importlib.util

import numpy as np
import pytest

import autofusion as af
from autofusion.tools.compare import difference
from plugins.frontends.mindspore.tests import mindir_cache

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="mindspore is not installed"),
]

PRIMITIVES = (
    "unary activations nn_activations arithmetic promotions comparisons shapes joining slicing hot indexing reductions "
    "searching creation padding resampling matrices lp convolutions transposed_convolutions convolutions_1d "
    "convolutions_3d poolings normalisations batch_norm_1d batch_norm_3d dense_3d training_batch_norm places windows "
    "embedding lstm lstm_deep lstm_no_bias lstm_lengths gru rnn recurrent_cells attention standardised_weights pairs "
    "extremes empty statistics products mint_layers sums instance_norm unfold"
).split()
PROGRAMS = (
    "nested_tuples through shared_parameter counter assign_in_branch_taken assign_in_branch_not_taken assign_in_loop "
    "in_place while while_never break break_not_reached continue return_from_loop return_after_loop nested_loops "
    "loop_in_method branches_0 branches_1 branches_2 switch_layer_0 switch_layer_2 switch_layer_m2 return_in_branch_0 "
    "return_in_branch_1 while_true break_and_continue return_from_inner_loop return_after_inner_loop mixed_1 mixed_m1 "
    "loop_in_branch loop_with_state loop_in_place loop_of_tuples loop_of_layers results set_items scatter_state masked "
    "dynamic_dense dynamic_numbers dynamic_convolution dynamic_transposed dynamic_columns"
).split()
SPECIALS = (
    "nms_with_mask nms_with_equal_scores ctc_greedy ctc_greedy_repeated deformable_offsets rfft rfft_ortho "
    "fft_of_integers irfft rfft2 irfft2 spectrum matrix_inverse matrix_inverse_adjoint matrix_determinant "
    "solve_triangular solve_triangular_transposed cummax cummin search_sorted search_sorted_right bincount unique "
    "unique_with_pad unique_consecutive col2im affine_grid affine_grid_aligned cdist cdist_of_three cdist_of_most "
    "cross cross_last fractional_pool fractional_pool_3d adaptive_max_places adaptive_max_places_3d"
).split()
NETWORKS = ["crnn", "bert", "detector", "segmenter"]
LEVELS = ("off", "basic", "full")


@pytest.fixture(scope="module", autouse=True)
def _made() -> None:
    mindir_cache.build([*PRIMITIVES, *PROGRAMS, *SPECIALS, *NETWORKS])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", [*PRIMITIVES, *PROGRAMS, *SPECIALS, *NETWORKS])
def test_gives_what_mindspore_gives(name: str, level: str) -> None:
    network = mindir_cache.exported(name)
    session = af.compile(network.path, level=level, threads=1)
    names = [v.name for v in session.graph.inputs if v.default is None]
    results = session.run(dict(zip(names, network.inputs, strict=True)))
    for number, expected in enumerate(network.outputs):
        result = np.asarray(results[f"out{number}"])
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape), f"output {number}"
        found = difference(result, expected)
        assert found.same_nonfinite and found.max_over_range <= 1e-4, f"output {number}: {found}"
        assert found.mean_relative <= 1e-5, f"output {number}: {found}"


def test_every_network_is_tested() -> None:
    source = "\n".join((mindir_cache.HERE / f"{name}.py").read_text() for name in mindir_cache.NETWORKS)
    source = source.replace("from __future__ import annotations", "")
    made = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            first = node.value.args[0]
            if node.value.func.id == "net" and isinstance(first, ast.Name):
                made.add(first.id)
            if node.value.func.id == "cell" and isinstance(first, ast.Constant):
                made.add(first.value)
    listed = {*PRIMITIVES, *PROGRAMS, *SPECIALS, *NETWORKS}
    assert made <= listed, f"not tested: {sorted(made - listed)}"


def test_open_sizes_take_other_sizes() -> None:
    network = mindir_cache.exported("dynamic_convolution")
    session = af.compile(network.path)
    (image,) = network.inputs
    whole = session.run({"x": image})["out0"]
    first = session.run({"x": image[:1]})["out0"]
    assert first.shape == (1, 2) and np.allclose(first, whole[:1], atol=1e-6)
    assert session.run({"x": np.zeros((1, 3, 40, 20), np.float32)})["out0"].shape == (1, 2)
