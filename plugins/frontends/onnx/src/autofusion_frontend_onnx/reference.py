"""The model run by ONNX's own tools, as it is: the reference that results are compared with.

onnxruntime with its optimisations off where it is installed and takes the model, otherwise the evaluator of ``onnx``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from autofusion.frontends import LoadOptions, ModelError, PluginError, Reference
from autofusion_frontend_onnx.proto import read_model

_Run = Callable[[list[str] | None, Mapping[str, np.ndarray]], Sequence[Any]]


def reference(path: Path, options: LoadOptions) -> Reference:
    """A function from inputs by name to outputs by name; raise ModelError if no evaluator takes the model."""
    source = read_model(path)
    if options.inputs:
        names = list(options.outputs) or [o.name for o in source.graph.output]
        source = _extracted(path, list(options.inputs), names)
    elif options.outputs:
        known = {o.name for o in source.graph.output}
        source.graph.output.extend(onnx.ValueInfoProto(name=n) for n in options.outputs if n not in known)
    outputs = list(options.outputs) or [o.name for o in source.graph.output]
    changed = bool(options.inputs or options.outputs)
    run = _first_that_takes_it(path, source if changed else None)

    def compute(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            results = run(outputs, inputs)
        except Exception as error:  # each evaluator raises classes of its own
            raise ModelError(f"'{path}' cannot be run by its own tools: {error}") from error
        return dict(zip(outputs, results, strict=True))

    return compute


def _extracted(path: Path, inputs: list[str], outputs: list[str]) -> onnx.ModelProto:
    from onnx.utils import Extractor

    try:
        return Extractor(onnx.shape_inference.infer_shapes(onnx.load(path))).extract_model(inputs, outputs)
    except Exception as error:
        raise ModelError(f"'{path}' cannot be cut at {inputs} and {outputs}: {error}") from error


def _first_that_takes_it(path: Path, source: onnx.ModelProto | None) -> _Run:
    problems = []
    for package, make in (("onnxruntime", _onnxruntime), ("onnx", _evaluator)):
        if find_spec(package) is None:
            problems.append(f"{package} is not installed (pip install {package})")
            continue
        try:
            return make(path, source)
        except Exception as error:
            problems.append(f"{package}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    raise PluginError(f"no reference can run '{path}': {'; '.join(problems)}")


def _onnxruntime(path: Path, source: onnx.ModelProto | None) -> _Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    model = str(path) if source is None else source.SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run


def _evaluator(path: Path, source: onnx.ModelProto | None) -> _Run:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(str(path) if source is None else source).run
