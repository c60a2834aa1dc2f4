"""Steps that other runtimes leave of a model. Imported only when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.errors import OptionError, PluginError, nearest

_FREE = frozenset(
    {"Constant", "Flatten", "Identity", "ReorderInput", "ReorderOutput", "Reshape", "Squeeze", "Unsqueeze"}
)
"""Views and changes of layout, which are not counted here either."""
_FREE_LAYERS = frozenset({"Const", "Constant", "Input", "Output", "Parameter", "Reorder", "Reshape", "Result"})


def require_peer(name: str) -> None:
    """Raise OptionError for a runtime that is not known, PluginError for one that is not installed."""
    if name not in _COUNTERS:
        known = ", ".join(_COUNTERS)
        raise OptionError(f"unknown runtime '{name}': expected one of {known}{nearest(name, _COUNTERS)}")
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise PluginError(f"cannot compare with '{name}': {error}; install it with pip install {name}") from error


def steps_of_peer(name: str, path: Path, feeds: Mapping[str, np.ndarray]) -> int | None:
    """Steps that the runtime leaves of the ONNX model at ``path``; None if it does not load it."""
    try:
        return _COUNTERS[name](path, feeds)
    except Exception:  # whatever another runtime raises for a model that it does not take
        return None


def _onnxruntime(path: Path, feeds: Mapping[str, np.ndarray]) -> int:
    import onnx
    import onnxruntime

    optimised = path.with_suffix(".optimised.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(optimised)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return sum(node.op_type not in _FREE for node in onnx.load(optimised).graph.node)


def _openvino(path: Path, feeds: Mapping[str, np.ndarray]) -> int:
    import openvino

    core: Any = openvino.Core()
    compiled = core.compile_model(core.read_model(str(path)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    operations = compiled.get_runtime_model().get_ops()
    kinds = [op.get_rt_info()["layerType"].astype(str) for op in operations]
    return sum(kind not in _FREE_LAYERS for kind in kinds)


_COUNTERS: dict[str, Callable[[Path, Mapping[str, np.ndarray]], int]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}
