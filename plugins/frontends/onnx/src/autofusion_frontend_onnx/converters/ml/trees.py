"""Ensembles of decision trees: all trees are walked at once, one level at a time.

The nodes of all trees lie in one list. A leaf leads to itself, so that after as many steps as the deepest tree has
levels every row stands, in every tree, on a leaf, whose weights are then put together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autofusion.ir.dtypes import BOOL, F32
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.converters.ml.linear import labels, of_one_score, transformed
from autofusion_frontend_onnx.registry import converter

_ML = "ai.onnx.ml"
_COMPARE = {
    "BRANCH_LEQ": "LessOrEqual",
    "BRANCH_LT": "Less",
    "BRANCH_GTE": "GreaterOrEqual",
    "BRANCH_GT": "Greater",
    "BRANCH_EQ": "Equal",
}
_NUMBERED = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")


@dataclass(slots=True)
class _Forest:
    """Nodes of all trees, by arrays of one length; ``weights`` [nodes, targets] are NaN where a leaf says nothing."""

    roots: np.ndarray
    mode: list[str]
    feature: np.ndarray
    split: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing: np.ndarray
    weights: np.ndarray
    members: list[np.ndarray]

    def depth(self) -> int:
        """The number of steps that lead from every root to a leaf; more than there are nodes if none ever does."""
        at, steps = np.unique(self.roots), 0
        while (self.true[at] != at).any():
            at, steps = np.unique(np.concatenate([self.true[at], self.false[at]])), steps + 1
            if steps > len(self.mode):
                break
        return steps


def _scores(call: Call, forest: _Forest, aggregate: str) -> Value:
    """[rows, targets] before base values and transformation."""
    x = call.operand(0)
    dtype = call.dtype(x) if call.dtype(x).kind == "f" else np.dtype(F32)
    x = x if x.dtype == dtype else call.emit("Cast", x, to=dtype)
    if call.rank(x) == 1:
        x = call.emit("Unsqueeze", x, call.ints([0]))
    shape = call.emit("Concat", call.dim(x, 0), call.ints([len(forest.roots)]), axis=0)
    at = call.emit("Expand", call.ints(forest.roots.tolist(), "roots"), shape)
    tables = {
        "feature": call.ints(forest.feature.tolist(), "feature"),
        "split": call.const(forest.split, dtype, "split"),
        "true": call.ints(forest.true.tolist(), "true"),
        "false": call.ints(forest.false.tolist(), "false"),
    }
    kinds = {
        mode: call.const([m == mode for m in forest.mode], BOOL, mode.lower())
        for mode in dict.fromkeys(forest.mode)
        if mode != "LEAF"
    }
    missing = call.const(forest.missing, BOOL, "missing") if forest.missing.any() else None
    members = _members(call, forest, dtype)
    depth = forest.depth()
    if depth > len(forest.mode):
        call.fail("a node of a tree is its own descendant")
    for _ in range(depth):
        value = call.emit("GatherElements", x, call.emit("Gather", tables["feature"], at), axis=1)
        split = call.emit("Gather", tables["split"], at)
        goes: Value | None = None
        for mode, is_mode in kinds.items():
            holds = _holds(call, mode, value, split, members, at)
            if len(kinds) > 1:
                holds = call.emit("And", holds, call.emit("Gather", is_mode, at))
            goes = holds if goes is None else call.emit("Or", goes, holds)
        if goes is None:
            break
        if missing is not None:
            absent = call.emit("And", call.emit("IsNaN", value), call.emit("Gather", missing, at))
            goes = call.emit("Or", goes, absent)
        at = call.emit("Where", goes, *(call.emit("Gather", tables[n], at) for n in ("true", "false")))
    return _together(call, forest, at, aggregate, dtype)


def _members(call: Call, forest: _Forest, dtype: np.dtype) -> Value | None:
    """The values that each node counts as members [nodes, most], filled up with NaN, which equals nothing."""
    most = max((len(m) for m in forest.members), default=0)
    if not most:
        return None
    table = np.full((len(forest.mode), most), np.nan)
    for row, values in zip(table, forest.members, strict=True):
        row[: len(values)] = values
    return call.const(table, dtype, "members")


def _holds(call: Call, mode: str, value: Value, split: Value, members: Value | None, at: Value) -> Value:
    if mode in _COMPARE:
        return call.emit(_COMPARE[mode], value, split)
    if mode == "BRANCH_NEQ":
        return call.emit("Not", call.emit("Equal", value, split))
    if mode == "BRANCH_MEMBER" and members is not None:
        same = call.emit("Equal", call.emit("Unsqueeze", value, call.ints([2])), call.emit("Gather", members, at))
        some = call.emit("ReduceMax", call.emit("Cast", same, to=np.dtype(np.int32)), call.ints([2]), keepdims=0)
        return call.emit("Cast", some, to=BOOL)
    call.fail(f"node mode '{mode}' is not supported")


def _together(call: Call, forest: _Forest, at: Value, aggregate: str, dtype: np.dtype) -> Value:
    absent = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    weights = np.where(np.isnan(forest.weights), absent, forest.weights)
    leaves = call.emit("Gather", call.const(weights, dtype, "weights"), at, axis=0)
    axes = call.ints([1])
    if aggregate in ("MIN", "MAX"):
        y = call.emit(f"Reduce{aggregate.capitalize()}", leaves, axes, keepdims=0)
        return call.emit("Where", call.emit("IsInf", y), call.like(0, y, "zero"), y)
    if aggregate not in ("SUM", "AVERAGE"):
        call.fail(f"aggregate function '{aggregate}' is not supported")
    y = call.emit("ReduceSum", leaves, axes, keepdims=0)
    return y if aggregate == "SUM" else call.emit("Div", y, call.like(len(forest.roots), y, "trees"))


def _listed_forest(call: Call, prefix: str, targets: int) -> _Forest:
    """The trees of the older operators, whose nodes are named by tree and number."""
    trees, ids = (np.asarray(call.attr(f"nodes_{n}ids"), np.int64) for n in ("tree", "node"))
    place = {(t, i): n for n, (t, i) in enumerate(zip(trees.tolist(), ids.tolist(), strict=True))}
    mode = list(call.attr("nodes_modes"))
    here = np.arange(len(mode))

    def following(name: str) -> np.ndarray:
        found = zip(trees.tolist(), call.attr(name), mode, here, strict=True)
        return np.array([n if m == "LEAF" else place[t, i] for t, i, m, n in found], np.int64)

    true, false = following("nodes_truenodeids"), following("nodes_falsenodeids")
    inner = np.array([m != "LEAF" for m in mode], bool)
    split, weight = (
        np.asarray(call.attr(name) if call.attr(name) is not None else call.attr(f"{name}_as_tensor"), np.float64)
        for name in ("nodes_values", f"{prefix}_weights")
    )
    reached = set(true[inner].tolist()) | set(false[inner].tolist())
    weights = np.full((len(mode), targets), np.nan)
    owners = zip(
        call.attr(f"{prefix}_treeids"), call.attr(f"{prefix}_nodeids"), call.attr(f"{prefix}_ids"), weight, strict=True
    )
    for t, i, target, w in owners:
        at = place[int(t), int(i)], int(target)
        weights[at] = w + (0 if np.isnan(weights[at]) else weights[at])
    roots = np.array([n for n in here if int(n) not in reached], np.int64)
    if len(roots) != len(np.unique(trees)):
        call.fail(f"{len(np.unique(trees))} trees have {len(roots)} nodes that are nobody's child; expected one each")
    return _Forest(
        roots,
        mode,
        np.where(inner, np.asarray(call.attr("nodes_featureids"), np.int64), 0),
        np.where(inner, split, 0),
        true,
        false,
        _flags(call.attr("nodes_missing_value_tracks_true"), len(mode)),
        weights,
        [np.zeros(0)] * len(mode),
    )


def _flags(values: object, count: int) -> np.ndarray:
    return np.zeros(count, bool) if values is None else np.asarray(values, bool)


@converter("TreeEnsembleRegressor", domain=_ML)
def regress(call: Call) -> list[Value]:
    """[rows, targets]."""
    forest = _listed_forest(call, "target", call.attr("n_targets"))
    y = _scores(call, forest, call.attr("aggregate_function", "SUM"))
    y = _with_base(call, y)
    return [transformed(call, y if y.dtype == np.float32 else call.emit("Cast", y, to=F32))]


def _with_base(call: Call, y: Value) -> Value:
    base = call.attr("base_values")
    base = call.attr("base_values_as_tensor") if base is None else base
    return y if base is None or not len(base) else call.emit("Add", y, call.const(base, call.dtype(y), "base"))


@converter("TreeEnsembleClassifier", domain=_ML)
def classify(call: Call) -> list[Value]:
    """The label of the best class of each row, and the scores [rows, classes]."""
    names = labels(call, "classlabels_strings", "classlabels_int64s")
    if len(names) == 2 and len(set(call.attr("class_ids"))) == 1:
        return _two_classes(call, names)
    y = _with_base(call, _scores(call, _listed_forest(call, "class", len(names)), "SUM"))
    best = call.emit("ArgMax", y, axis=1, keepdims=0)
    label = call.emit("Gather", call.const(names, names.dtype, "labels"), best, axis=0)
    return [label, transformed(call, y if y.dtype == np.float32 else call.emit("Cast", y, to=F32))]


def _two_classes(call: Call, names: np.ndarray) -> list[Value]:
    """Two classes whose leaves all speak of the same one."""
    if call.attr("base_values") or call.attr("base_values_as_tensor") is not None:
        call.fail("base values of two classes with one score are not supported")
    if any(call.attr("class_ids")):
        call.fail("weights for the second class alone are not supported; expected those of class 0, which stand for it")
    forest = _listed_forest(call, "class", 1)
    score = _scores(call, forest, "SUM")
    score = score if score.dtype == np.float32 else call.emit("Cast", score, to=F32)
    positive = not (np.nan_to_num(forest.weights) < 0).any()  # they are probabilities then
    if positive and call.attr("post_transform", "NONE") != "NONE":
        call.fail("a transformation of probabilities of two classes with one score is not supported")
    return list(of_one_score(call, score, names, threshold=0.5 if positive else 0.0, rest=positive))


@converter("TreeEnsemble", domain=_ML)
def ensemble(call: Call) -> list[Value]:
    """Trees whose leaves have a list of their own; they follow the nodes here. Numbers stand for modes and the like."""
    splits, modes = np.asarray(call.attr("nodes_splits")), np.asarray(call.attr("nodes_modes")).tolist()
    nodes, leaves = len(modes), len(call.attr("leaf_targetids"))
    mode = [_NUMBERED[m] for m in modes] + ["LEAF"] * leaves
    own = np.arange(nodes, nodes + leaves)

    def following(ids: str, leafs: str) -> np.ndarray:
        found = np.asarray(call.attr(ids), np.int64) + np.where(_flags(call.attr(leafs), nodes), nodes, 0)
        return np.concatenate([found, own])

    true = following("nodes_truenodeids", "nodes_trueleafs")
    false = following("nodes_falsenodeids", "nodes_falseleafs")
    targets = call.attr("n_targets", 1)
    weights = np.full((nodes + leaves, targets), np.nan)
    weights[own, np.asarray(call.attr("leaf_targetids"), np.int64)] = np.asarray(call.attr("leaf_weights"), np.float64)
    more = np.zeros(leaves, np.int64)
    forest = _Forest(
        np.asarray(call.attr("tree_roots"), np.int64),
        mode,
        np.concatenate([np.asarray(call.attr("nodes_featureids"), np.int64), more]),
        np.concatenate([splits.astype(np.float64), more]),
        true,
        false,
        np.concatenate([_flags(call.attr("nodes_missing_value_tracks_true"), nodes), more.astype(bool)]),
        weights,
        _sets(call, mode),
    )
    aggregate = ("AVERAGE", "SUM", "MIN", "MAX")[call.attr("aggregate_function", 1)]
    kind = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[call.attr("post_transform", 0)]
    y = _scores(call, forest, aggregate)
    call.attrs["post_transform"] = kind
    return [transformed(call, y)]


def _sets(call: Call, mode: list[str]) -> list[np.ndarray]:
    """The values of each node that asks for membership: one list for all of them, in which NaN ends a node's own."""
    values = call.attr("membership_values")
    flat = np.zeros(0) if values is None else np.asarray(values, np.float64)
    ends = np.flatnonzero(np.isnan(flat))
    parts = iter(np.split(flat, ends + 1))
    cut = {n: next(parts, np.zeros(0)) for n, m in enumerate(mode) if m == "BRANCH_MEMBER"}
    return [cut[n][~np.isnan(cut[n])] if n in cut else np.zeros(0) for n in range(len(mode))]
