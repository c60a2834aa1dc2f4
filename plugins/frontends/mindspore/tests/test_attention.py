"""Attention as one primitive, by its definition: MindSpore has it on Ascend alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.errors import ModelError
from plugins.frontends.mindspore.tests.one_primitive import run
from plugins.frontends.mindspore.tests.primitive_definitions import softmax

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(9)
F32 = np.float32
LAYOUTS = {"BSH": 0, "BNSD": 1, "SBH": 2, "BSND": 3}
B, N, S, T, D = 2, 4, 5, 7, 8
MOST = 2147483647


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F32)


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """[B, N, S, D] in another layout."""
    if layout == "BNSD":
        return x
    x = x.transpose(2, 0, 1, 3) if layout == "SBH" else x.transpose(0, 2, 1, 3)
    return np.ascontiguousarray(x if layout == "BSND" else x.reshape(*x.shape[:2], -1))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, shift: Any, hidden: Any) -> np.ndarray:
    k, v = (x.repeat(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * F32(scale)
    if shift is not None:
        scores = scores + shift
    if hidden is not None:
        scores = np.where(hidden, np.finfo(F32).min, scores)
    return (softmax(scores, 3) @ v).astype(F32)


def operands(q: Any, k: Any, v: Any, **more: Any) -> tuple[Any, ...]:
    given = {"shift": None, "mask": None, "scale": 0.3, "before": MOST, "after": MOST, "layout": 1, "mode": 0} | more
    arguments = (N, 1.0, given["scale"], given["before"], given["after"], 0, given["layout"], given["mode"])
    return (q, k, v, given["shift"], None, None, given["mask"], None, None, None, *arguments)


def check(tmp_path: Path, primitive: str, given: tuple[Any, ...], expected: np.ndarray) -> None:
    single = primitive == "PromptFlashAttention"
    softmaxes = floats(B, N, S, 8), floats(B, N, S, 8), floats(1)
    for level in ("off", "full"):
        declared = expected if single else (*softmaxes, expected)
        (result,) = run(tmp_path, primitive, given, {}, declared, element=None if single else 3, level=level)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


QUERY, KEY, VALUE = floats(B, N, S, D), floats(B, N, T, D), floats(B, N, T, D)
MASK = RNG.uniform(size=(B, 1, S, T)) < 0.3
AHEAD = np.arange(T)[None] - np.arange(S)[:, None]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kept", [N, 2, 1])
def test_layouts_and_shared_heads(layout: str, kept: int, tmp_path: Path) -> None:
    shift = floats(1, N, S, T)
    parts = [laid_out(x, layout) for x in (QUERY, KEY[:, :kept], VALUE[:, :kept])]
    given = operands(*parts, shift=shift, mask=MASK.astype(np.uint8), layout=LAYOUTS[layout])
    expected = attention(QUERY, KEY[:, :kept], VALUE[:, :kept], 0.3, shift, MASK)
    check(tmp_path, "FlashAttentionScore", given, laid_out(expected, layout))


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ({}, None),
        ({"mask": MASK}, MASK),
        ({"mask": MASK, "before": 2, "after": 1}, MASK | (AHEAD > 1) | (AHEAD < -2)),
        ({"before": 2, "after": 1}, None),  # without a mask they do not count
        ({"mask": MASK[0, 0], "mode": 1, "after": 0}, MASK[0, 0]),
        ({"mask": np.ones((2048, 2048), np.bool_), "mode": 2}, AHEAD > 0),
        ({"mask": np.ones((2048, 2048), np.bool_), "mode": 3}, AHEAD - (T - S) > 0),
        (
            {"mask": np.ones((2048, 2048), np.bool_), "mode": 4, "before": 2, "after": 1},
            (AHEAD - (T - S) > 1) | (AHEAD - (T - S) < -2),
        ),
    ],
)
def test_masks(options: dict[str, Any], hidden: Any, tmp_path: Path) -> None:
    expected = attention(QUERY, KEY, VALUE, 0.3, None, hidden)
    check(tmp_path, "FlashAttentionScore", operands(QUERY, KEY, VALUE, **options), expected)


def test_for_prompts(tmp_path: Path) -> None:
    arguments = (N, 0.5, MOST, 0, 1, 2, 0, 1)
    given = (QUERY, KEY[:, :2], VALUE[:, :2], MASK, *[None] * 8, *arguments)
    hidden = MASK | (AHEAD > 0)
    check(tmp_path, "PromptFlashAttention", given, attention(QUERY, KEY[:, :2], VALUE[:, :2], 0.5, None, hidden))


def test_what_is_refused(tmp_path: Path) -> None:
    def refused(message: str, *more: Any, **options: Any) -> None:
        given = list(operands(QUERY, KEY, VALUE, **options))
        for index, value in more:
            given[index] = value
        with pytest.raises(ModelError, match=message):
            run(tmp_path, "FlashAttentionScore", tuple(given), {}, None)

    refused("the layout 'TND' is not supported", layout=4)
    refused("sparse_mode 5 is not supported", mode=5)
    refused(r"set_train\(False\)", (11, 0.9))
    refused("lengths of the keys", (9, (3, 4)))
