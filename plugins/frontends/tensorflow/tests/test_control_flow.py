"""If, Case and While in both spellings, functions, lists, and recurrent layers of Keras."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_graphs import check, frozen, graph_v1  # noqa: E402  (after the skip)

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(0).standard_normal((2, 7, 5)).astype(np.float32)
SPELLINGS = pytest.mark.parametrize("lower", [False, True], ids=["functions", "switches"])


def run(path: Path, function: Callable[..., Any], *arrays: np.ndarray, lower: bool, free: bool = False) -> Any:
    """Freeze and check; ``free`` leaves every size open but the last."""
    specs = [
        tf.TensorSpec([*([None] * (x.ndim - 1)), *x.shape[-1:]] if free else x.shape, x.dtype, f"x{i}")
        for i, x in enumerate(arrays)
    ]
    frozen(path, function, specs, lower=lower)
    return check(path, {f"x{i}": x for i, x in enumerate(arrays)})


@SPELLINGS
@pytest.mark.parametrize("flag", [False, True])
def test_cond(lower: bool, flag: bool, tmp_path: Path) -> None:
    def function(x: Any, flag: Any) -> Any:
        return tf.cond(flag, lambda: x * 2.0 + 1.0, lambda: tf.nn.relu(x) - 3.0)

    run(tmp_path / "m.pb", function, X, np.array(flag), lower=lower)


@SPELLINGS
@pytest.mark.parametrize("value", [-1.0, 0.5, 3.0])
def test_cond_in_cond(lower: bool, value: float, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        inner = lambda: tf.cond(tf.reduce_sum(x) > 2.0, lambda: x + 10.0, lambda: x * x)  # noqa: E731
        return tf.cond(tf.reduce_sum(x) > 0.0, inner, lambda: -x)

    run(tmp_path / "m.pb", function, np.float32([value]), lower=lower)


@SPELLINGS
def test_cond_of_constants_and_several_results(lower: bool, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        a, b = tf.cond(tf.reduce_max(x) > 100.0, lambda: (x, 1.5), lambda: (x + 1.0, 2.5))
        return a * b

    run(tmp_path / "m.pb", function, X, lower=lower)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_case(index: int, tmp_path: Path) -> None:
    def function(x: Any, i: Any) -> Any:
        return tf.switch_case(i, [lambda: x, lambda: x * 2.0, lambda: x - 7.0])

    run(tmp_path / "m.pb", function, X, np.int32(index).reshape(()), lower=False)


@SPELLINGS
def test_while_until_a_value(lower: bool, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda v: tf.reduce_sum(v) < 100.0, lambda v: [v * 1.7 + 0.1], [x])[0]

    run(tmp_path / "m.pb", function, np.abs(X[0, 0]), lower=lower)


@SPELLINGS
def test_while_that_never_runs(lower: bool, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda v: tf.reduce_sum(v) < -1e6, lambda v: [v * 2.0], [x])[0]

    run(tmp_path / "m.pb", function, X, lower=lower)


@SPELLINGS
def test_while_in_while(lower: bool, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        def outer(i: Any, v: Any) -> Any:
            def inner(j: Any, w: Any) -> Any:
                return j + 1, w + tf.cast(i * j, tf.float32)

            return i + 1, tf.while_loop(lambda j, w: j < i, inner, [0, v])[1] * 0.5

        return tf.while_loop(lambda i, v: i < 4, outer, [0, x])[1]

    run(tmp_path / "m.pb", function, X, lower=lower)


@SPELLINGS
def test_cond_in_while(lower: bool, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        def body(i: Any, v: Any) -> Any:
            return i + 1, tf.cond(i % 2 > 0, lambda: v * 2.0, lambda: v - 1.0)

        return tf.while_loop(lambda i, v: i < 5, body, [0, x])[1]

    run(tmp_path / "m.pb", function, X, lower=lower)


@SPELLINGS
def test_while_that_grows(lower: bool, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        shapes = [tf.TensorShape([]), tf.TensorShape([None, 5])]
        grow = lambda i, v: (i + 1, tf.concat([v, v[:1] + 1.0], 0))  # noqa: E731
        return tf.while_loop(lambda i, v: i < 3, grow, [0, x], shapes)[1]

    run(tmp_path / "m.pb", function, X[0], lower=lower)


@SPELLINGS
@pytest.mark.parametrize("free", [False, True], ids=["static", "free"])
def test_list_read_and_written(lower: bool, free: bool, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, tf.shape(x)[0], clear_after_read=False).unstack(x)
        out = tf.TensorArray(tf.float32, tf.shape(x)[0])

        def body(i: Any, out: Any, total: Any) -> Any:
            total = total + rows.read(i)
            return i + 1, out.write(i, total), total

        start = (0, out, tf.zeros_like(x[0]))
        _, out, total = tf.while_loop(lambda i, *_: i < tf.shape(x)[0], body, start)
        return out.stack() + total

    run(tmp_path / "m.pb", function, X[0], lower=lower, free=free)


@SPELLINGS
def test_list_written_backwards_and_in_part(lower: bool, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        out = tf.TensorArray(tf.float32, 6, element_shape=[5])
        body = lambda i, out: (i + 1, out.write(5 - i, x * tf.cast(i, tf.float32)))  # noqa: E731
        back = tf.while_loop(lambda i, _: i < 6, body, (0, out))[1].stack()
        part = tf.TensorArray(tf.float32, 6, element_shape=[5])
        body = lambda i, out: (i + 1, out.write(i, x + tf.cast(i, tf.float32)))  # noqa: E731
        return back + tf.while_loop(lambda i, _: i < 4, body, (0, part))[1].stack()

    run(tmp_path / "m.pb", function, X[0, 0], lower=lower)


def _layers() -> dict[str, Any]:
    keras = tf.keras.layers
    return {
        "lstm": keras.LSTM(6),
        "lstm_sequence": keras.LSTM(6, return_sequences=True),
        "lstm_backwards": keras.LSTM(6, go_backwards=True, return_sequences=True),
        "lstm_unrolled": keras.LSTM(6, unroll=True),
        "gru": keras.GRU(6),
        "gru_sequence": keras.GRU(6, return_sequences=True),
        "rnn": keras.SimpleRNN(6),
        "bidirectional": keras.Bidirectional(keras.LSTM(4, return_sequences=True)),
        "time_distributed": keras.TimeDistributed(keras.Dense(3)),
    }


@SPELLINGS
@pytest.mark.parametrize("free", [False, True], ids=["static", "free"])
@pytest.mark.parametrize(
    "name",
    [
        "lstm",
        "lstm_sequence",
        "lstm_backwards",
        "lstm_unrolled",
        "gru",
        "gru_sequence",
        "rnn",
        "bidirectional",
        "time_distributed",
    ],
)
def test_recurrent_layer(name: str, free: bool, lower: bool, tmp_path: Path) -> None:
    if free and name in ("lstm_unrolled", "time_distributed"):
        pytest.skip("needs a known number of steps")
    layer = _layers()[name]
    layer(X)
    run(tmp_path / "m.pb", lambda x: layer(x), X, lower=lower, free=free)


def test_function_calls_are_inlined(tmp_path: Path) -> None:
    @tf.function
    def inner(a: Any, b: Any) -> Any:
        return a * b, tf.split(a + b, [2, 3], -1)[1]

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2, 7, 5], "x0")
        first, second = inner(x, x + 1.0)
        tf.identity(first[..., :3] + second, "out")
    path = tmp_path / "m.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    assert graph.as_graph_def().library.function
    check(path, {"x0": X}, outputs=["out"])


def test_dynamic_rnn_of_version_1(tmp_path: Path) -> None:
    v1 = tf.compat.v1

    def build() -> None:
        x = v1.placeholder(tf.float32, [2, 7, 5], "x0")
        weight = tf.constant(np.random.default_rng(1).standard_normal((11, 24)).astype(np.float32))
        rows = tf.TensorArray(tf.float32, 7, element_shape=[2, 5]).unstack(tf.transpose(x, [1, 0, 2]))
        out = tf.TensorArray(tf.float32, 7, element_shape=[2, 6])

        def step(i: Any, out: Any, h: Any, c: Any) -> Any:
            gates = tf.matmul(tf.concat([rows.read(i), h], 1), weight)
            a, b, f, o = tf.split(gates, 4, 1)
            c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(a) * tf.tanh(b)
            h = tf.sigmoid(o) * tf.tanh(c)
            return i + 1, out.write(i, h), h, c

        zero = tf.zeros([2, 6])
        _, out, h, _ = v1.while_loop(lambda i, *_: i < 7, step, (0, out, zero, zero))
        tf.add(tf.transpose(out.stack(), [1, 0, 2]), h[:, None], name="out")

    path = graph_v1(tmp_path / "m.pb", build)
    check(path, {"x0": X}, outputs=["out"])


@pytest.mark.parametrize("value", [-1.0, 1.0])
def test_cond_of_version_1(value: float, tmp_path: Path) -> None:
    v1 = tf.compat.v1

    def build() -> None:
        x = v1.placeholder(tf.float32, [1], "x0")
        y = v1.cond(x[0] > 0.0, lambda: tf.constant([1.0]), lambda: tf.constant([2.0]))
        z = v1.cond(x[0] > 0.0, lambda: x * y, lambda: v1.cond(y[0] > 1.0, lambda: x - y, lambda: x))
        tf.identity(z, "out")

    path = graph_v1(tmp_path / "m.pb", build)
    check(path, {"x0": np.float32([value])}, outputs=["out"])
