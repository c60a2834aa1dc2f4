"""Preparation of features: scaling, thresholds, selection, labels and codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.registry import converter

_ML = "ai.onnx.ml"
_KINDS = ("tensor", "strings", "int64s", "floats")


def as_float(call: Call, x: Value) -> Value:
    """Numbers of any type as float32, which most operators of the domain give."""
    return x if x.dtype == np.float32 else call.emit("Cast", x, to=F32)


@converter("ArrayFeatureExtractor", domain=_ML)
def extract(call: Call) -> list[Value]:
    """Chosen columns of [..., columns]; a vector is one row."""
    x, columns = call.operand(0), call.emit("Reshape", call.operand(1), call.ints([-1]))
    if call.rank(x) == 1:
        x = call.emit("Unsqueeze", x, call.ints([0]))
    return [call.emit("Gather", x, columns, axis=-1)]


@converter("Binarizer", domain=_ML)
def binarize(call: Call) -> list[Value]:
    """1 above the threshold, else 0."""
    x = call.operand(0)
    above = call.emit("Greater", x, call.like(call.attr("threshold", 0.0), x, "threshold"))
    return [call.emit("CastLike", above, x)]


@converter("Scaler", domain=_ML)
def scale(call: Call) -> list[Value]:
    """(x - offset) * scale, each one number or one for each column."""
    y = as_float(call, call.operand(0))
    offset, factor = call.attr("offset"), call.attr("scale")
    y = y if offset is None else call.emit("Sub", y, call.const(offset, F32, "offset"))
    return [y if factor is None else call.emit("Mul", y, call.const(factor, F32, "scale"))]


@converter("Normalizer", domain=_ML)
def normalize(call: Call) -> list[Value]:
    """Rows divided by their largest element, sum of magnitudes or length; a row of zeros stays."""
    x, norm, axes = as_float(call, call.operand(0)), call.attr("norm", "MAX"), call.ints([-1])
    reduction = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}.get(norm)
    if reduction is None:
        call.fail(f"norm '{norm}' is not supported; expected MAX, L1 or L2")
    size = call.emit(reduction, x, axes, keepdims=1)
    nothing = call.emit("Equal", size, call.like(0, x, "zero"))
    return [call.emit("Div", x, call.emit("Where", nothing, call.like(1, x, "one"), size))]


@converter("FeatureVectorizer", domain=_ML)
def join(call: Call) -> list[Value]:
    """Features side by side."""
    parts = [as_float(call, v) for v in call.inputs if v is not None]
    return [parts[0] if len(parts) == 1 else call.emit("Concat", *parts, axis=1)]


@converter("Imputer", domain=_ML)
def impute(call: Call) -> list[Value]:
    """Values that stand for missing ones, replaced; of floating numbers, NaN may be what stands for them."""
    x = call.operand(0)
    whole = call.dtype(x).kind == "i"
    kind = "int64s" if whole else "floats"
    given, missing = call.attr(f"imputed_value_{kind}"), call.attr(f"replaced_value_{kind[:-1]}", 0)
    if given is None:
        call.fail(f"'imputed_value_{kind}' is missing")
    absent = call.emit("IsNaN", x) if np.isnan(missing) else call.emit("Equal", x, call.like(missing, x, "missing"))
    return [call.emit("Where", absent, call.const(given, call.dtype(x), "imputed"), x)]


def listed(call: Call, prefix: str) -> np.ndarray | None:
    """An attribute that comes under the name of its element type, or as a tensor; None if there is none."""
    for kind in _KINDS:
        data = call.attr(f"{prefix}_{kind}")
        if data is not None and len(np.atleast_1d(data)):
            dtype = {"strings": object, "int64s": np.int64, "floats": np.float32}.get(kind)
            return np.atleast_1d(np.asarray(data, dtype)).reshape(-1)
    return None


@converter("LabelEncoder", domain=_ML)
def encode(call: Call) -> list[Value]:
    """Each element replaced by the value of the key that it equals, or by the default."""
    if call.version < 2:
        keys: Any = np.asarray(call.attr("classes_strings"), object)
        values: Any = np.arange(len(keys), dtype=np.int64)
        if call.dtype(call.operand(0)).kind != "O":
            keys, values = values, keys
    else:
        keys, values = listed(call, "keys"), listed(call, "values")
    if keys is None or values is None or len(keys) != len(values):
        call.fail("keys and values are missing, or of different number")
    return [_looked_up(call, call.operand(0), keys, values, _default(call, values.dtype))]


def _default(call: Call, dtype: np.dtype) -> Any:
    if call.attr("default_tensor") is not None:
        return call.attr("default_tensor").reshape(())
    if dtype.kind == "O":
        return call.attr("default_string", "_Unused")
    if dtype.kind == "i":
        return call.attr("default_int64", -1)
    return call.attr("default_float", -0.0)


def _looked_up(call: Call, x: Value, keys: np.ndarray, values: np.ndarray, default: Any) -> Value:
    table = call.const(keys, keys.dtype, "keys")
    if x.dtype is not None and x.dtype != keys.dtype and keys.dtype.kind != "O":
        x = call.emit("Cast", x, to=keys.dtype)
    wide = call.emit("Unsqueeze", x, call.ints([-1]))
    same = call.emit("Equal", wide, table)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = call.emit("And", call.emit("IsNaN", wide), call.const(np.isnan(keys), np.bool_, "nan"))
        same = call.emit("Or", same, both)
    # The default is one more value behind the others, which a last key that always fits points to.
    hits = call.emit("Cast", same, to=np.dtype(np.int32))
    found = call.emit("ReduceMax", hits, call.ints([-1]), keepdims=0)
    place = call.emit("ArgMax", hits, axis=-1, keepdims=0)
    is_found = call.emit("Equal", found, call.const(1, np.int32, "one"))
    place = call.emit("Where", is_found, place, call.ints(len(values)))
    every = np.empty(len(values) + 1, values.dtype)
    every[:-1], every[-1] = values, default
    return call.emit("Gather", call.const(every, values.dtype, "values"), place, axis=0)


@converter("OneHotEncoder", domain=_ML)
def one_hot(call: Call) -> list[Value]:
    """[...] to [..., categories] with 1 where they are equal; an element that is none of them gives zeros."""
    words = call.attr("cats_strings")
    keys = np.asarray(words, object) if words is not None else np.asarray(call.attr("cats_int64s"), np.int64)
    if not call.attr("zeros", 1):
        call.fail("zeros = 0 (an unknown category is an error) is not supported")
    x = call.operand(0)
    x = x if words is not None else call.emit("Cast", x, to=np.dtype(np.int64))
    same = call.emit("Equal", call.emit("Unsqueeze", x, call.ints([-1])), call.const(keys, keys.dtype, "categories"))
    return [call.emit("Cast", same, to=F32)]
