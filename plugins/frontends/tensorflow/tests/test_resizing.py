"""Resizing whose sizes are only known at run time: the same numbers as with known ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_graphs import check, frozen  # noqa: E402  (after the skip)

pytestmark = pytest.mark.tensorflow

FORMS = ["half_pixel_centers", "align_corners", None]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("known", ["neither", "size", "wanted", "both"])
@pytest.mark.parametrize("op", ["ResizeBicubic", "ResizeArea"])
def test_resizing_is_exact_whatever_is_known(op: str, known: str, form: str | None, tmp_path: Path) -> None:
    if (op, form) == ("ResizeArea", "half_pixel_centers"):
        pytest.skip("areas have no centres")
    rng = np.random.default_rng(2)

    def function(x: Any, n: Any) -> Any:
        size = [13, 7] if known in ("wanted", "both") else n
        return getattr(tf.raw_ops, op)(images=x, size=size, **({form: True} if form else {}))

    dims = [2, 9, 8, 3] if known in ("size", "both") else [2, None, None, 3]
    path = frozen(
        tmp_path / "model.pb", function, [tf.TensorSpec(dims, tf.float32, "x0"), tf.TensorSpec([2], tf.int32, "x1")]
    )
    shapes = [(9, 8)] if known in ("size", "both") else [(9, 8), (1, 5), (30, 3)]
    wanted = [(13, 7)] if known in ("wanted", "both") else [(13, 7), (1, 1), (4, 40)]
    for rows, columns in shapes:
        for size in wanted:
            x = rng.standard_normal((2, rows, columns, 3)).astype(np.float32)
            feeds = {"x0": x} | ({} if known in ("wanted", "both") else {"x1": np.int32(size)})
            check(path, feeds, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["lanczos3", "lanczos5"])
def test_lanczos_of_a_free_batch(mode: str, tmp_path: Path) -> None:
    layer = tf.keras.layers.Resizing(7, 5, interpolation=mode)
    path = frozen(tmp_path / "model.pb", lambda x: layer(x), [tf.TensorSpec((None, 9, 8, 3), tf.float32, "x0")])
    check(path, {"x0": np.random.default_rng(0).random((2, 9, 8, 3), np.float32)})
