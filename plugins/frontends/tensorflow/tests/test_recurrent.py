"""Recurrent operators against TensorFlow itself."""

from __future__ import annotations

from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow")

import numpy as np  # noqa: E402

from autofusion.tools.explain import plans  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import check, frozen, specs_of  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_operators import Cases, normal  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
CASES = Cases()
case = CASES.add
INPUT, HIDDEN, BATCH, STEPS = 6, 4, 2, 5
DIAGONALS = {name: normal(HIDDEN) * (k + 1) / 3 for k, name in enumerate(("wci", "wcf", "wco"))}
WEIGHTS = {"w": normal(INPUT + HIDDEN, 4 * HIDDEN) * 0.5, "b": normal(4 * HIDDEN), **DIAGONALS}
BEFORE = {"cs_prev": normal(BATCH, HIDDEN) * 2, "h_prev": normal(BATCH, HIDDEN) + 0.1}
SEQUENCE = normal(STEPS, BATCH, INPUT) * 2
RESULTS = ("i", "cs", "f", "o", "ci", "co", "h")

for peephole in (False, True):
    for clip in (-1.0, 0.4):
        options = {"use_peephole": peephole, "cell_clip": clip}
        case(
            f"cell_{peephole}_{clip}",
            lambda x, o=options: list(raw.LSTMBlockCell(x=x, **BEFORE, **WEIGHTS, forget_bias=0.5, **o)),
            SEQUENCE[0],
        )
        for version, more in (("BlockLSTM", {"forget_bias": 0.7}), ("BlockLSTMV2", {})):
            for length in (STEPS, 3):
                for wanted in (["h"], list(RESULTS)):

                    def layer(x, version=version, length=length, wanted=wanted, options=(options, more)):
                        steps = tf.constant(length, tf.int64)
                        named = {**WEIGHTS, **BEFORE, **options[0], **options[1]}
                        made = getattr(raw, version)(seq_len_max=steps, x=x, **named)
                        # Behind the last step TensorFlow writes zeros in these two only.
                        return [getattr(made, name)[: None if name in ("cs", "h") else length] for name in wanted]

                    case(f"{version}_{peephole}_{clip}_{length}_{len(wanted)}", layer, SEQUENCE)
case(
    "gru_cell",
    lambda x: list(
        raw.GRUBlockCell(
            x=x,
            h_prev=BEFORE["h_prev"],
            w_ru=normal(INPUT + HIDDEN, 2 * HIDDEN),
            w_c=normal(INPUT + HIDDEN, HIDDEN),
            b_ru=normal(2 * HIDDEN),
            b_c=normal(HIDDEN),
        )
    ),
    SEQUENCE[0],
)


@pytest.mark.parametrize("free", [(), (0, 1)], ids=["static", "free"])
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, free: tuple[int, ...], tmp_path: Path) -> None:
    CASES.check(name, tmp_path, () if "cell" in name and 1 in free else free)


def test_number_of_steps_that_is_computed(tmp_path: Path) -> None:
    def layer(x, n):
        return raw.BlockLSTMV2(seq_len_max=n, x=x, cell_clip=0.0, use_peephole=False, **WEIGHTS, **BEFORE).h

    length = np.array(3, np.int64)
    check(frozen(tmp_path / "m.pb", layer, specs_of([SEQUENCE, length])), {"x0": SEQUENCE, "x1": length})


def test_layer_becomes_the_operator(tmp_path: Path) -> None:
    function, _ = CASES[f"BlockLSTMV2_True_-1.0_{STEPS}_1"]
    session = check(frozen(tmp_path / "m.pb", function, specs_of([SEQUENCE])), {"x0": SEQUENCE})
    assert [node.op for node in session.graph.nodes if node.op in ("LSTM", "Scan", "Loop")] == ["LSTM"]


LAYERS = {
    "lstm": lambda: tf.keras.layers.LSTM(6),
    "lstm_sequence": lambda: tf.keras.layers.LSTM(6, return_sequences=True, go_backwards=True),
    "lstm_with_state": lambda: tf.keras.layers.LSTM(6, return_sequences=True, return_state=True),
    "lstm_both_ways": lambda: tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(4, return_sequences=True)),
    "gru": lambda: tf.keras.layers.GRU(6),
    "gru_resets_first": lambda: tf.keras.layers.GRU(6, reset_after=False, return_sequences=True),
}


@pytest.mark.parametrize("steps", [7, None], ids=["static", "free"])
@pytest.mark.parametrize("name", LAYERS)
def test_keras_layer_becomes_the_operator(name: str, steps: int | None, tmp_path: Path) -> None:
    layer, x = LAYERS[name](), normal(2, 7, 5)
    layer(x)
    for weight in layer.weights:
        weight.assign(normal(*weight.shape) * 0.7)
    specs = [tf.TensorSpec((None, steps, 5), tf.float32, "x0")]
    session = check(frozen(tmp_path / "m.pb", lambda x: layer(x), specs), {"x0": x})
    kernels = [str(step.kernel) for plan in plans(session) for step in plan.steps]
    wanted = "cpu:recurrent.gru" if "gru" in name else "cpu:recurrent.lstm"
    assert kernels.count(wanted) == (2 if "both" in name else 1)
    assert not any("loop" in kernel for kernel in kernels)
