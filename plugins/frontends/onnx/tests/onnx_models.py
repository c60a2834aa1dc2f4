"""Builds small models, and compares what the frontend makes of them with onnxruntime and ``onnx.reference``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from autofusion.frontends import LoadOptions
from autofusion.ir.graph import Graph
from autofusion_frontend_onnx.load import import_model
from autofusion_kernels_reference.evaluate import run_graph

Arrays = Mapping[str, np.ndarray | None]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    outputs: Sequence[str],
    *,
    opset: int = 17,
    constants: Arrays | None = None,
    ir_version: int = 10,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    dynamic: bool = False,
) -> onnx.ModelProto:
    """A model of ``nodes``; input types are those of the arrays, with symbolic dims if ``dynamic``."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(a.dtype),
                [f"{name}{i}" for i in range(a.ndim)] if dynamic else list(a.shape),
            )
            for name, a in inputs.items()
            if a is not None
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in (constants or {}).items() if a is not None],
    )
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, v) for d, v in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=list(functions))


def load(source: onnx.ModelProto, path: Path | str = "model.onnx", **options: Any) -> Graph:
    """The IR graph of a model."""
    return import_model(source, Path(path), LoadOptions(**options))


def run(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """The graph's outputs, by the reference kernels."""
    names = {v.name for v in graph.inputs}
    return run_graph(graph, {k: v for k, v in inputs.items() if k in names})


def ort(source: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    """What onnxruntime without optimisations makes of the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # some of its kernels round by how the batch is cut among threads
    session = onnxruntime.InferenceSession(source.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {k: v for k, v in inputs.items() if v is not None})


def assert_same(got: Sequence[Any], expected: Sequence[Any], rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Same dtypes, shapes and (nearly) values."""
    assert len(got) == len(expected)
    for index, (a, b) in enumerate(zip(got, expected, strict=True)):
        if isinstance(b, list):
            assert_same(a, b, rtol, atol)
            continue
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape, (index, a.dtype, b.dtype, a.shape, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=f"output {index}")


def check_against_ort(
    source: onnx.ModelProto, inputs: Arrays, *, opaque: Sequence[str] = (), rtol: float = 1e-5, atol: float = 1e-6
) -> Graph:
    """Load, run both, compare. No node may be left in a custom domain, but for ``opaque``."""
    graph = load(source)
    left = sorted({n.op for n in graph.nodes if "::" in n.op} - set(opaque))
    assert not left, f"not converted: {left}"
    assert_same(run(graph, inputs), ort(source, inputs), rtol, atol)
    return graph
