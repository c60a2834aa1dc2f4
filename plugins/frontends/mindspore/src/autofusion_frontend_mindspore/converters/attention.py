"""Attention that is one primitive, as networks for Ascend have it: written out, so that it is fused like any other."""

from __future__ import annotations

from typing import Any

import numpy as np

from autofusion.ir.dtypes import BOOL, I64
from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call, elements
from autofusion_frontend_mindspore.converters.detection import counting, extent
from autofusion_frontend_mindspore.registry import converter

_LAYOUTS = {0: "BSH", 1: "BNSD", 2: "SBH", 3: "BSND", 4: "TND"}
_NO_LIMIT = 2147483647


@converter("FlashAttentionScore")
def flash_attention_score(call: Call) -> Any:
    """-> (maxima, sums, a placeholder, attention); the first three are for the gradient and not given.

    Operands: query, key, value, shift of the scores, dropout mask, padding mask, mask (true is masked), prefix, lengths
    of the queries, of the keys; then the number of heads, the share kept by dropout, the scale, how many tokens before
    and after are seen, precision, layout, and how the mask is meant.
    """
    if float(call.argument(11, "keep_prob", 1.0)) != 1.0:
        call.fail("it drops elements at random: export the network with set_train(False)")
    refused = {5: "a padding mask", 7: "a prefix", 8: "lengths of the queries", 9: "lengths of the keys"}
    result = _attention(
        call,
        refused,
        shift=call.optional(3),
        mask=call.optional(6),
        heads=int(call.argument(10, "head_num")),
        scale=float(call.argument(12, "scale_value", 1.0)),
        tokens=(int(call.argument(13, "pre_tokens", _NO_LIMIT)), int(call.argument(14, "next_tokens", _NO_LIMIT))),
        layout=call.argument(16, "input_layout", 0),
        mode=int(call.argument(17, "sparse_mode", 0)),
    )
    return elements(call, None, None, None, result)


@converter("PromptFlashAttention")
def prompt_flash_attention(call: Call) -> Value:
    """The same without dropout. Operands: query, key, value, mask, lengths (2), shift, scales of quantisation (5); then
    the number of heads, the scale, tokens seen before and after, layout, heads of the keys, how the mask is meant."""
    refused = {
        4: "lengths of the queries",
        5: "lengths of the keys",
        **{i: "scales of quantisation" for i in range(7, 12)},
    }
    return _attention(
        call,
        refused,
        shift=call.optional(6),
        mask=call.optional(3),
        heads=int(call.argument(12, "num_heads")),
        scale=float(call.argument(13, "scale_value", 1.0)),
        tokens=(int(call.argument(14, "pre_tokens", _NO_LIMIT)), int(call.argument(15, "next_tokens", 0))),
        layout=call.argument(16, "input_layout", 0),
        mode=int(call.argument(18, "sparse_mode", 0)),
    )


def _attention(
    call: Call,
    refused: dict[int, str],
    *,
    shift: Value | None,
    mask: Value | None,
    heads: int,
    scale: float,
    tokens: tuple[int, int],
    layout: Any,
    mode: int,
) -> Value:
    """softmax(scale * q k^T + shift, where masked nothing) v, with keys and values that groups of heads may share."""
    for index, what in refused.items():
        if call.has(index):
            call.fail(f"{what} (operand {index}) cannot be read")
    form = _LAYOUTS.get(layout, layout)
    if form not in ("BSH", "BNSD", "SBH", "BSND"):
        call.fail(f"the layout {form!r} is not supported, only BSH, BNSD, SBH and BSND")
    query, key, value = (_by_heads(call, call.tensor(i), form, heads) for i in range(3))
    groups = heads // max(call.static_dim(key, 1), 1)
    if groups > 1:
        key, value = _repeated(call, key, groups), _repeated(call, value, groups)
    scores = call.emit("MatMul", query, call.emit("Transpose", key, perm=[0, 1, 3, 2]))
    scores = call.emit("Mul", scores, call.like(scale, scores))
    if shift is not None:
        scores = call.emit("Add", scores, call.cast(shift, scores.dtype))
    hidden = _hidden(call, mask, query, key, tokens, mode)
    if hidden is not None:
        lowest = float(np.finfo(np.float16 if scores.dtype == np.dtype(np.float16) else np.float32).min)
        scores = call.emit("Where", hidden, call.like(lowest, scores), scores)
    result = call.emit("MatMul", call.emit("Softmax", scores, axis=-1), value)
    if form == "BNSD":
        return result
    result = call.emit("Transpose", result, perm=[2, 0, 1, 3] if form == "SBH" else [0, 2, 1, 3])
    return result if form == "BSND" else call.emit("Reshape", result, call.ints([0, 0, -1]))


def _by_heads(call: Call, value: Value, form: str, heads: int) -> Value:
    """[batch, heads, sequence, features], of a tensor that may have fewer heads than the query."""
    if form == "BNSD":
        return value
    if form in ("BSH", "SBH"):
        features = call.static_dim(call.tensor(0), 2) // heads
        value = call.emit("Reshape", value, call.ints([0, 0, call.static_dim(value, 2) // features, features]))
    return call.emit("Transpose", value, perm=[1, 2, 0, 3] if form == "SBH" else [0, 2, 1, 3])


def _repeated(call: Call, value: Value, groups: int) -> Value:
    """Every head as often as heads of the query share it."""
    index = np.repeat(np.arange(call.static_dim(value, 1)), groups)
    return call.emit("Gather", value, call.const(index, I64), axis=1)


def _hidden(
    call: Call, mask: Value | None, query: Value, key: Value, tokens: tuple[int, int], mode: int
) -> Value | None:
    """Which scores do not count. In modes 2 to 4 the mask is a pattern of fixed size that says what the mode does."""
    if mode not in (0, 1, 2, 3, 4):
        call.fail(f"sparse_mode {mode} is not supported, only 0 to 4")
    if mode == 1 or (mode == 0 and (mask is None or min(tokens) >= _NO_LIMIT)):
        return None if mask is None else call.cast(mask, BOOL)
    before, after = {2: (_NO_LIMIT, 0), 3: (_NO_LIMIT, 0)}.get(mode, tokens)
    rows, columns = (extent(call, value, 2) for value in (query, key))
    row = call.emit("Unsqueeze", counting(call, rows), call.ints([1]))
    if mode in (3, 4):  # counted from the last query and the last key
        row = call.emit("Add", row, call.emit("Sub", columns, rows))
    ahead = call.emit("Sub", call.emit("Unsqueeze", counting(call, columns), call.ints([0])), row)
    hidden = call.emit("Greater", ahead, call.const(after, I64))
    if before < _NO_LIMIT:
        hidden = call.emit("Or", hidden, call.emit("Less", ahead, call.const(-before, I64)))
    return hidden if mode != 0 else call.emit("Or", hidden, call.cast(mask, BOOL))  # type: ignore[arg-type]
