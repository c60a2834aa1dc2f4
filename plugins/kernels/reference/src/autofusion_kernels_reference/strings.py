"""Operators on strings. Their elements are Python objects, so that a loop over them is all that there is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction


def _objects(items: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(shape)


def _concat(node: Node, inputs: Inputs) -> list[Any]:
    a, b = np.broadcast_arrays(*inputs)
    return [_objects([str(x) + str(y) for x, y in zip(a.ravel(), b.ravel(), strict=True)], a.shape)]


def _split(node: Node, inputs: Inputs) -> list[Any]:
    """[...] -> the parts [..., most parts], padded with empty strings, and how many there are [...]."""
    x = inputs[0]
    limit = node.attr("maxsplit")
    parts = [str(s).split(node.attr("delimiter") or None, -1 if limit is None else limit) for s in x.ravel()]
    most = max((len(p) for p in parts), default=0)
    flat = [s for p in parts for s in (*p, *[""] * (most - len(p)))]
    return [_objects(flat, (*x.shape, most)), np.array([len(p) for p in parts], np.int64).reshape(x.shape)]


def _normalizer(node: Node, inputs: Inputs) -> list[Any]:
    """[C] or [1, C] without the stop words, in one case; a single empty string if nothing is left."""
    x = inputs[0]
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ValueError(f"the shape is [C] or [1, C], not {list(x.shape)}")
    action, exact = node.attr("case_change_action", "NONE"), bool(node.attr("is_case_sensitive", 0))
    change = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}.get(action)
    if change is None:
        raise ValueError(f"case_change_action is one of LOWER, UPPER and NONE, not '{action}'")
    fold = str if exact else str.lower
    stop = {fold(w) for w in node.attr("stopwords") or ()}
    kept = [change(str(s)) for s in x.ravel() if fold(str(s)) not in stop] or [""]
    return [_objects(kept, (len(kept),) if x.ndim == 1 else (1, len(kept)))]


def _regex_full_match(node: Node, inputs: Inputs) -> list[Any]:
    pattern = node.attrs["pattern"]
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"'{pattern}' is not a regular expression: {error}") from error
    x = inputs[0]
    return [np.array([compiled.fullmatch(str(s)) is not None for s in x.ravel()], bool).reshape(x.shape)]


def _grams(node: Node) -> dict[int, list[tuple[int, tuple[Any, ...]]]]:
    """Length -> the (number, n-gram) pairs of the pool that count."""
    pool = node.attr("pool_strings")
    pool = list(node.attr("pool_int64s") or ()) if pool is None else [str(s) for s in pool]
    starts = [int(v) for v in node.attrs["ngram_counts"]]
    found: dict[int, list[tuple[int, tuple[Any, ...]]]] = {}
    number = 0
    for length, (begin, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        for at in range(begin, end - length + 1, length):
            found.setdefault(length, []).append((number, tuple(pool[at : at + length])))
            number += 1
    return found


def _tf_idf(node: Node, inputs: Inputs) -> list[Any]:
    """Tokens [C] or [B, C] -> counts of the pool's n-grams [size] or [B, size], weighted as ``mode`` says.

    Tokens and n-grams become numbers, so that each n-gram is one comparison of shifted columns.
    """
    x = inputs[0]
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    columns = [int(v) for v in node.attrs["ngram_indexes"]]
    size = max(columns) + 1
    grams = _grams(node)
    tokens: dict[Any, int] = {}
    for items in grams.values():
        for _, gram in items:
            for token in gram:
                tokens.setdefault(token, len(tokens))
    found = [tokens.get(str(v) if x.dtype.kind in "OUS" else int(v), -1) for v in rows.ravel()]
    ids = np.array(found, np.int64).reshape(rows.shape)
    counts = np.zeros((len(rows), size), np.int64)
    least, most = node.attrs["min_gram_length"], node.attrs["max_gram_length"]
    for length in range(least, most + 1):
        # Single tokens have no gaps: skipping does not repeat them.
        for skip in range(1, 2 if length == 1 else node.attrs["max_skip_count"] + 2):
            span = ids.shape[1] - skip * (length - 1)
            if span <= 0:
                continue
            for number, gram in grams.get(length, ()):
                hit = np.ones((len(rows), span), bool)
                for place, token in enumerate(gram):
                    hit &= ids[:, place * skip : place * skip + span] == tokens[token]
                counts[:, columns[number]] += hit.sum(1)
    mode = node.attrs["mode"]
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"mode is one of TF, IDF and TFIDF, not '{mode}'")
    y = (np.minimum(counts, 1) if mode == "IDF" else counts).astype(np.float64)
    if mode != "TF" and node.attr("weights") is not None:
        weights = np.ones(size)
        weights[columns] = np.float32(node.attr("weights"))  # a weight for each n-gram of the pool
        y *= weights
    return [y.astype(np.float32).reshape(size if x.ndim < 2 else (len(rows), size))]


OPS: dict[str, OpFunction] = {
    "RegexFullMatch": _regex_full_match,
    "StringConcat": _concat,
    "StringNormalizer": _normalizer,
    "StringSplit": _split,
    "TfIdfVectorizer": _tf_idf,
}
