"""Small TensorFlow graphs, frozen to files, and the comparison of Autofusion with TensorFlow on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import autofusion as af
from autofusion.frontends import LoadOptions
from autofusion_frontend_tensorflow.frontend import TensorflowFrontend

Arrays = Mapping[str, np.ndarray]
LEVELS = ("off", "full")


def frozen(path: Path, function: Callable[..., Any], specs: Sequence[tf.TensorSpec], *, lower: bool = False) -> Path:
    """Write ``function`` as a frozen graph; ``lower`` spells its control flow in Switch and Merge nodes."""
    # No function here has conditions or loops of Python's own, and the search for them takes most of the time.
    concrete = tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
    graph = convert_variables_to_constants_v2(concrete, lower_control_flow=lower).graph
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def graph_v1(path: Path, build: Callable[[], Any]) -> Path:
    """Write the graph that ``build`` makes in the style of TensorFlow 1."""
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            build()
    finally:
        v1.enable_control_flow_v2()
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def specs_of(arrays: Sequence[np.ndarray], free: Sequence[int] = ()) -> list[tf.TensorSpec]:
    """Signatures ``x0, x1, ...``; the axes in ``free`` are left open."""
    return [
        tf.TensorSpec([None if a in free else d for a, d in enumerate(x.shape)], x.dtype, f"x{i}")
        for i, x in enumerate(arrays)
    ]


def expected(path: Path, feeds: Arrays, outputs: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """What TensorFlow gives."""
    return TensorflowFrontend().reference(path, LoadOptions(outputs=tuple(outputs)))(feeds)


def check(
    path: Path,
    feeds: Arrays,
    *,
    levels: Sequence[str] = LEVELS,
    outputs: Sequence[str] = (),
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> Any:
    """Every level gives what TensorFlow gives; returns the session of the last."""
    wanted = expected(path, feeds, outputs)
    session = None
    for level in levels:
        session = af.compile(path, level=level, threads=1, outputs=outputs)
        got = session.run(feeds)
        assert sorted(got) == sorted(wanted)
        for name, want in wanted.items():
            value = np.asarray(got[name])
            assert value.dtype == want.dtype, f"{level} '{name}': type {value.dtype}, expected {want.dtype}"
            np.testing.assert_allclose(value, want, rtol=rtol, atol=atol, err_msg=f"level {level}, output '{name}'")
    return session


def agree(
    path: Path, function: Callable[..., Any], *arrays: np.ndarray, free: Sequence[int] = (), **options: Any
) -> Any:
    """Freeze ``function`` and check it on ``arrays``."""
    frozen(path, function, specs_of(arrays, free))
    return check(path, {f"x{i}": x for i, x in enumerate(arrays)}, **options)
