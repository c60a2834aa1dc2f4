"""Operators on strings and n-grams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.dtypes import BOOL, F32, I64
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, attribute, register
from autofusion.ir.types import TensorType, Type

_STRING = np.dtype(object)


def _infer_concat(node: Node) -> Sequence[Type | None]:
    return shapes.only(TensorType(_STRING, shapes.broadcast(node, shapes.shape(node, 0), shapes.shape(node, 1))))


def _infer_split(node: Node) -> Sequence[Type | None]:
    dims = shapes.shape(node, 0)
    return TensorType(_STRING, None if dims is None else (*dims, None)), TensorType(I64, dims)


def _infer_normalizer(node: Node) -> Sequence[Type | None]:
    dims = shapes.rank_at_least(node, 0, 1)
    if dims is None:
        return shapes.only(TensorType(_STRING, None))
    if len(dims) > 2 or (len(dims) == 2 and isinstance(dims[0], int) and dims[0] != 1):
        shapes.fail(node, f"the operand must have shape [C] or [1, C], found {shapes.show(dims)}")
    return shapes.only(TensorType(_STRING, (None,) if len(dims) == 1 else (1, None)))


def _infer_match(node: Node) -> Sequence[Type | None]:
    return shapes.only(TensorType(BOOL, shapes.shape(node, 0)))


def _infer_tfidf(node: Node) -> Sequence[Type | None]:
    dims = shapes.rank_at_least(node, 0, 1)
    size = max(attribute(node, "ngram_indexes"), default=-1) + 1
    return shapes.only(TensorType(F32, None if dims is None else (*dims[:-1], size)))


def _register() -> None:
    opaque = OpClass.OPAQUE
    for operator in (
        Operator("StringConcat", opaque, _infer_concat, 2, 2),
        Operator("StringSplit", opaque, _infer_split, outputs=2, attributes={"delimiter": None, "maxsplit": None}),
        Operator(
            "StringNormalizer",
            opaque,
            _infer_normalizer,
            attributes={"case_change_action": "NONE", "is_case_sensitive": 0, "locale": None, "stopwords": None},
        ),
        Operator("RegexFullMatch", opaque, _infer_match, attributes={"pattern": None}),
        Operator(
            "TfIdfVectorizer",
            opaque,
            _infer_tfidf,
            attributes={
                "max_gram_length": REQUIRED,
                "max_skip_count": REQUIRED,
                "min_gram_length": REQUIRED,
                "mode": REQUIRED,
                "ngram_counts": REQUIRED,
                "ngram_indexes": REQUIRED,
                "pool_int64s": None,
                "pool_strings": None,
                "weights": None,
            },
        ),
    ):
        register(operator)


_register()
