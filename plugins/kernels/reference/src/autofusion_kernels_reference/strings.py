"""Operators on strings. Their elements are Python objects, so that a loop over them is all that there is."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion_kernels_reference.support import Inputs, OpFunction


def _objects(items: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(shape)


def _texts(x: np.ndarray) -> list[str]:
    """All elements as Python's own strings."""
    return [str(s) for s in x.ravel().tolist()]


def _concat(node: Node, inputs: Inputs) -> list[Any]:
    a, b = np.broadcast_arrays(*inputs)
    return [_objects([x + y for x, y in zip(_texts(a), _texts(b), strict=True)], a.shape)]


def _split(node: Node, inputs: Inputs) -> list[Any]:
    """[...] -> the parts [..., most parts], padded with empty strings, and how many there are [...]."""
    x = inputs[0]
    limit = node.attr("maxsplit")
    delimiter, limit = node.attr("delimiter") or None, -1 if limit is None else limit
    parts = [s.split(delimiter, limit) for s in _texts(x)]
    counts = [len(p) for p in parts]
    most = max(counts, default=0)
    flat = [s for p, count in zip(parts, counts, strict=True) for s in (p + [""] * (most - count))]
    return [_objects(flat, (*x.shape, most)), np.array(counts, np.int64).reshape(x.shape)]


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
    matches = compiled.fullmatch
    return [np.array([matches(s) is not None for s in _texts(x)], bool).reshape(x.shape)]


class _Pool:
    """The n-grams of a TfIdfVectorizer as a tree: a state for every beginning of one, a step for every next token."""

    def __init__(self, pool: tuple[Any, ...], starts: tuple[int, ...]) -> None:
        self.tokens = {token: i for i, token in enumerate(dict.fromkeys(pool))}
        if not any(isinstance(token, str) for token in pool):
            self._numbers = np.argsort(np.array(list(self.tokens), np.int64))
            self._sorted = np.array(list(self.tokens), np.int64)[self._numbers]
        steps: dict[tuple[int, int], int] = {}
        # Of each state the numbers of the n-grams that end there: equal ones may come twice.
        self.ends: list[list[int]] = [[]]
        number = 0
        for length, (begin, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
            for at in range(begin, end - length + 1, length):
                state = 0
                for token in pool[at : at + length]:
                    step = (state, self.tokens[token])
                    if step not in steps:
                        steps[step] = len(self.ends)
                        self.ends.append([])
                    state = steps[step]
                self.ends[state].append(number)
                number += 1
        self._width = len(self.tokens)
        keys = np.array([state * self._width + token for state, token in steps], np.int64)
        order = np.argsort(keys)
        self._keys, self._states = keys[order], np.array(list(steps.values()), np.int64)[order]

    def ids(self, words: np.ndarray) -> np.ndarray:
        """Numbers of tokens, -1 for those that no n-gram has."""
        if words.dtype.kind in "OUS":
            found = [self.tokens.get(str(v), -1) for v in words.ravel().tolist()]
            return np.array(found, np.int64).reshape(words.shape)
        if not self._sorted.size:
            return np.full(words.shape, -1)
        place = np.minimum(np.searchsorted(self._sorted, words), self._sorted.size - 1)
        return np.where(self._sorted[place] == words, self._numbers[place], -1)

    def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """The states after a further token, -1 where no n-gram goes on so; `tokens` are -1 where unknown."""
        if not self._keys.size:
            return np.full_like(states, -1)
        wanted = states * self._width + tokens
        place = np.minimum(np.searchsorted(self._keys, wanted), self._keys.size - 1)
        return np.where((self._keys[place] == wanted) & (states >= 0) & (tokens >= 0), self._states[place], -1)


@functools.lru_cache(maxsize=16)
def _pool(tokens: tuple[Any, ...], starts: tuple[int, ...]) -> _Pool:
    return _Pool(tokens, starts)


def _tf_idf(node: Node, inputs: Inputs) -> list[Any]:
    """Tokens [C] or [B, C] -> counts of the pool's n-grams [size] or [B, size], weighted as ``mode`` says.

    Tokens become numbers, and all places of the text go through the tree of n-grams at once.
    """
    x = inputs[0]
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    columns = [int(v) for v in node.attrs["ngram_indexes"]]
    size = max(columns) + 1
    strings = node.attr("pool_strings")
    known = tuple(node.attr("pool_int64s") or ()) if strings is None else tuple(str(s) for s in strings)
    pool = _pool(known, tuple(int(v) for v in node.attrs["ngram_counts"]))
    ids = pool.ids(rows)
    width = len(pool.ends)
    passed = np.zeros(len(rows) * width, np.int64)
    lines = (np.arange(len(rows)) * width)[:, None]
    least, most = node.attrs["min_gram_length"], node.attrs["max_gram_length"]
    for length in range(least, most + 1):
        # Single tokens have no gaps: skipping does not repeat them.
        for skip in range(1, 2 if length == 1 else node.attrs["max_skip_count"] + 2):
            span = ids.shape[1] - skip * (length - 1)
            if span <= 0:
                continue
            states = np.zeros((len(rows), span), np.int64)
            for place in range(length):
                states = pool.follow(states, ids[:, place * skip : place * skip + span])
            passed += np.bincount((lines + states)[states >= 0], minlength=passed.size)
    passed = passed.reshape(len(rows), width)
    counts = np.zeros((len(rows), size), np.int64)
    for state in np.flatnonzero(passed.any(0)).tolist():
        for gram in pool.ends[state]:
            counts[:, columns[gram]] += passed[:, state]
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
