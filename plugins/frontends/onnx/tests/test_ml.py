"""Operators of ai.onnx.ml, each against onnxruntime's own kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from plugins.frontends.onnx.tests.onnx_models import assert_same, load, model, ort, run

RNG = np.random.default_rng(0)
F32 = np.float32


def _check(op: str, x: np.ndarray, outputs: int = 1, version: int = 3, more: Any = None, **attrs: Any) -> None:
    fed = {"x": x} | ({} if more is None else {"more": more})
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(fed), names, domain="ai.onnx.ml", **attrs)
    for dynamic in (False, True):
        source = model([node], fed, names, domains={"ai.onnx.ml": version}, dynamic=dynamic, opset=19)
        graph = load(source)
        assert not [n.op for n in graph.nodes if "::" in n.op]
        got, expected = run(graph, fed), ort(source, fed)
        if expected[0].dtype.kind == "O":
            assert got[0].tolist() == expected[0].tolist()
            got, expected = got[1:], expected[1:]
        assert_same(got, expected, 1e-5, 1e-6)


def _f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F32)


def test_chosen_columns() -> None:
    _check("ArrayFeatureExtractor", _f32(3, 4), more=np.array([3, 0], np.int64))


def test_threshold() -> None:
    _check("Binarizer", _f32(3, 4), threshold=0.25)


@pytest.mark.parametrize("x", [_f32(3, 2), np.array([[1, 5], [7, 2]], np.int64)])
def test_scaler(x: np.ndarray) -> None:
    _check("Scaler", x, offset=[0.5, -1.0], scale=[2.0, 0.25])
    _check("Scaler", x, offset=[0.5], scale=[2.0])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    _check("Normalizer", np.abs(_f32(3, 4)), norm=norm)


def test_joined_features() -> None:
    _check("FeatureVectorizer", _f32(3, 4), more=_f32(3, 2), inputdimensions=[4, 2])


def test_imputer() -> None:
    x = np.array([[1, np.nan], [np.nan, 4]], F32)
    _check("Imputer", x, imputed_value_floats=[7.0, 9.0], replaced_value_float=float("nan"))
    _check("Imputer", np.array([[1, -1], [2, 3]], np.int64), imputed_value_int64s=[5], replaced_value_int64=-1)


def test_label_encoder() -> None:
    words = np.array([["a", "c"], ["z", "b"]], object)
    _check("LabelEncoder", words, keys_strings=["a", "b", "c"], values_int64s=[4, 5, 6], default_int64=-7)
    _check("LabelEncoder", words, keys_strings=["a", "b"], values_strings=["x", "y"], default_string="none")
    numbers = np.array([1, 9, 3], np.int64)
    _check("LabelEncoder", numbers, keys_int64s=[1, 3], values_strings=["one", "three"])
    reals = np.array([0.5, np.nan, 2.0], F32)
    _check(
        "LabelEncoder", reals, keys_floats=[0.5, float("nan")], values_floats=[1.0, 2.0], default_float=3.0, version=4
    )


def test_one_hot_encoder() -> None:
    _check("OneHotEncoder", np.array([[1, 7], [3, 1]], np.int64), cats_int64s=[1, 3, 5])
    _check("OneHotEncoder", np.array(["b", "q"], object), cats_strings=["a", "b"])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(transform: str) -> None:
    weights, bias = _f32(12).tolist(), _f32(3).tolist()
    x = _f32(5, 4)
    _check("LinearRegressor", x, coefficients=weights, intercepts=bias, targets=3, post_transform=transform)
    common: dict[str, Any] = {"coefficients": weights, "intercepts": bias, "post_transform": transform}
    _check("LinearClassifier", x, 2, classlabels_ints=[4, 5, 9], **common)
    _check("LinearClassifier", x, 2, classlabels_strings=["p", "q", "r"], **common)


def _forest(mode: str, prefix: str, targets: int, tracks: bool) -> dict[str, Any]:
    """Three random trees of different depth; the leaves of each know one target."""
    trees, ids, modes, features, values, true, false, owners = [], [], [], [], [], [], [], []
    for tree, depth in enumerate((0, 2, 4)):
        count = 0

        def grow(level: int, tree: int = tree, depth: int = depth) -> int:
            nonlocal count
            own, place = count, len(ids)
            count += 1
            leaf = level == depth or (level > 1 and RNG.random() < 0.2)
            for column, value in (
                (trees, tree), (ids, own), (modes, "LEAF" if leaf else mode), (features, int(RNG.integers(0, 4))),
                (values, float(np.round(RNG.standard_normal(), 1))), (true, 0), (false, 0),
            ):  # fmt: skip
                column.append(value)
            if leaf:
                owners.append((tree, own))
            else:
                true[place], false[place] = grow(level + 1), grow(level + 1)
            return own

        grow(0)
    made: dict[str, Any] = {
        "nodes_treeids": trees, "nodes_nodeids": ids, "nodes_modes": modes, "nodes_featureids": features,
        "nodes_values": values, "nodes_truenodeids": true, "nodes_falsenodeids": false,
        f"{prefix}_treeids": [t for t, _ in owners], f"{prefix}_nodeids": [n for _, n in owners],
        f"{prefix}_ids": [i % targets for i in range(len(owners))],
        f"{prefix}_weights": np.abs(_f32(len(owners))).tolist(),
    }  # fmt: skip
    if tracks:
        made["nodes_missing_value_tracks_true"] = [int(RNG.integers(0, 2)) for _ in ids]
    return made


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
def test_tree_regressor(aggregate: str, mode: str) -> None:
    x = np.round(_f32(40, 4), 1)
    # Where no leaf knows a target, onnxruntime leaves the base value out too: only one that each leaf knows has one.
    for targets, base in ((2, {}), (1, {"base_values": [0.5]})):
        forest = _forest(mode, "target", targets, False) | base
        _check("TreeEnsembleRegressor", x, n_targets=targets, aggregate_function=aggregate, **forest)


def test_missing_values_go_where_the_node_says() -> None:
    x = np.where(RNG.random((30, 4)) < 0.4, np.nan, _f32(30, 4)).astype(F32)
    _check("TreeEnsembleRegressor", x, n_targets=1, **_forest("BRANCH_LEQ", "target", 1, True))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("names", [{"classlabels_int64s": [3, 1, 8]}, {"classlabels_strings": ["u", "v", "w"]}])
def test_tree_classifier(names: dict[str, Any], transform: str) -> None:
    forest = _forest("BRANCH_LEQ", "class", 3, False)
    _check("TreeEnsembleClassifier", _f32(30, 4), 2, post_transform=transform, **names, **forest)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_two_classes_of_one_score(transform: str) -> None:
    common: dict[str, Any] = {"post_transform": transform}
    names = {"classlabels_ints": [5, 2]}
    _check("LinearClassifier", _f32(20, 4), 2, coefficients=_f32(4).tolist(), intercepts=[0.1], **names, **common)
    for positive in (True, False):
        forest = _forest("BRANCH_LEQ", "class", 1, False)
        weights = np.array(forest["class_weights"]) / 2
        forest["class_weights"] = (weights if positive else weights - 0.4).tolist()
        forest["class_ids"] = [0] * len(weights)
        if not positive or transform == "NONE":
            names = {"classlabels_strings": ["no", "yes"]}
            _check("TreeEnsembleClassifier", _f32(30, 4), 2, **names, **forest, **common)


def test_forms_that_are_not_known_stay_with_their_reason() -> None:
    node = helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L7")
    (left,) = load(model([node], {"x": _f32(2, 2)}, ["y"], domains={"ai.onnx.ml": 1})).nodes
    assert "norm 'L7' is not supported" in left.attrs["not_converted"]


def test_trees_without_root_or_end_stay_with_their_reason() -> None:
    attrs: dict[str, Any] = {
        "nodes_treeids": [0, 0], "nodes_nodeids": [0, 1], "nodes_modes": ["BRANCH_LEQ"] * 2, "nodes_featureids": [0, 0],
        "nodes_values": [0.0, 0.0], "nodes_truenodeids": [1, 1], "nodes_falsenodeids": [1, 0], "target_treeids": [0],
        "target_nodeids": [0], "target_ids": [0], "target_weights": [1.0], "n_targets": 1,
    }  # fmt: skip
    for following, reason in (([1, 1], "nobody's child"), ([2, 2], "its own descendant")):
        if following == [2, 2]:  # a root above two nodes that lead to each other
            attrs |= {"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_modes": ["BRANCH_LEQ"] * 3}
            attrs |= {"nodes_featureids": [0] * 3, "nodes_values": [0.0] * 3}
            attrs |= {"nodes_truenodeids": [1, 2, 1], "nodes_falsenodeids": [2, 2, 1]}
        node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attrs)
        (left,) = load(model([node], {"x": _f32(2, 2)}, ["y"], domains={"ai.onnx.ml": 1})).nodes
        assert reason in left.attrs["not_converted"]


def _vectors(classes: int, seed: int = 0) -> dict[str, Any]:
    rng, count = np.random.default_rng(seed), 3 * classes
    return {
        "kernel_params": [0.3, 0.4, 2.0],
        "support_vectors": rng.standard_normal(count * 4).tolist(),
        "coefficients": rng.standard_normal(max(classes - 1, 1) * count).tolist(),
        "rho": rng.standard_normal(max(classes * (classes - 1) // 2, 1)).tolist(),
    }


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regression(kernel: str, one_class: int) -> None:
    attrs = _vectors(1) | {"n_supports": 3, "kernel_type": kernel, "one_class": one_class}
    _check("SVMRegressor", _f32(5, 4), version=1, **attrs)


def test_support_vector_regression_without_vectors() -> None:
    attrs = {"coefficients": [0.5, -1.0, 2.0, 0.1], "rho": [0.3], "kernel_params": [0.0] * 3}
    _check("SVMRegressor", _f32(5, 4), version=1, **attrs)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("strings", [False, True])
def test_support_vector_classes(classes: int, kernel: str, strings: bool) -> None:
    names = [f"c{i}" for i in range(classes)] if strings else [10 + i for i in range(classes)]
    attrs = _vectors(classes) | {"kernel_type": kernel, "vectors_per_class": [3] * classes}
    attrs["classlabels_strings" if strings else "classlabels_ints"] = names
    _check("SVMClassifier", _f32(5, 4), 2, version=1, **attrs)


@pytest.mark.parametrize("post", ["LOGISTIC", "SOFTMAX"])
def test_support_vector_scores_are_transformed(post: str) -> None:
    attrs = _vectors(3) | {"kernel_type": "RBF", "vectors_per_class": [3] * 3, "classlabels_ints": [0, 1, 2]}
    _check("SVMClassifier", _f32(5, 4), 2, version=1, post_transform=post, **attrs)


def test_support_vector_probabilities_of_two_classes() -> None:
    x = _f32(5, 4)
    attrs = _vectors(2) | {"kernel_type": "RBF", "vectors_per_class": [3, 3], "classlabels_ints": [0, 1]}
    node = helper.make_node(
        "SVMClassifier", ["x"], ["y", "z"], domain="ai.onnx.ml", prob_a=[-0.7], prob_b=[0.2], **attrs
    )
    source = model([node], {"x": x}, ["y", "z"], domains={"ai.onnx.ml": 1}, opset=19)
    label, chances = run(load(source), {"x": x})
    expected_label, expected = ort(source, {"x": x})
    vectors = np.reshape(attrs["support_vectors"], (6, 4))
    kernels = np.exp(-0.3 * np.square(x[:, None] - vectors).sum(-1))
    decision = kernels @ np.array(attrs["coefficients"]) + attrs["rho"][0]
    exact = 1 / (1 + np.exp(decision * -0.7 + 0.2))
    np.testing.assert_allclose(chances, np.stack([exact, 1 - exact], 1), 1e-5, 1e-6)
    np.testing.assert_array_equal(label, expected_label)
    np.testing.assert_allclose(chances, expected, atol=2.5e-3)  # it stops its iteration there


def test_linear_classes_without_vectors() -> None:
    attrs = {"coefficients": RNG.standard_normal(12).tolist(), "rho": [0.3, 0.1, 0.2], "classlabels_ints": [0, 1, 2]}
    attrs["kernel_params"] = [0.0] * 3
    _check("SVMClassifier", _f32(5, 4), 2, version=1, **attrs)
