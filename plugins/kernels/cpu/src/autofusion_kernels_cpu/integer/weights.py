"""Constant factors packed for the tile, with what makes up for types and zero points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.integer.form import Form
from autofusion_kernels_cpu.integer.problem import IntegerProduct
from autofusion_kernels_cpu.matmul.pack import aligned
from autofusion_kernels_cpu.matmul.tile import panel_width
from autofusion_kernels_cpu.packed import packed


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """``panels`` is [batch, panels, groups, width, group], zero past the ends. The others are for ``Form.BYTES``.

    With bytes u of A and zero point z of u, and bytes s of B and zero point w of s::

        sum((u - z) * (s - w)) = sum(u * s) - w * sum(u) - z * (sum(s) - K * w)

    ``columns`` is sum(s) - K * w and ``zeros`` is w, both int32 [batch, panels * width]; ``zeros`` is None if all
    are zero.
    """

    panels: np.ndarray
    columns: np.ndarray | None = None
    zeros: np.ndarray | None = None


def pack_weights(cache: dict[Any, Any], problem: IntegerProduct, form: Form, isa: Isa) -> Weights:
    """B in the given form, kept in ``cache`` for all nodes that multiply by it with the same zero point."""
    array, zero = problem.weights, problem.b_zero
    width = panel_width(isa)
    how = (zero.tobytes(), zero.shape, form, width)
    return packed(cache, "integer.panels", array, how, partial(_pack, array, zero, form, width))


def _pack(array: np.ndarray, zero: np.ndarray, form: Form, width: int) -> Weights:
    matrix = (array[:, None] if array.ndim == 1 else array).astype(np.int32)
    *batch, k, n = matrix.shape
    own = np.broadcast_to(zero.astype(np.int32), (*batch, 1, n))
    if form is Form.WORDS:
        return Weights(_panels(matrix - own, np.int16, form, width))
    if array.dtype == np.uint8:
        matrix, own = matrix - 128, own - 128
    columns = matrix.sum(axis=-2, dtype=np.int32) - np.int32(k) * own[..., 0, :]
    zeros = _vectors(own[..., 0, :], width) if own.any() else None
    return Weights(_panels(matrix, np.int8, form, width), _vectors(columns, width), zeros)


def _panels(matrix: np.ndarray, dtype: type, form: Form, width: int) -> np.ndarray:
    *batch, k, n = matrix.shape
    count, groups, panels = math.prod(batch), -(-k // form.group), -(-n // width)
    whole = np.zeros((count, groups * form.group, panels * width), dtype)
    whole[:, :k, :n] = matrix.reshape(count, k, n)
    split = whole.reshape(count, groups, form.group, panels, width)
    return aligned(split.transpose(0, 3, 1, 4, 2))


def _vectors(rows: np.ndarray, width: int) -> np.ndarray:
    """[..., N] as int32 [batch, N up to whole panels]."""
    flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
    return aligned(np.pad(flat, [(0, 0), (0, -flat.shape[1] % width)]).astype(np.int32))
