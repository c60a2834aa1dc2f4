"""Attention as Keras writes it becomes one fused node, whatever of its sizes is free."""

from __future__ import annotations

from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow")

import numpy as np  # noqa: E402

from autofusion.fusion.ledger import Verdict  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import check, frozen  # noqa: E402

pytestmark = pytest.mark.tensorflow

Q = np.random.default_rng(0).standard_normal((2, 96, 64)).astype(np.float32)
V = np.random.default_rng(1).standard_normal((2, 80, 64)).astype(np.float32)


@pytest.mark.parametrize("open_axes", [(), (0,), (0, 1)], ids=["static", "batch", "batch and length"])
@pytest.mark.parametrize("layer", ["MultiHeadAttention", "GroupQueryAttention"])
def test_attention(layer: str, open_axes: tuple[int, ...], tmp_path: Path) -> None:
    if layer == "MultiHeadAttention":
        attention = tf.keras.layers.MultiHeadAttention(4, 16)
    else:
        attention = tf.keras.layers.GroupQueryAttention(16, 4, 2)
    attention(Q, V)
    specs = [
        tf.TensorSpec([None if a in open_axes else d for a, d in enumerate(x.shape)], tf.float32, name)
        for x, name in ((Q, "q"), (V, "v"))
    ]
    session = check(frozen(tmp_path / "m.pb", lambda q, v: attention(q, v), specs), {"q": Q, "v": V})
    assert not any(node.op == "Einsum" for node in session.graph.nodes)
    fused = [record.rule.partition("@")[0] for record in session.ledger.of(Verdict.FUSED)]
    assert fused.count("transformer.attention") == 1
