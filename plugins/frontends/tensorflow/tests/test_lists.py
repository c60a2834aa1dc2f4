"""Lists of tensors as autograph writes them: growing, read while they are written, in conditionals and nested loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2  # noqa: E402

from plugins.frontends.tensorflow.tests.tf_graphs import check  # noqa: E402

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
Function = Callable[[Any, Any], Any]


def grown(**options: Any) -> Any:
    return tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False, **options)


def in_a_for(x: Any, n: Any) -> Any:
    rows = grown()
    for i in tf.range(n):
        rows = rows.write(i, x)
        x = tf.tanh(x)
    return rows.stack()


def in_a_for_from_another_start(x: Any, n: Any) -> Any:
    rows = grown()
    for i in tf.range(2, n + 2):
        rows = rows.write(i - 2, x * tf.cast(i, tf.float32))
    return rows.stack()


def fixed_in_a_for(x: Any, n: Any) -> Any:
    rows = tf.TensorArray(tf.float32, n)
    for i in tf.range(n):
        rows = rows.write(i, tf.reduce_sum(x, 1) * tf.cast(i, tf.float32))
    return rows.stack()


def in_a_while(x: Any, n: Any) -> Any:
    rows, i = grown(), 0
    while i < n:
        rows = rows.write(i, x[0] + tf.cast(i, tf.float32))
        i += 1
    return rows.stack()


def unrolled(x: Any, n: Any) -> Any:
    rows = grown()
    for i in range(3):
        rows = rows.write(i, x * float(i + 1))
    return rows.stack() + tf.cast(rows.size() + n, tf.float32)


def with_gaps(x: Any, n: Any) -> Any:
    return grown(element_shape=[4]).write(n, x[0]).write(n + 3, x[1]).write(1, x[2]).stack()


def of_previous(x: Any, n: Any) -> Any:
    rows = grown().write(0, x[0])
    for i in tf.range(1, n):
        rows = rows.write(i, rows.read(i - 1) * 0.5 + x[i])
    return rows.stack()


def in_a_conditional(x: Any, n: Any) -> Any:
    rows = grown()
    for i in tf.range(n):
        if tf.reduce_sum(x[i]) > 0.0:
            rows = rows.write(rows.size(), x[i])
    return rows.stack() + tf.cast(rows.size(), tf.float32)


def in_both_branches(x: Any, n: Any) -> Any:
    rows = grown()
    if n > 3:
        rows = rows.write(0, x)
        rows = rows.write(1, x * 2.0)
    else:
        rows = rows.write(0, -x)
    return rows.stack()


def until_a_break(x: Any, n: Any) -> Any:
    rows = grown()
    for i in tf.range(n):
        x = x * 1.5
        rows = rows.write(i, x)
        if tf.reduce_max(x) > 4.0:
            break
    return rows.stack()


def in_nested_loops(x: Any, n: Any) -> Any:
    rows = grown()
    for i in tf.range(n):
        for j in tf.range(2):
            rows = rows.write(i * 2 + j, x[i] + tf.cast(j, tf.float32))
    return rows.stack()


def at_its_own_size(x: Any, n: Any) -> Any:
    rows = grown()
    for i in tf.range(n):
        rows = rows.write(rows.size(), x[i] * 2.0)
    return rows.stack()


def one_inside_another(x: Any, n: Any) -> Any:
    rows = grown()
    for i in tf.range(n):
        cells = grown()
        for j in tf.range(3):
            cells = cells.write(j, x[i, j] * 2.0)
        rows = rows.write(i, cells.stack())
    return rows.stack()


def joined(x: Any, n: Any) -> Any:
    rows = grown()
    for i in tf.range(n):
        rows = rows.write(i, x[:2] * tf.cast(i, tf.float32))
    return rows.concat()


def two_lists(x: Any, n: Any) -> Any:
    up, down = grown(), grown()
    for i in tf.range(n):
        up = up.write(i, x[i])
        down = down.write(n - 1 - i, x[i])
    return up.stack() + down.stack()


def the_last_of_one(x: Any, n: Any) -> Any:
    row = tf.TensorArray(tf.float32, 1)
    for i in tf.range(n):
        row = row.write(0, x[i] * 3.0)
    return row.stack()


def pushed(x: Any, n: Any) -> Any:
    rows = tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=tf.float32)
    for i in tf.range(n):
        rows = tf.raw_ops.TensorListPushBack(input_handle=rows, tensor=x[i])
    return tf.raw_ops.TensorListStack(input_handle=rows, element_shape=[4], element_dtype=tf.float32)


def resized(x: Any, n: Any) -> Any:
    rows = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[4])
    rows = tf.raw_ops.TensorListResize(input_handle=rows, size=n + 4)
    return tf.raw_ops.TensorListStack(input_handle=rows, element_shape=[4], element_dtype=tf.float32)


def split(x: Any, n: Any) -> Any:
    return grown().split(x * tf.cast(n, tf.float32), [2, 2, 2]).stack()


GROWING = (
    in_a_for, in_a_for_from_another_start, fixed_in_a_for, in_a_while, unrolled, with_gaps, of_previous,
    in_a_conditional, in_both_branches, until_a_break, in_nested_loops, at_its_own_size, one_inside_another, joined,
    two_lists, the_last_of_one, pushed, resized, split,
)  # fmt: skip


def written(path: Path, function: Function, free: bool, lower: bool = False) -> Path:
    shape = [None, None] if free else X.shape
    specs = [tf.TensorSpec(shape, tf.float32, "x"), tf.TensorSpec([], tf.int32, "n")]
    concrete = tf.function(function, input_signature=specs).get_concrete_function()
    graph = convert_variables_to_constants_v2(concrete, lower_control_flow=lower).graph
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


@pytest.mark.parametrize("free", [False, True], ids=["static", "free"])
@pytest.mark.parametrize("function", GROWING, ids=lambda f: f.__name__)
def test_list(function: Function, free: bool, tmp_path: Path) -> None:
    session = check(written(tmp_path / "m.pb", function, free), {"x": X, "n": np.int32(4).reshape(())})
    if function in (in_a_for, in_a_for_from_another_start, fixed_in_a_for, in_a_while, joined, pushed):
        (loop,) = [node for node in session.graph.nodes if node.op == "Loop"]
        assert not any(node.op in ("ScatterND", "Concat") for node in loop.attrs["body"].nodes), "a scan sets nothing"


@pytest.mark.parametrize("function", [in_a_for, unrolled, of_previous, in_nested_loops], ids=lambda f: f.__name__)
def test_list_of_the_older_spelling(function: Function, tmp_path: Path) -> None:
    check(written(tmp_path / "m.pb", function, False, lower=True), {"x": X, "n": np.int32(4).reshape(())})


def test_growing_list_of_version_1(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [6, 4], "x")
            rows = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            body = lambda i, rows: (i + 1, rows.write(i, x[i] * 2.0))  # noqa: E731
            rows = tf.while_loop(lambda i, _: i < 3, body, (0, rows))[1].write(4, x[5])
            tf.identity(rows.stack(), name="out")
            parts = tf.TensorArray(tf.float32, 0, dynamic_size=True).write(0, x[:2]).write(1, x[2:4])
            tf.identity(parts.concat(), name="joined")
    finally:
        v1.enable_control_flow_v2()
    path = tmp_path / "m.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    check(path, {"x": X}, outputs=["out", "joined"])
