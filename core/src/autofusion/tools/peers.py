"""Other runtimes to measure against, each in its best float32 setting. Imported only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from autofusion.errors import OptionError, PluginError, nearest
from autofusion.tools.bench import Run

Feeds = Mapping[str, np.ndarray]


def peer(name: str, path: Path, feeds: Feeds, threads: int) -> Run:
    """A callable that runs the model at ``path`` on ``feeds`` in another runtime; PluginError if that is not
    installed.
    """
    if name not in PEERS:
        raise OptionError(f"unknown runtime '{name}': expected one of {', '.join(PEERS)}{nearest(name, PEERS)}")
    try:
        return PEERS[name](path, feeds, threads)
    except ImportError as error:
        raise PluginError(f"cannot compare with '{name}': {error}; install it with pip install {name}") from error


def _onnxruntime(path: Path, feeds: Feeds, threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = dict(feeds)
    return lambda: session.run(None, given)


def _openvino(path: Path, feeds: Feeds, threads: int) -> Run:
    import openvino

    core = openvino.Core()
    model = core.read_model(str(path))
    model.reshape({name: list(array.shape) for name, array in feeds.items()})
    # Without the precision hint it runs bfloat16 where the machine has it, which is another computation.
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": str(threads)}
    request = core.compile_model(model, "CPU", hints).create_infer_request()
    given = dict(feeds)
    return lambda: request.infer(given, share_inputs=True, share_outputs=True)


PEERS: dict[str, Callable[[Path, Feeds, int], Run]] = {"onnxruntime": _onnxruntime, "openvino": _openvino}
