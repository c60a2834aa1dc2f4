"""One-node graphs, and the same node as an ONNX model, for tests that compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from autofusion.ir.graph import Graph, Node
from autofusion.ir.operators.schema import OPSET
from autofusion.ir.types import of_array
from autofusion_kernels_reference.evaluate import evaluate


def make_node(op: str, inputs: Sequence[Any], outputs: int = 1, **attrs: Any) -> Node:
    """A node of a new graph whose operands have the types of ``inputs``."""
    graph = Graph()
    operands = [
        None if x is None else graph.add_input(f"x{i}", of_array(x) if isinstance(x, np.ndarray) else None)
        for i, x in enumerate(inputs)
    ]
    return graph.node(op, operands, attrs, outputs=outputs)


def run(op: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> Any:
    """The result (or results) of one node."""
    results = evaluate(make_node(op, inputs, outputs, **attrs), inputs)
    return results[0] if outputs == 1 else results


def model(op: str, inputs: Sequence[Any], outputs: int, opset: int = OPSET, **attrs: Any) -> onnx.ModelProto:
    """The node as an ONNX model."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    proto_attrs = {
        k: helper.np_dtype_to_tensor_dtype(v)
        if isinstance(v, np.dtype)
        else numpy_helper.from_array(v)
        if isinstance(v, np.ndarray)
        else v
        for k, v in attrs.items()
    }
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **proto_attrs)
    operands = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    graph = helper.make_graph([node], "g", operands, [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def onnxruntime(op: str, *inputs: Any, outputs: int = 1, opset: int = OPSET, **attrs: Any) -> Any:
    """The result (or results) of one node of operator set ``opset`` by onnxruntime, unoptimised."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    made = model(op, inputs, outputs, opset, **attrs).SerializeToString()
    session = ort.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    results = session.run(None, {f"x{i}": x for i, x in enumerate(inputs) if x is not None})
    return results[0] if outputs == 1 else results
